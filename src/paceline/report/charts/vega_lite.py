"""What charts are made of, and the parts of a specification that all of them share.

Specifications are plain Vega-Lite dictionaries and not altair objects: a report holds some eighty charts, and altair
takes 40 ms to build one of six layers, with its checks or without, twice as long as drawing it. A test holds each kind
against altair's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.labels import where
from paceline.analysis.rows.row import Row
from paceline.report.charts.captions import WITHOUT_RESULT, names, numbered
from paceline.report.charts.style import DASHES, SHAPES, Spec
from paceline.store.series import Series

Link = Callable[[Row], str]

MOST_CELLS = 24  # bars that are still read
MOST_INTERVAL = 1.5  # times the largest value: a longer one would have the picture to itself
MOST_LINES = len(SHAPES)  # that are still told apart in grey print


@dataclass(frozen=True)
class ChartData:
    """Rows that may be drawn together."""

    rows: Sequence[Row]
    series: Series
    link: Link | None = None  # from a row to where its runs are

    def linked(self, row: Row, told: str) -> Spec:
        """Fields of a mark that leads to its cell, and what it is called there."""
        return {"told": told, **({"href": self.link(row)} if self.link else {})}

    def href(self) -> Spec:
        return {"href": {"field": "href", "type": "nominal"}} if self.link else {}

    def links(self) -> Spec:
        """Channels for these fields."""
        return {**self.href(), "description": {"field": "told", "type": "nominal"}}


@dataclass(frozen=True)
class Drawing:
    """A chart without its title."""

    body: Spec
    values_in_words: Sequence[str]  # the numbers that matter, in words
    notes: Sequence[str] = field(default_factory=tuple)  # limits, failures, doubts


@dataclass(frozen=True)
class ChartedRows:
    """The rows that a chart with a place for each cell can show."""

    rows: Sequence[Row]
    names: Sequence[str]
    notes: Sequence[str]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> ChartedRows:
        """The fastest; those of the same devices stand together."""
        ranked = sorted(rows, key=slowness)
        kept = sorted(ranked[:MOST_CELLS], key=lambda row: (row.device_count, where(row), slowness(row)))
        left = ranked[MOST_CELLS:]
        notes = [f"{len(kept)} of {len(rows)} cells, the fastest"] if left else []
        lost = {state: sum(row.status == state for row in left) for state in WITHOUT_RESULT}
        notes += [f"not shown: {count} {state}" for state, count in lost.items() if count]
        return cls(kept, numbered(names(kept)), notes)

    @property
    def named(self) -> dict[str, Row]:
        return dict(zip(self.names, self.rows, strict=True))

    def line(self) -> Spec:
        """The channel that gives each cell its line."""
        return {"field": "cell", "type": "nominal", "scale": {"domain": list(self.names)}, "axis": None}


def slowness(row: Row) -> float:
    """To sort by: the fastest first, and last what has no speed."""
    return -(row.median(SPEED) or 0.0)


def layer(mark: Spec, values: Sequence[Spec], **channels: Spec) -> Spec:
    return {"data": {"values": list(values)}, "mark": mark, "encoding": channels}


def silent(kind: str, **properties: object) -> Spec:
    """A mark that says nothing which another one does not say."""
    return {"type": kind, "aria": False, **properties}


def amount(name: str, title: str | None, *, zero: bool = True, **axis: object) -> Spec:
    """A channel for a number."""
    return {"field": name, "type": "quantitative", "title": title, "scale": {"zero": zero}, "axis": dict(axis)}


def words(values: Sequence[Spec], side: str, **channels: Spec) -> Spec:
    """A layer of texts next to their places: each value has them as `said`.

    They go as descriptions of spaces, which `drawing` then fills: the converter would measure every letter of them.
    """
    mark = {"type": "text", "align": side, "dx": 6 if side == "left" else -6}
    said = {"description": {"field": "said", "type": "nominal"}, "text": {"value": " "}}
    return layer(mark, values, **channels, **said)


def dashes(called: Sequence[str]) -> dict[str, list[int]]:
    """Of each line, as a value of its points: in a legend it would be drawn around their shapes."""
    return {name: list(dash) for name, dash in zip(called, DASHES, strict=False)}


def distinct_lines(called: Sequence[str]) -> dict[str, Spec]:
    """Channels for lines: colour, and what remains of them in grey print."""
    domain = list(called)
    base: Spec = {"field": "line", "type": "nominal", "title": None}
    return {
        "color": {**base, "scale": {"domain": domain}, "legend": {"symbolOpacity": 1}},
        "strokeDash": {"field": "dash", "type": "nominal", "scale": None},
        "shape": {**base, "scale": {"domain": domain, "range": list(SHAPES[: len(domain)])}},
    }
