"""Comparisons: a line for each cell that was measured in both."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from paceline.analysis.comparison.compare import INCONCLUSIVE, ComparedCell, Comparison
from paceline.analysis.comparison.differences import NOTHING_ELSE
from paceline.analysis.quantities.definition import Quantity
from paceline.analysis.quantities.known import comparable
from paceline.analysis.statistics.intervals import Estimate
from paceline.analysis.statistics.significance import LEVEL
from paceline.analysis.statistics.yardsticks import RATIO
from paceline.plan.cell import Cell
from paceline.report.document import Document, Heading, Notes, Paragraph, Table, Title
from paceline.report.formats import formats
from paceline.system.text.formatting import NOTHING

HEADINGS = ("cell", "runs", "old", "new", "new/old", "95 % interval", "p", "detectable", "verdict")
STACKED = {
    "new/old": "new\n/old",
    "new−old": "new\n−old",
    "95 % interval": "95 %\ninterval",
    "detectable": "detec-\ntable",
}  # for a terminal
SMALLEST_P = 0.001  # that is written as it is
COMPARED = HEADINGS.index("new/old")


def names(cells: Sequence[Cell]) -> list[str]:
    """What tells each cell from the others; framework and devices always."""
    fields = [name for name in Cell.__struct_fields__ if name not in ("cores", "command")]  # a command has its label
    differing = [name for name in fields if len({getattr(cell, name) for cell in cells}) > 1]
    return [" ".join(_settings(cell, differing)) for cell in cells]


def _settings(cell: Cell, differing: Sequence[str]) -> list[str]:
    shown = [name for name in Cell.__struct_fields__ if name in differing or name in ("framework", "devices")]
    plain = ("workload", "framework", "devices", "update", "data", "input", "precision")
    words = [str(getattr(cell, name)) if name in plain else f"{name}={getattr(cell, name)}" for name in shown]
    return [word for word in words if word]


def headings(compared: Comparison) -> tuple[str, ...]:
    sign = comparable(compared.metric).yardstick.sign
    return (*HEADINGS[:COMPARED], f"new{sign}old", *HEADINGS[COMPARED + 1 :])


def value(values: Sequence[float], quantity: Quantity) -> str:
    return quantity.text(statistics.median(values) / quantity.per_unit) if values else NOTHING


def change(ratio: Estimate | None, difference: Estimate | None) -> tuple[str, str]:
    """New against old and the interval of it: a factor, or with its sign a difference."""
    found, sign = (difference, "+") if ratio is None else (ratio, "")
    if found is None:
        return NOTHING, NOTHING
    interval = NOTHING if found.low is None else f"{found.low:{sign}.3f}–{found.high:{sign}.3f}"
    return f"{found.median:{sign}.3f}", interval


def verdict(cell: ComparedCell) -> str:
    return "regression" if cell.regression and cell.verdict == "worse" else cell.verdict


def lines(compared: Comparison) -> list[tuple[str, ...]]:
    """Of the cells that were measured in both."""
    named = zip(names([cell.cell for cell in compared.cells]), compared.cells, strict=True)
    quantity = comparable(compared.metric)
    return [_line(name, cell, quantity) for name, cell in named if cell.measured_in_both]


def _line(name: str, cell: ComparedCell, quantity: Quantity) -> tuple[str, ...]:
    return (
        name,
        f"{len(cell.old)}, {len(cell.new)}",
        value(cell.old, quantity),
        value(cell.new, quantity),
        *change(cell.ratio, cell.difference),
        _chance(cell.p),
        _detectable(cell),
        verdict(cell),
    )


def _chance(p: float | None) -> str:
    if p is None:
        return NOTHING
    return f"{p:.3f}" if p >= SMALLEST_P else f"<{SMALLEST_P}"


def _detectable(cell: ComparedCell) -> str:
    """Beyond all of it, the exact factor would mislead."""
    if cell.detectable is None:
        return NOTHING
    if cell.difference:
        return f"{cell.detectable:.3f}"
    return "> 100 %" if cell.detectable > 1 else f"{100 * cell.detectable:.1f} %"


def notes(compared: Comparison) -> list[str]:
    """Why nothing can be told, or is measured; what else differs; and what chance alone would do."""
    tested = sum(cell.p is not None for cell in compared.cells)
    found = [*_reasons(compared), *(f"differs: {difference}" for difference in compared.differences)]
    if compared.nothing_else_differs:
        found.append(NOTHING_ELSE)
    if tested > 1:
        found.append(f"of {tested} cells without any change, chance makes at most {LEVEL * tested:.1f} better or worse")
    return found


def _reasons(compared: Comparison) -> list[str]:
    """Of all cells without a verdict or a place in the table, those with the same one together."""
    cells: dict[str, list[str]] = {}
    for name, cell in zip(names([cell.cell for cell in compared.cells]), compared.cells, strict=True):
        if cell.reason or not cell.measured_in_both:
            cells.setdefault(": ".join(filter(None, (cell.verdict, cell.reason))), []).append(name)
    return [f"{reason}: {', '.join(named)}" for reason, named in cells.items()]


def summary(compared: Comparison) -> str:
    """The one line for a build's log."""
    counts = Counter(cell.verdict for cell in compared.cells)
    found = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    blind = "; too few runs to show any difference" if compared.too_few_runs else ""
    return f"{_headline(compared)}: {found}{blind}"


def _headline(compared: Comparison) -> str:
    """No praise where nothing could be seen."""
    if compared.conclusion == INCONCLUSIVE:
        return f"INCONCLUSIVE, no cell has a verdict on {compared.metric}"
    many = f"{compared.regressions or 'no'} regression{'' if compared.regressions == 1 else 's'}"
    among = sum(cell.is_compared for cell in compared.cells)
    part = f", {compared.inconclusive} of {among} cells inconclusive" if compared.inconclusive else ""
    factor = comparable(compared.metric).yardstick is RATIO
    beyond = f"{100 * compared.threshold:g} %" if factor else f"{compared.threshold:g}"
    return f"{many} in {compared.metric} beyond {beyond}{part}"


def title(compared: Comparison) -> str:
    quantity = comparable(compared.metric)
    return f"{compared.new} against {compared.old}: median {quantity.unit or quantity.label}"


def document(compared: Comparison) -> Document:
    """Only names and verdicts may be broken, and only between words."""
    name, *numbers, last = headings(compared)
    columns = [Heading(each, number=True, stacked=STACKED.get(each, ""), whole=True) for each in numbers]
    return [
        Title(title(compared), whole=True),
        Table([Heading(name, words=True), *columns, Heading(last, words=True)], lines(compared), gap=1),
        Notes(notes(compared)),
        Paragraph(summary(compared), whole=True),
    ]


FORMATS = formats(document)
