"""Charts of how training went: loss and accuracy, against seconds and against images."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from paceline.analysis.rows.row import Row
from paceline.report.charts.captions import MOST_DESCRIBED, MOST_NAMED, WITHOUT_RESULT, about, counted, names, numbered
from paceline.report.charts.style import PANEL_HEIGHT, PANEL_WIDTH, Spec
from paceline.report.charts.vega_lite import (
    MOST_LINES,
    ChartData,
    Drawing,
    amount,
    dashes,
    distinct_lines,
    layer,
    silent,
    slowness,
)
from paceline.report.escaping import few
from paceline.store.series import Moment
from paceline.system.text.formatting import number

MOST_POINTS = 30  # of a curve; a picture has no room for more
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

    def blocks(run: str) -> Sequence[Moment]:
        return data.series.blocks.get(run, ())

    shown = _shown(data, blocks, lambda moment: moment.train_loss)
    if not any(len(points) > 1 for points in shown.curves.values()):
        return None  # a single point is no course
    up = amount("value", "training loss", zero=False)
    texts = [f"{name} {_end(points[-1])}" for name, points in shown.curves.items()]
    return Drawing(_panels(up, shown, data, {}), texts, [*_diverged(shown, blocks), *shown.notes])


def _diverged(shown: ShownCurves, blocks: Callable[[str], Sequence[Moment]]) -> list[str]:
    """Where lines end before training did, or do not even begin."""
    texts = []
    for name, row in {**shown.rows, **shown.without}.items():
        runs = [[moment.train_loss for moment in found] for run in row.runs if (found := blocks(run))]
        ends = [losses.index(None) for losses in runs if None in losses]
        if ends:
            texts.append(f"{name}: loss is no number from block {min(ends) + 1} on ({len(ends)} of {len(runs)} runs)")
    more = counted(
        len(texts[MOST_DESCRIBED:]), "more cell whose loss is no number", "more cells whose loss is no number"
    )
    return [*texts[:MOST_DESCRIBED], *more]


def accuracy(data: ChartData) -> Drawing | None:
    """Test accuracy after each epoch; training accuracy as thin lines."""

    def epochs(run: str) -> Sequence[Moment]:
        return data.series.epochs.get(run, ())

    shown = _shown(data, epochs, lambda moment: moment.test_accuracy)
    if not shown.curves:
        return None
    training = _curves(shown.rows, epochs, lambda moment: moment.train_accuracy)
    up = amount("value", "accuracy", zero=False, format=".1~%")
    texts = [f"{name} {_end(points[-1])}" for name, points in shown.curves.items()]
    body = _panels(up, shown, data, training)
    for panel in body["hconcat"]:
        panel["layer"] += _targets(shown.rows.values(), up)
    return Drawing(body, texts, shown.notes)


def _targets(rows: Iterable[Row], up: Spec) -> Iterator[Spec]:
    """A line at the accuracy that was asked for."""
    wanted = [{"value": target, "said": f"target {target:.0%}"} for target in {row.target for row in rows} if target]
    if wanted:
        yield layer(silent("rule", strokeDash=[3, 3], opacity=0.7), wanted, y=up)
        words = {"field": "said", "type": "nominal"}
        yield layer(
            silent("text", align="right", baseline="bottom", dy=-3), wanted, x={"value": PANEL_WIDTH}, y=up, text=words
        )


def _end(last: CurvePoint) -> str:
    between = f" ({last.low:.3f}–{last.high:.3f})" if last.low < last.high else ""
    return f"{last.value:.3f}{between} after {number(last.seconds)} s and {last.images:,.0f} images"


class ShownCurves(NamedTuple):
    rows: Mapping[str, Row]
    curves: Curves
    without: Mapping[str, Row]  # that have a result, but no course
    notes: Sequence[str]


def _shown(data: ChartData, moments: Callable[[str], Sequence[Moment]], value: Value) -> ShownCurves:
    """The fastest cells that have a course."""
    ranked = sorted(data.rows, key=slowness)
    named = dict(zip(numbered(names(ranked)), ranked, strict=True))
    curves = _curves(named, moments, value)
    kept = {name: curves[name] for name in list(curves)[:MOST_LINES]}
    notes = [f"{len(kept)} of {len(curves)} cells, the fastest"] if len(curves) > len(kept) else []
    listed = {name: row for name, row in named.items() if name in kept or row.status in WITHOUT_RESULT}
    notes += about(list(listed.values()), list(listed), hollow=False)
    without = {name: row for name, row in named.items() if name not in curves and row.status not in WITHOUT_RESULT}
    notes += [f"without a line: {few(without, MOST_NAMED, ', ')}"] if without else []
    return ShownCurves({name: named[name] for name in kept}, kept, without, notes)


def _curves(rows: Mapping[str, Row], moments: Callable[[str], Sequence[Moment]], value: Value) -> Curves:
    found = {name: _course([moments(run) for run in row.runs], value) for name, row in rows.items()}
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


def _panels(up: Spec, shown: ShownCurves, data: ChartData, training: Curves) -> Spec:
    axes = (
        amount("seconds", "seconds of training", tickCount=5),
        amount("images", "images trained", tickCount=3, format=",.0f"),
    )
    panels = [
        {
            "width": PANEL_WIDTH,
            "height": PANEL_HEIGHT,
            "layer": list(_layers(along, up, shown, data, training)),
        }
        for along in axes
    ]
    return {"hconcat": panels, "spacing": 40}


def _layers(along: Spec, up: Spec, shown: ShownCurves, data: ChartData, training: Curves) -> Iterator[Spec]:
    """Between what the runs lie, the medians, and at their end the mark that leads to the cell."""
    look, curves = distinct_lines(list(shown.curves)), shown.curves
    bands = [value for value in _values(curves) if value["low"] < value["high"]]
    if bands:
        ends = {"y": {**up, "field": "low"}, "y2": {"field": "high"}}
        yield layer(silent("area", opacity=0.14), bands, x=along, **ends, color=look["color"])
    thin = {"x": along, "y": up, "color": look["color"], "strokeDash": look["strokeDash"]}
    if training:
        yield layer(silent("line", strokeWidth=0.9, opacity=0.7), _values(training), **thin)
    yield layer(silent("line"), _values(curves), **thin)
    lasts = [
        {
            "line": name,
            **points[-1]._asdict(),
            **data.linked(shown.rows[name], f"{name}: {_end(points[-1])}"),
        }
        for name, points in curves.items()
    ]
    mark = {"type": "point", "filled": True}
    yield layer(mark, lasts, x=along, y=up, color=look["color"], shape=look["shape"], **data.links())


def _values(curves: Curves) -> list[Spec]:
    dash = dashes(list(curves))
    return [
        {"line": name, "dash": dash[name], **point._asdict()} for name, points in curves.items() for point in points
    ]
