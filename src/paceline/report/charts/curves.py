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


Curves = dict[str, list[CurvePoint]]


def loss(data: ChartData) -> Drawing | None:
    """Training loss of each block."""
    shown = _shown(data, data.series.blocks, lambda moment: moment.train_loss)
    if not any(len(points) > 1 for points in shown.curves.values()):
        return None  # a single point is no course
    return _drawing("training loss", shown, data, notes=_diverged(shown, data.series.blocks))


def _diverged(shown: ShownCurves, blocks: Moments) -> list[str]:
    """Where lines end before training did, or do not even begin."""
    texts = []
    for name, row in {**shown.rows, **shown.without}.items():
        runs = [[moment.train_loss for moment in found] for run in row.runs if (found := blocks.get(run))]
        ends = [losses.index(None) for losses in runs if None in losses]
        if ends:
            texts.append(f"{name}: loss is no number from block {min(ends) + 1} on ({len(ends)} of {len(runs)} runs)")
    left = len(texts) - MOST_DESCRIBED
    more = f"more cell{'s' if left > 1 else ''} whose loss is no number"
    return [*texts[:MOST_DESCRIBED], *([f"{left} {more}"] if left > 0 else [])]


def accuracy(data: ChartData) -> Drawing | None:
    """Test accuracy after each epoch; training accuracy as thin lines."""
    shown = _shown(data, data.series.epochs, lambda moment: moment.test_accuracy)
    if not shown.curves:
        return None
    training = _curves(shown.rows, data.series.epochs, lambda moment: moment.train_accuracy)
    targets = sorted({row.target for row in shown.rows.values() if row.target})
    return _drawing("accuracy", shown, data, training=training, targets=targets)


def _end(last: CurvePoint) -> str:
    between = f" ({last.low:.3f}–{last.high:.3f})" if last.low < last.high else ""
    return f"{last.value:.3f}{between} after {number(last.seconds)} s and {last.images:,.0f} images"


class ShownCurves(NamedTuple):
    rows: Mapping[str, Row]
    curves: Curves
    without: Mapping[str, Row]  # that have a result, but no course
    notes: Sequence[str]


def _shown(data: ChartData, moments: Moments, value: Value) -> ShownCurves:
    """The fastest cells that have a course."""
    ranked = sorted(data.rows, key=slowness)
    named = dict(zip(numbered(names(ranked)), ranked, strict=True))
    curves = _curves(named, moments, value)
    kept = {name: curves[name] for name in list(curves)[:MOST_LINES]}
    notes = [f"{len(kept)} of {len(curves)} cells, the fastest"] if len(curves) > len(kept) else []
    listed = {name: row for name, row in named.items() if name in kept or row.status in WITHOUT_RESULT}
    notes += about(listed.items(), hollow=False)
    without = {name: row for name, row in named.items() if name not in curves and row.status not in WITHOUT_RESULT}
    notes += [f"without a line: {few(without, MOST_NAMED, ', ')}"] if without else []
    return ShownCurves({name: named[name] for name in kept}, kept, without, notes)


def _curves(rows: Mapping[str, Row], moments: Moments, value: Value) -> Curves:
    found = {name: _course([moments.get(run, ()) for run in row.runs], value) for name, row in rows.items()}
    return {name: points for name, points in found.items() if points}


def _course(runs: Sequence[Sequence[Moment]], value: Value) -> list[CurvePoint]:
    """Moment by moment, as far as all runs went and none had diverged."""
    points = []
    for moments in zip(*filter(None, runs), strict=False):
        values = [found for moment in moments if (found := value(moment)) is not None]
        if len(values) < len(moments):
            break
        seconds = statistics.median(moment.seconds for moment in moments)
        images = statistics.median(moment.images for moment in moments)
        points.append(CurvePoint(seconds, images, statistics.median(values), min(values), max(values)))
    return _thinned(points)


def _thinned(points: list[CurvePoint]) -> list[CurvePoint]:
    """The first, the last and some in between."""
    if len(points) <= MOST_POINTS:
        return points
    return [points[round(place * (len(points) - 1) / (MOST_POINTS - 1))] for place in range(MOST_POINTS)]


def _drawing(
    title: str,
    shown: ShownCurves,
    data: ChartData,
    *,
    training: Curves | None = None,  # thin lines
    targets: Sequence[float] = (),  # what was asked for
    notes: Sequence[str] = (),
) -> Drawing:
    looks, thin = line_looks(shown.curves), training or {}
    points = [point for curves in (shown.curves, thin) for line in curves.values() for point in line]
    values = [value for line in shown.curves.values() for point in line for value in (point.low, point.high)]
    values += [point.value for point in points]
    up = axes.amounts(title, [*values, *targets], zero=False, percent=training is not None)
    seconds = axes.amounts("seconds of training", [point.seconds for point in points], count=5)
    images = axes.amounts("images trained", [point.images for point in points], count=3)
    panels = []
    for field, across in enumerate((seconds, images)):
        marks = [_band(shown.curves[name], field, look.colour) for name, look in looks.items()]
        marks += [look.line(_line(thin[name], field), 0.9) for name, look in looks.items() if name in thin]
        marks += [look.line(_line(shown.curves[name], field)) for name, look in looks.items()]
        for target in targets:
            marks += aim((across.ends[0], target), (across.ends[1], target), f"target {target:.0%}")
        for name, look in looks.items():  # the mark that leads to the cell
            last, href = shown.curves[name][-1], data.href(shown.rows[name])
            marks.append(look.point((last[field], last.value), told=f"{name}: {_end(last)}", href=href))
        panels.append(Panel(across, up, (PANEL_WIDTH, PANEL_HEIGHT), marks))
    in_words = [f"{name} {_end(line[-1])}" for name, line in shown.curves.items()]
    return Drawing(panels, in_words, [*notes, *shown.notes], samples(looks))


def _line(points: Sequence[CurvePoint], field: int) -> list[Place]:
    return [(point[field], point.value) for point in points]


def _band(points: Sequence[CurvePoint], field: int, colour: str) -> Mark:
    """What lies between the runs, there and back."""
    there = [(point[field], point.high) for point in points]
    back = [(point[field], point.low) for point in reversed(points)]
    return Mark("area", [*there, *back], {"fill": colour, "fill-opacity": 0.14})
