"""Charts of one number against another: speed-up against devices, speed against batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.labels import where
from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.charts import axes
from paceline.report.charts.axes import Axis
from paceline.report.charts.captions import WITHOUT_RESULT, about, counted, doubts, kind_of_device, names, numbered
from paceline.report.charts.marks import Mark, aim
from paceline.report.charts.material import (
    MOST_INTERVAL,
    MOST_LINES,
    ChartData,
    Drawing,
    Panel,
    line_looks,
    samples,
    slowness,
)
from paceline.report.charts.style import INTERVAL, PANEL_HEIGHT, PANEL_WIDTH, WIDTH
from paceline.system.text.formatting import number


class LinePoint(NamedTuple):
    line: str
    at: int
    value: Estimate
    row: Row

    @property
    def reach(self) -> float:
        """The upper end of its interval."""
        return self.value.median if self.value.high is None else self.value.high


def scaling(data: ChartData) -> Drawing | None:
    """Speed-up against devices with the ideal line, and efficiency."""
    alike = [row for row in data.rows if not (row.cell.wrapped or row.cell.slow or _has_different_devices(row))]
    points, notes = _points(alike, BY_DEVICES)
    most = max((point.at for point in points), default=1)
    if most == 1:
        return None
    parts = [point._replace(value=_divided(point.value, point.at)) for point in points]
    across = axes.counts("devices", [1, *(point.at for point in points)], grid=False)
    kinds = " and ".join(sorted({point.row.cell.scaling for point in points}))
    drawn = [
        _panel(across, f"speed-up ({kinds} scaling)", points, data, BY_DEVICES, ideal=(1, most)),
        _panel(across, "speed-up ÷ devices", parts, data, BY_DEVICES, ideal=(1, 1)),
    ]
    left = len(data.rows) - len(alike)
    notes += [f"without {left} cells of unlike, slowed or wrapped devices"] if left else []
    in_words = [_scaling_text(point) for point in points if point.at > 1]
    legend = samples(point.line for point in points)
    return Drawing(drawn, in_words, [*notes, *_cut_notes(points, parts)], legend)


def _has_different_devices(row: Row) -> bool:
    """Whether its devices have unlike shares, or no speed-up that is one number."""
    return len(set(row.shares)) > 1 or len(row.scaling_against) > 1


def _speed_up(row: Row) -> Estimate | None:
    return None if row.scaling is None else Estimate(row.scaling, *(row.scaling_interval or ()))


def _divided(value: Estimate, count: int) -> Estimate:
    ends = () if value.low is None or value.high is None else (value.low / count, value.high / count)
    return Estimate(value.median / count, *ends)


def _scaling_text(point: LinePoint) -> str:
    row, count = point.row, point.at
    between = f" ({row.scaling_interval[0]:.2f}–{row.scaling_interval[1]:.2f})" if row.scaling_interval else ""
    speed_up = f"{row.scaling or 0.0:.2f}×{between}, efficiency {row.efficiency or 0.0:.0%}"
    return f"{point.line} on {count} device{'s' if count > 1 else ''} {speed_up}"


def batch(data: ChartData) -> Drawing | None:
    """Images/s against the images of a step."""
    points, notes = _points([row for row in data.rows if not row.command], BY_BATCH)
    lines = dict.fromkeys(point.line for point in points)
    if len(points) == len(lines):
        return None  # each line is a point
    across = axes.counts("images of a step, on all devices", [point.at for point in points], logarithmic=True)
    best = [
        min((point for point in points if point.line == line), key=lambda each: -each.value.median) for line in lines
    ]
    in_words = [f"fastest {_speed_text(point)}" for point in best]
    panel = _panel(across, "images/s", points, data, BY_BATCH)
    return Drawing([panel], in_words, [*notes, *_cut_notes(points)], samples(lines))


def _speed_text(point: LinePoint) -> str:
    return f"{point.line} at batch {point.at} {number(point.value.median)} images/s"


@dataclass(frozen=True)
class LineAxis:
    """What is set against what."""

    place: Callable[[Row], int]
    place_text: Callable[[Row], str]  # a place in words
    distinguished_by: Sequence[Callable[[Row], str]]  # what makes lines of their own where it differs
    value: Callable[[Row], Estimate | None]
    told: Callable[[LinePoint], str]


BY_DEVICES = LineAxis(lambda row: row.device_count, where, (kind_of_device,), _speed_up, _scaling_text)
BY_BATCH = LineAxis(
    place=lambda row: row.cell.batch_size,
    place_text=lambda row: f"batch {row.cell.batch_size}",
    distinguished_by=(where,),
    value=lambda row: row.estimate(SPEED),
    told=_speed_text,
)


def _points(rows: Sequence[Row], along: LineAxis) -> tuple[list[LinePoint], list[str]]:
    """One for each place of a line, and of the lines the fastest; and what must be said of the rest."""
    called = list(zip(_called(rows, along), rows, strict=True))
    found: dict[tuple[str, int], LinePoint] = {}
    alike = 0
    for name, row in called:
        value = along.value(row)
        if value and row.status not in WITHOUT_RESULT:
            point = LinePoint(name, along.place(row), value, row)
            alike += found.setdefault((name, point.at), point) is not point
    ranked = list(dict.fromkeys(point.line for point in sorted(found.values(), key=lambda each: slowness(each.row))))
    kept, left_out = ranked[:MOST_LINES], ranked[MOST_LINES:]
    shown = sorted((point for point in found.values() if point.line in kept), key=lambda point: point.at)
    notes = [f"{len(kept)} of {len(ranked)} lines, the fastest"] if left_out else []
    notes += counted(alike, "cell of the same name is left out", "cells of the same name are left out")
    listed = {f"{name} {along.place_text(row)}": row for name, row in called if name not in left_out}
    return shown, [*notes, *about(listed.items())]


def _called(rows: Sequence[Row], along: LineAxis) -> list[str]:
    """The line of each row: short, and still two where the whole names are."""
    whole = names(rows, along.distinguished_by, along.place)
    lines = list(dict.fromkeys(whole))
    shown = dict(zip(lines, numbered(lines), strict=True))
    return [shown[name] for name in whole]


def _highest(points: Sequence[LinePoint]) -> float:
    """To which intervals are drawn."""
    return MOST_INTERVAL * max(point.value.median for point in points)


def _cut_notes(*panels: Sequence[LinePoint]) -> list[str]:
    """How many points have an interval that goes on, in one panel or another."""
    cut = {point[:2] for points in panels for point in points if point.reach > _highest(points)}
    return counted(len(cut), "interval goes on beyond the picture", "intervals go on beyond the picture")


def _panel(
    across: Axis,
    title: str,
    points: Sequence[LinePoint],
    data: ChartData,
    along: LineAxis,
    ideal: tuple[float, float] | None = None,
) -> Panel:
    """With what is ideal for the fewest devices and for the most: then it has a panel beside it, and is smaller."""
    looks, highest = line_looks(point.line for point in points), _highest(points)
    marks = [
        Mark("interval", [(at, value.low), (at, min(value.high, highest))], {**INTERVAL, "stroke": looks[line].colour})
        for line, at, value, _ in points
        if value.low is not None and value.high is not None
    ]
    for line, look in looks.items():
        marks.append(look.line([(point.at, point.value.median) for point in points if point.line == line]))
    for point in points:
        place, hollow = (point.at, point.value.median), bool(doubts(point.row))
        told, href = along.told(point), data.href(point.row)
        marks.append(looks[point.line].point(place, hollow=hollow, told=told, href=href))
    if ideal:
        first, last = zip(across.ends, ideal, strict=True)
        marks += aim(first, last, "ideal")
    values = [*(min(point.reach, highest) for point in points), *(ideal or ())]
    up = axes.amounts(title, values, percent=ideal == (1, 1))
    return Panel(across, up, (PANEL_WIDTH if ideal else WIDTH, PANEL_HEIGHT), marks)
