"""Charts of where time goes, with a line for each cell: its steps, and its phases."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from paceline.analysis.rows.row import Row
from paceline.report.charts.bars import intervals, lines_of_cells, without_value
from paceline.report.charts.captions import outcome
from paceline.report.charts.style import PHASE_INK, Spec
from paceline.report.charts.vega_lite import ChartData, ChartedRows, Drawing, amount, layer, silent, words
from paceline.store.series import Series
from paceline.system.text.formatting import number

Found = TypeVar("Found")


class StepTimes(NamedTuple):
    """How many milliseconds the steps of a cell took."""

    low: float
    quarter: float
    middle: float
    three_quarters: float
    high: float

    @classmethod
    def of(cls, row: Row, series: Series) -> StepTimes | None:
        """By the blocks of all its runs."""
        values = [1000 * seconds for run in row.runs for seconds in series.step_seconds.get(run, ())]
        if not values:
            return None
        pair = values * 2 if len(values) == 1 else values  # quartiles need two
        quarter, middle, three_quarters = statistics.quantiles(pair, n=4, method="inclusive")
        return cls(min(values), quarter, middle, three_quarters, max(values))


def steps(data: ChartData) -> Drawing | None:
    """Time of a step: lowest, middle half, median, highest."""
    charted = ChartedRows.of(data.rows)
    boxes = _of_each(charted, lambda row: StepTimes.of(row, data.series))
    if not boxes:
        return None
    title, rows, line = "milliseconds of a step", charted.named, charted.line()
    labels = {name: f"{number(box.middle)} ms" for name, box in boxes.items()}
    values = [
        {"cell": name, **box._asdict(), **data.linked(rows[name], f"{name}: median {labels[name]}")}
        for name, box in boxes.items()
    ]
    ends = [{"cell": name, "value": box.high, "said": outcome(rows[name], labels[name])} for name, box in boxes.items()]
    half = {"x": amount("quarter", title), "x2": {"field": "three_quarters"}, "y": line}
    along = amount("value", title, tickCount=6)
    body = lines_of_cells(
        charted,
        *intervals(values, line, title),
        layer({"type": "bar", "style": "value", "height": 12}, values, **half, **data.links()),
        layer(silent("tick", size=16, thickness=2.5), values, x=amount("middle", title), y=line),
        words(ends, "left", x=along, y=line),
        *without_value([name for name in rows if name not in boxes], charted, data, along),
    )
    in_words = [f"{name} {labels[name]} ({number(box.low)}–{number(box.high)})" for name, box in boxes.items()]
    return Drawing(body, in_words, charted.notes)


def phases(data: ChartData) -> Drawing | None:
    """Where the time of a run goes: seconds of each phase, median of the runs."""
    charted = ChartedRows.of(data.rows)
    spent = _of_each(charted, lambda row: _phase_seconds(row, data.series))
    if not spent:
        return None
    rows, line = charted.named, charted.line()
    labels = {name: outcome(rows[name], _shares(found)) for name, found in spent.items()}
    parts = [{"cell": name, **part} for name, found in spent.items() for part in _stacked(found)]
    whole = [
        {
            "cell": name,
            "value": sum(found.values()),
            "said": labels[name],
            **data.linked(rows[name], f"{name}: {labels[name]}: {_listed(found)}"),
        }
        for name, found in spent.items()
    ]
    along = amount("value", "seconds, medians of the phases", tickCount=6)
    segment = {"x": along, "x2": {"field": "end"}, "y": line, "opacity": _ink()}
    body = lines_of_cells(
        charted,
        layer(silent("bar", style="phase", height=14), parts, **segment),
        layer({"type": "bar", "style": "outline", "height": 14}, whole, x=along, y=line, **data.links()),
        words(whole, "left", x=along, y=line),
        *without_value([name for name in rows if name not in spent], charted, data, along),
    )
    return Drawing(body, [f"{name} {shares}" for name, shares in labels.items()], charted.notes)


def _of_each(charted: ChartedRows, find: Callable[[Row], Found | None]) -> dict[str, Found]:
    """What is found of each cell, where anything is."""
    return {name: found for name, row in charted.named.items() if (found := find(row))}


def _phase_seconds(row: Row, series: Series) -> dict[str, float]:
    runs = [series.phases[run] for run in row.runs if run in series.phases]
    medians = {phase: [run[phase] for run in runs if phase in run] for phase in PHASE_INK}
    return {phase: statistics.median(found) for phase, found in medians.items() if found}


def _stacked(spent: Mapping[str, float]) -> Iterator[Spec]:
    start = 0.0
    for phase, seconds in spent.items():
        yield {"phase": phase, "value": start, "end": start + seconds}
        start += seconds


def _shares(spent: Mapping[str, float]) -> str:
    whole = sum(spent.values())
    training = f", {spent.get('train', 0.0) / whole:.0%} of it in the train phase" if whole else ""
    return f"{number(whole)} s{training}"


def _listed(spent: Mapping[str, float]) -> str:
    """For who cannot see how long the parts of a bar are."""
    return ", ".join(f"{phase} {number(seconds)} s" for phase, seconds in spent.items())


def _ink() -> Spec:
    scale = {"type": "ordinal", "domain": list(PHASE_INK), "range": list(PHASE_INK.values())}
    legend = {"columns": len(PHASE_INK), "symbolType": "square", "symbolSize": 120}
    return {"field": "phase", "type": "ordinal", "title": None, "scale": scale, "legend": legend}
