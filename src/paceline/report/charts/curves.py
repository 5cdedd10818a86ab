"""Charts of how training went: loss and accuracy, against seconds and against images."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from paceline.analysis.rows.row import Row
from paceline.report.charts import axes
from paceline.report.charts.captions import MOST_DESCRIBED, MOST_NAMED, WITHOUT_RESULT, about, names, numbered
from paceline.report.charts.marks import Mark, Place, aim
from paceline.report.charts.material import MOST_LINES, ChartData, Drawing, Panel, line_looks, samples, slowness
from paceline.report.charts.style import PANEL_HEIGHT, PANEL_WIDTH
from paceline.report.escaping import few
from paceline.store.series import Moment
from paceline.system.text.formatting import number

MOST_POINTS = 30  # of a curve; a picture has no room for more
Moments = Mapping[str, Sequence[Moment]]  # of each run
Value = Callable[[Moment], float | None]


class CurvePoint(NamedTuple):
    """Medians of the runs at one moment, and between what they lie."""

    seconds: float
    images: float
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        between = f" ({self.low:.3f}–{self.high:.3f})" if self.low < self.high else ""
        return f"{self.value:.3f}{between} after {number(self.seconds)} s and {self.images:,.0f} images"


class Curve(NamedTuple):
    name: str
    row: Row
    points: Sequence[CurvePoint]
    thin: Sequence[CurvePoint] = ()


def loss(data: ChartData) -> Drawing | None:
    """Training loss of each block."""
    curves, without, notes = _curves(data, data.series.blocks, lambda moment: moment.train_loss)
    if not any(len(curve.points) > 1 for curve in curves):
        return None  # a single point is no course
    known = {**{curve.name: curve.row for curve in curves}, **without}
    return _drawing("training loss", curves, data, [*_diverged(known, data.series.blocks), *notes])


def _diverged(rows: Mapping[str, Row], blocks: Moments) -> list[str]:
    """Where lines end before training did, or do not even begin."""
    texts = []
    for name, row in rows.items():
        runs = [[moment.train_loss for moment in found] for run in row.runs if (found := blocks.get(run))]
        ends = [losses.index(None) for losses in runs if None in losses]
        if ends:
            texts.append(f"{name}: loss is no number from block {min(ends) + 1} on ({len(ends)} of {len(runs)} runs)")
    left = len(texts) - MOST_DESCRIBED
    more = f"more cell{'s' if left > 1 else ''} whose loss is no number"
    return [*texts[:MOST_DESCRIBED], *([f"{left} {more}"] if left > 0 else [])]


def accuracy(data: ChartData) -> Drawing | None:
    """Test accuracy after each epoch; training accuracy as thin lines."""
    epochs = data.series.epochs
    tested, _, notes = _curves(data, epochs, lambda moment: moment.test_accuracy)
    if not tested:
        return None
    curves = [curve._replace(thin=_course(curve.row, epochs, lambda moment: moment.train_accuracy)) for curve in tested]
    targets = sorted({curve.row.target for curve in curves if curve.row.target})
    return _drawing("accuracy", curves, data, notes, targets=targets, percent=True)


def _curves(data: ChartData, moments: Moments, value: Value) -> tuple[list[Curve], dict[str, Row], list[str]]:
    """The fastest cells that have a course, those that have a result but no course, and what must be said of them."""
    ranked = sorted(data.rows, key=slowness)
    named = dict(zip(numbered(names(ranked)), ranked, strict=True))
    found = [Curve(name, row, points) for name, row in named.items() if (points := _course(row, moments, value))]
    kept, drawn = found[:MOST_LINES], {curve.name for curve in found}
    notes = [f"{len(kept)} of {len(found)} cells, the fastest"] if len(found) > len(kept) else []
    shown = {curve.name for curve in kept}
    notes += about(
        ((name, row) for name, row in named.items() if name in shown or row.status in WITHOUT_RESULT), hollow=False
    )
    without = {name: row for name, row in named.items() if name not in drawn and row.status not in WITHOUT_RESULT}
    notes += [f"without a line: {few(without, MOST_NAMED, ', ')}"] if without else []
    return kept, without, notes


def _course(row: Row, moments: Moments, value: Value) -> list[CurvePoint]:
    """Moment by moment, as far as all runs went and none had diverged."""
    points = []
    for together in zip(*filter(None, (moments.get(run) for run in row.runs)), strict=False):
        values = [found for moment in together if (found := value(moment)) is not None]
        if len(values) < len(together):
            break
        seconds = statistics.median(moment.seconds for moment in together)
        images = statistics.median(moment.images for moment in together)
        points.append(CurvePoint(seconds, images, statistics.median(values), min(values), max(values)))
    return _thinned(points)


def _thinned(points: list[CurvePoint]) -> list[CurvePoint]:
    """The first, the last and some in between."""
    if len(points) <= MOST_POINTS:
        return points
    return [points[round(place * (len(points) - 1) / (MOST_POINTS - 1))] for place in range(MOST_POINTS)]


def _drawing(
    title: str,
    curves: Sequence[Curve],
    data: ChartData,
    notes: Sequence[str],
    *,
    targets: Sequence[float] = (),  # what was asked for
    percent: bool = False,
) -> Drawing:
    looks = line_looks(curve.name for curve in curves)
    points = [point for curve in curves for point in (*curve.points, *curve.thin)]
    values = [value for curve in curves for point in curve.points for value in (point.low, point.high)]
    up = axes.amounts(title, [*values, *(point.value for point in points), *targets], zero=False, percent=percent)
    seconds = axes.amounts("seconds of training", [point.seconds for point in points], count=5)
    images = axes.amounts("images trained", [point.images for point in points], count=3)
    panels = []
    for field, across in enumerate((seconds, images)):
        marks = [_band(curve.points, field, looks[curve.name].colour) for curve in curves]
        marks += [looks[curve.name].line(_line(curve.thin, field), 0.9) for curve in curves if curve.thin]
        marks += [looks[curve.name].line(_line(curve.points, field)) for curve in curves]
        for target in targets:
            marks += aim((across.ends[0], target), (across.ends[1], target), f"target {target:.0%}")
        for name, row, (*_, last), _ in curves:  # the mark that leads to the cell
            marks.append(looks[name].point((last[field], last.value), told=f"{name}: {last}", href=data.href(row)))
        panels.append(Panel(across, up, (PANEL_WIDTH, PANEL_HEIGHT), marks))
    return Drawing(panels, [f"{curve.name} {curve.points[-1]}" for curve in curves], notes, samples(looks))


def _line(points: Sequence[CurvePoint], field: int) -> list[Place]:
    return [(point[field], point.value) for point in points]


def _band(points: Sequence[CurvePoint], field: int, colour: str) -> Mark:
    """What lies between the runs, there and back."""
    there = [(point[field], point.high) for point in points]
    back = [(point[field], point.low) for point in reversed(points)]
    return Mark("area", [*there, *back], {"fill": colour, "fill-opacity": 0.14})
