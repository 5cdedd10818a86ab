"""Charts of where time goes, with a line for each cell: its steps, and its phases."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from itertools import accumulate

from paceline.analysis.rows.row import Row
from paceline.report.charts.bars import CellLine, cells_drawing
from paceline.report.charts.captions import outcome
from paceline.report.charts.marks import Mark, bar, interval
from paceline.report.charts.material import Cell, ChartData, Drawing, fastest
from paceline.report.charts.style import BAR_STEP, INTERVAL, OUTLINE, PHASE_INK, VALUE
from paceline.store.series import Series
from paceline.system.text.formatting import number

HALF = 8 / BAR_STEP  # of the stroke at a median
MIDDLE = {**INTERVAL, "stroke-width": 2.5}


def steps(data: ChartData) -> Drawing | None:
    """Time of a step: lowest, middle half, median, highest."""
    cells, notes = fastest(data)
    found = [(cell, times) for cell in cells if (times := _milliseconds(cell.row, data.series))]
    lines = {cell.name: _box(cell, times) for cell, times in found}
    in_words = [f"{cell.name} {_median(times)} ({number(times[0])}–{number(times[-1])})" for cell, times in found]
    return cells_drawing(cells, "milliseconds of a step", lines, in_words, notes)


def _milliseconds(row: Row, series: Series) -> list[float]:
    """Of the steps in the blocks of all its runs, the shortest first."""
    return sorted(1000 * seconds for run in row.runs for seconds in series.step_seconds.get(run, ()))


def _median(times: list[float]) -> str:
    return f"{number(statistics.median(times))} ms"


def _box(cell: Cell, times: list[float]) -> CellLine:
    pair = times * 2 if len(times) == 1 else times  # quartiles need two
    quarter, middle, three_quarters = statistics.quantiles(pair, n=4, method="inclusive")
    told = f"{cell.name}: median {_median(times)}"
    marks = [
        interval((times[0], times[-1]), cell.line),
        bar((quarter, three_quarters), cell.line, 12, VALUE, told=told, href=cell.href),
        Mark("median", [(middle, cell.line - HALF), (middle, cell.line + HALF)], MIDDLE),
    ]
    return CellLine(marks, times[-1], outcome(cell.row, _median(times)))


def phases(data: ChartData) -> Drawing | None:
    """Where the time of a run goes: seconds of each phase, median of the runs."""
    cells, notes = fastest(data)
    spent = [(cell, seconds) for cell in cells if (seconds := _phase_seconds(cell.row, data.series))]
    lines = {cell.name: _stacked(cell, seconds) for cell, seconds in spent}
    legend = {phase: [bar((-6, 6), 0, 12 * BAR_STEP, _ink(phase))] for phase in PHASE_INK}
    in_words = [f"{name} {line.label}" for name, line in lines.items()]
    return cells_drawing(cells, "seconds, medians of the phases", lines, in_words, notes, legend)


def _phase_seconds(row: Row, series: Series) -> dict[str, float]:
    runs = [series.phases[run] for run in row.runs if run in series.phases]
    medians = {phase: [run[phase] for run in runs if phase in run] for phase in PHASE_INK}
    return {phase: statistics.median(found) for phase, found in medians.items() if found}


def _stacked(cell: Cell, spent: Mapping[str, float]) -> CellLine:
    ends = list(accumulate(spent.values(), initial=0.0))
    parts = zip(spent, ends, ends[1:], strict=False)
    label = outcome(cell.row, _shares(spent))
    told = f"{cell.name}: {label}: {', '.join(f'{phase} {number(seconds)} s' for phase, seconds in spent.items())}"
    marks = [bar((low, high), cell.line, 14, _ink(phase)) for phase, low, high in parts]
    outline = bar((0, ends[-1]), cell.line, 14, OUTLINE, told=told, href=cell.href)
    return CellLine([*marks, outline], ends[-1], label)


def _ink(phase: str) -> dict[str, float]:
    return {"fill-opacity": PHASE_INK[phase]}


def _shares(spent: Mapping[str, float]) -> str:
    whole = sum(spent.values())
    training = f", {spent.get('train', 0.0) / whole:.0%} of it in the train phase" if whole else ""
    return f"{number(whole)} s{training}"
