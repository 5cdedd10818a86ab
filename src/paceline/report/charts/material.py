"""What charts are made of, and what several kinds of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.labels import where
from paceline.analysis.rows.row import Row
from paceline.report.charts.axes import Axis
from paceline.report.charts.captions import WITHOUT_RESULT, names, numbered
from paceline.report.charts.marks import Mark, Place
from paceline.report.charts.style import COLOURS, DASHES, SHAPES, Look, text_width
from paceline.store.series import Series

Link = Callable[[Row], str]
Samples = Mapping[str, Sequence[Mark]]  # of a legend, in points around its place

MOST_CELLS = 24  # bars that are still read
MOST_INTERVAL = 1.5  # times the largest value: a longer one would have the picture to itself
MOST_LINES = len(SHAPES)  # that are still told apart in grey print


@dataclass(frozen=True)
class ChartData:
    """Rows that may be drawn together."""

    rows: Sequence[Row]
    series: Series
    href: Link  # from a row to where its runs are


@dataclass(frozen=True)
class Panel:
    """What is drawn between two axes."""

    across: Axis
    up: Axis
    size: tuple[int, int]
    marks: Sequence[Mark]

    def at(self, place: Place) -> Place:
        """In points from its upper left corner."""
        wide, high = self.size
        return self.across.place(place[0], wide), round(high - self.up.place(place[1], high), 2)

    @property
    def columns(self) -> list[tuple[float, str]]:
        return self.across.labels(self.size[0])

    @property
    def lines(self) -> list[tuple[float, str]]:
        return [(self.at((self.across.ends[0], value))[1], label) for value, label in self.up.ticks]

    @property
    def before(self) -> float:
        """How far it goes to the left of its axes."""
        return 9 + max(text_width(label) for _, label in self.up.ticks) + (20 if self.up.title else 0)

    @property
    def after(self) -> float:
        """How far labels go beyond its axes to the right."""
        ends = [self.at(mark.places[0])[0] + mark.length - self.size[0] for mark in self.marks]
        return max(*ends, text_width(self.across.ticks[-1][1]) / 2)


@dataclass(frozen=True)
class Drawing:
    """A chart without its title."""

    panels: Sequence[Panel]
    values_in_words: Sequence[str]  # the numbers that matter, in words
    notes: Sequence[str] = field(default_factory=tuple)  # limits, failures, doubts
    legend: Samples = field(default_factory=dict)


class Cell(NamedTuple):
    line: int
    name: str
    row: Row
    href: str


def fastest(data: ChartData) -> tuple[list[Cell], list[str]]:
    """What a chart with a line for each cell can show, those of the same devices together; and what it leaves out."""
    ranked = sorted(data.rows, key=slowness)
    kept = sorted(ranked[:MOST_CELLS], key=lambda row: (row.device_count, where(row), slowness(row)))
    left = ranked[MOST_CELLS:]
    notes = [f"{len(kept)} of {len(data.rows)} cells, the fastest"] if left else []
    lost = {state: sum(row.status == state for row in left) for state in WITHOUT_RESULT}
    notes += [f"not shown: {count} {state}" for state, count in lost.items() if count]
    called = zip(numbered(names(kept)), kept, strict=True)
    return [Cell(line, name, row, data.href(row)) for line, (name, row) in enumerate(called)], notes


def slowness(row: Row) -> float:
    """To sort by: the fastest first, and last what has no speed."""
    return -(row.median(SPEED) or 0.0)


class LineLook(NamedTuple):
    """Of a line among others: its colour, and what remains of it in grey print."""

    colour: str
    dash: str
    shape: str

    def line(self, places: Sequence[Place], width: float = 1.75) -> Mark:
        look: Look = {"fill": "none", "stroke": self.colour, "stroke-width": width, "stroke-dasharray": self.dash}
        return Mark("line", places, look)

    def point(self, place: Place, *, hollow: bool = False, told: str = "", href: str = "") -> Mark:
        look: Look = {
            "fill": self.colour,
            "stroke": self.colour,
            "stroke-width": 1.5,
            "fill-opacity": 0 if hollow else 1,
        }
        return Mark("point", [place], look, shape=self.shape, told=told, href=href)


def line_looks(called: Iterable[str]) -> dict[str, LineLook]:
    """Of each name, in the order in which they first come."""
    return {name: LineLook(*look) for name, *look in zip(dict.fromkeys(called), COLOURS, DASHES, SHAPES, strict=False)}


def samples(called: Iterable[str]) -> Samples:
    return {name: [look.line([(-13, 0), (13, 0)]), look.point((0, 0))] for name, look in line_looks(called).items()}
