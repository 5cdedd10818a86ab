"""Charts with a line for each cell and a bar on it: speed, memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from paceline.analysis.quantities.known import MEMORY, SPEED
from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.charts.captions import MOST_NAMED, outcome, with_interval
from paceline.report.charts.style import BAR_STEP, WIDTH, Spec
from paceline.report.charts.vega_lite import (
    MOST_INTERVAL,
    ChartData,
    ChartedRows,
    Drawing,
    amount,
    layer,
    silent,
    words,
)
from paceline.report.escaping import few
from paceline.report.tables.columns import joined
from paceline.system.text.formatting import number

TOGETHER = "one process serves all devices, so its memory is that of all together"


class Bar(NamedTuple):
    """A cell that has a value, and between what it lies."""

    name: str
    row: Row
    value: float
    span: tuple[float, float] | None
    label: str  # at its end
    hollow: bool = False  # of another kind than the rest, not to be compared with them
    cut: bool = False  # the span goes on


def speed(data: ChartData) -> Drawing | None:
    """Images/s with 95 % intervals."""
    charted = ChartedRows.of(data.rows)
    found = [(name, row, value) for name, row in charted.named.items() if (value := row.estimate(SPEED))]
    if not found:
        return None
    ranked = sorted(found, key=lambda each: -each[2].median)
    end = MOST_INTERVAL * ranked[0][2].median
    bars = [_speed_bar(name, row, value, end) for name, row, value in found]
    in_words = [f"{name} {with_interval(value)}" for name, _, value in ranked]
    beyond = [bar.name for bar in bars if bar.cut]
    notes = [f"the interval goes on beyond the picture: {few(beyond, MOST_NAMED, ', ')}"] if beyond else []
    return Drawing(_bars(bars, charted, data, "images/s"), in_words, [*charted.notes, *notes])


def _speed_bar(name: str, row: Row, value: Estimate, end: float) -> Bar:
    label = outcome(row, number(value.median))
    if value.low is None or value.high is None:
        return Bar(name, row, value.median, None, label)
    return Bar(name, row, value.median, (value.low, min(value.high, end)), label, cut=value.high > end)


def memory(data: ChartData) -> Drawing | None:
    """Peak minus idle; where devices or runs differ, also from the lowest to the highest."""

    def bar(name: str, row: Row) -> Bar:
        found = row.of_each(MEMORY)
        values = found if len(found) > 1 else row.of_runs(MEMORY)
        span = (min(values), max(values)) if len(values) > 1 else None
        whole = row.memory_of == "all devices" and row.device_count > 1
        label = f"{joined(found)} in all devices together" if whole else joined(found)
        return Bar(name, row, max(found), span, outcome(row, label), hollow=whole)

    charted = ChartedRows.of(data.rows)
    bars = [bar(name, row) for name, row in charted.named.items() if row.of_each(MEMORY)]
    if not bars:
        return None
    in_words = [f"{bar.name} {bar.label}" for bar in sorted(bars, key=lambda bar: (bar.hollow, bar.value))]
    together = [bar.name for bar in bars if bar.hollow]
    notes = [f"hollow, and not ranked: {TOGETHER}: {few(together, MOST_NAMED, ', ')}"] if together else []
    title = "MiB of a device, peak minus idle" + ("; hollow: of all devices" if together else "")
    return Drawing(_bars(bars, charted, data, title), in_words, [*charted.notes, *notes])


def _bars(bars: Sequence[Bar], charted: ChartedRows, data: ChartData, title: str) -> Spec:
    line, along = charted.line(), amount("value", title, tickCount=6)
    ends = [{"cell": bar.name, "value": max(bar.value, *(bar.span or (0.0,))), "said": bar.label} for bar in bars]
    spans = [{"cell": bar.name, "low": bar.span[0], "high": bar.span[1], "cut": bar.cut} for bar in bars if bar.span]
    drawn = {bar.name for bar in bars}
    return lines_of_cells(
        charted,
        *_lengths(bars, data, x=along, y=line),
        *intervals(spans, line, title),
        words(ends, "left", x=along, y=line),
        *without_value([name for name in charted.names if name not in drawn], charted, data, along),
    )


def _lengths(bars: Sequence[Bar], data: ChartData, **channels: Spec) -> Iterator[Spec]:
    for style, hollow in (("value", False), ("hollow", True)):
        values = [
            {"cell": bar.name, "value": bar.value, **data.linked(bar.row, f"{bar.name}: {bar.label}")}
            for bar in bars
            if bar.hollow is hollow
        ]
        if values:
            yield layer({"type": "bar", "style": style, "height": 14}, values, **channels, **data.links())


def lines_of_cells(charted: ChartedRows, *layers: Spec) -> Spec:
    """These layers, and before them the names of the cells."""
    called = [{"cell": name, "said": name} for name in charted.names]
    before = words(called, "right", x={"value": 0}, y=charted.line())
    return {"width": WIDTH, "height": {"step": BAR_STEP}, "layer": [*layers, before]}


def intervals(spans: Sequence[Spec], line: Spec, title: str) -> Iterator[Spec]:
    """From `low` to `high`, with a stroke at either end but where it was cut."""
    if not spans:
        return
    yield layer(silent("rule", strokeWidth=1.5), spans, x=amount("low", title), x2={"field": "high"}, y=line)
    whole = [span for span in spans if not span.get("cut")]
    for end, ended in (("low", spans), ("high", whole)):
        yield layer(silent("tick", size=8, thickness=1.5), ended, x=amount(end, title), y=line)


def without_value(missing: Sequence[str], charted: ChartedRows, data: ChartData, along: Spec) -> Iterator[Spec]:
    """Why a cell has no bar, where its bar would begin."""
    if not missing:
        return
    rows = charted.named
    values = [
        {"cell": name, "value": 0, "said": f"× {outcome(rows[name], '')}", **data.linked(rows[name], "")}
        for name in missing
    ]
    yield words(values, "left", x=along, y=charted.line(), **data.href())
