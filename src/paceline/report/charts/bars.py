"""Charts with a line for each cell and a bar on it: speed, memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paceline.analysis.quantities.definition import Quantity
from paceline.analysis.quantities.known import MEMORY
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.charts import axes
from paceline.report.charts.captions import MOST_NAMED, outcome, with_interval
from paceline.report.charts.marks import Mark, bar, interval, words
from paceline.report.charts.material import MOST_INTERVAL, Cell, ChartData, Drawing, Panel, Samples, fastest
from paceline.report.charts.style import BAR_STEP, HOLLOW, VALUE, WIDTH, Look
from paceline.report.escaping import few
from paceline.report.tables.columns import joined

TOGETHER = "one process serves all devices, so its memory is that of all together"
BESIDE = {"dx": 6, "dy": 4}


class CellLine(NamedTuple):
    """What stands in the line of a cell that has a value."""

    marks: Sequence[Mark]
    end: float  # where they end and the label begins
    label: str


def cells_drawing(
    cells: Sequence[Cell],
    title: str,
    lines: Mapping[str, CellLine],
    in_words: Sequence[str],
    notes: Sequence[str],
    legend: Samples | None = None,
) -> Drawing | None:
    """Lines with their labels; where a cell has none, the reason stands where it would begin."""
    if not lines:
        return None
    marks = [mark for line in lines.values() for mark in line.marks]
    for place, name, row, href in cells:
        if line := lines.get(name):
            marks.append(words(line.label, (line.end, place), BESIDE))
        else:
            marks.append(words(f"× {outcome(row, '')}", (0, place), BESIDE, href))
    across = axes.amounts(title, [line.end for line in lines.values()])
    up = axes.names([cell.name for cell in cells])
    panel = Panel(across, up, (WIDTH, BAR_STEP * len(cells)), marks)
    return Drawing([panel], in_words, notes, legend or {})


def estimated(quantity: Quantity, data: ChartData) -> Drawing | None:
    """A quantity with its 95 % intervals."""
    cells, notes = fastest(data)
    found = [(cell, value) for cell in cells if (value := cell.row.estimate(quantity))]
    ranked = sorted(found, key=lambda each: -quantity.better * each[1].median)
    end = MOST_INTERVAL * max((value.median for _, value in found), default=0)
    lines = {cell.name: _bar_line(cell, value, quantity.text(value.median), most=end) for cell, value in found}
    beyond = [cell.name for cell, value in found if value.high is not None and value.high > end]
    notes += [f"the interval goes on beyond the picture: {few(beyond, MOST_NAMED, ', ')}"] if beyond else []
    in_words = [f"{cell.name} {with_interval(value, quantity.text)}" for cell, value in ranked]
    return cells_drawing(cells, quantity.label, lines, in_words, notes)


def _bar_line(cell: Cell, value: Estimate, text: str, look: Look = VALUE, most: float = math.inf) -> CellLine:
    label = outcome(cell.row, text)
    whole = bar((0, value.median), cell.line, 14, look, told=f"{cell.name}: {label}", href=cell.href)
    if value.low is None or value.high is None:
        return CellLine([whole], value.median, label)
    end = min(value.high, most)
    across = interval((value.low, end), cell.line, cut=value.high > most)
    return CellLine([whole, across], max(value.median, end), label)


def memory(data: ChartData) -> Drawing | None:
    """Peak minus idle; where devices or runs differ, also from the lowest to the highest."""
    cells, notes = fastest(data)
    found = [cell for cell in cells if cell.row.of_each(MEMORY)]
    lines = {cell.name: _memory_line(cell) for cell in found}
    ranked = sorted(found, key=lambda cell: (_whole(cell), max(cell.row.of_each(MEMORY))))
    together = [cell.name for cell in found if _whole(cell)]
    notes += [f"hollow, and not ranked: {TOGETHER}: {few(together, MOST_NAMED, ', ')}"] if together else []
    title = "MiB of a device, peak minus idle" + ("; hollow: of all devices" if together else "")
    in_words = [f"{cell.name} {lines[cell.name].label}" for cell in ranked]
    return cells_drawing(cells, title, lines, in_words, notes)


def _whole(cell: Cell) -> bool:
    """Whether its memory is that of all its devices, not to be compared with that of one."""
    return cell.row.memory_of == "all devices" and cell.row.device_count > 1


def _memory_line(cell: Cell) -> CellLine:
    found, whole = cell.row.of_each(MEMORY), _whole(cell)
    values = found if len(found) > 1 else cell.row.of_runs(MEMORY)
    span = (min(values), max(values)) if len(values) > 1 else ()
    text = f"{joined(found)} in all devices together" if whole else joined(found)
    return _bar_line(cell, Estimate(max(found), *span), text, HOLLOW if whole else VALUE)
