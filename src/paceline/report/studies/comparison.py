"""Comparisons: a line for each cell that was measured in both."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from paceline.analysis.comparison.compare import INCONCLUSIVE, ComparedCell, Comparison
from paceline.analysis.comparison.differences import NOTHING_ELSE
from paceline.analysis.statistics.significance import LEVEL
from paceline.plan.cell import Cell
from paceline.report.document import Document, Heading, Notes, Paragraph, Table, Title
from paceline.report.formats import formats
from paceline.system.text.formatting import NOTHING, number

HEADINGS = ("cell", "runs", "old", "new", "new/old", "95 % interval", "p", "detectable", "verdict")
STACKED = {"new/old": "new\n/old", "95 % interval": "95 %\ninterval", "detectable": "detec-\ntable"}  # for a terminal
UNITS = {"images/s": "images/s", "seconds": "s", "memory": "MiB", "accuracy": "accuracy"}
DIVISORS = {"memory": 2**20}


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


def value(values: Sequence[float], metric: str) -> str:
    if not values:
        return NOTHING
    median = statistics.median(values) / DIVISORS.get(metric, 1)
    return f"{median:.3f}" if metric == "accuracy" else number(median)


def verdict(cell: ComparedCell) -> str:
    return "regression" if cell.regression and cell.verdict == "worse" else cell.verdict


def lines(compared: Comparison) -> list[tuple[str, ...]]:
    """Of the cells that were measured in both."""
    named = zip(names([cell.cell for cell in compared.cells]), compared.cells, strict=True)
    return [_line(name, cell, compared.metric) for name, cell in named if cell.measured_in_both]


def _line(name: str, cell: ComparedCell, metric: str) -> tuple[str, ...]:
    found = cell.ratio
    interval = f"{found.low:.3f}–{found.high:.3f}" if found and found.low and found.high else NOTHING
    return (
        name,
        f"{len(cell.old)}, {len(cell.new)}",
        value(cell.old, metric),
        value(cell.new, metric),
        f"{found.median:.3f}" if found else NOTHING,
        interval,
        NOTHING if cell.p is None else f"{cell.p:.3f}",
        _detectable(cell.detectable),
        verdict(cell),
    )


def _detectable(part: float | None) -> str:
    """Beyond all of it, the exact factor would mislead."""
    if part is None:
        return NOTHING
    return "> 100 %" if part > 1 else f"{100 * part:.1f} %"


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
    return f"{many} in {compared.metric} beyond {100 * compared.threshold:g} %{part}"


def title(compared: Comparison) -> str:
    return f"{compared.new} against {compared.old}: median {UNITS[compared.metric]}"


def document(compared: Comparison) -> Document:
    """Only names and verdicts may be broken, and only between words."""
    name, *numbers, last = HEADINGS
    columns = [Heading(each, number=True, stacked=STACKED.get(each, ""), whole=True) for each in numbers]
    return [
        Title(title(compared), whole=True),
        Table([Heading(name, words=True), *columns, Heading(last, words=True)], lines(compared), gap=1),
        Notes(notes(compared)),
        Paragraph(summary(compared), whole=True),
    ]


FORMATS = formats(document)
