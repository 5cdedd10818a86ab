"""One line for each cell, with machines as numbers that are explained below."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from paceline.analysis.quantities.known import SPEED, TEST_ACCURACY
from paceline.analysis.rows.labels import labels, update
from paceline.analysis.rows.row import Row
from paceline.plan.cell_names import grouped
from paceline.report.tables.columns import batch, part
from paceline.report.tables.layouts.grid import Grid, scaling_kinds, speed, sureness
from paceline.report.tables.remarks import remarks
from paceline.report.tables.small_forms import only_runs
from paceline.system.text.formatting import number

HEADINGS = ("infra", "model", "batch size", "gpus", "accuracy", "epochs", "s/epoch", "samples/s")
LEGEND = "accuracy: of validation. gpus: 0 is training on processors. (2-90%): 2 devices, on average 90 % busy"


def long(rows: Sequence[Row]) -> list[Grid]:
    """A table for each framework, update, data and precision; machines have the same number in all."""
    machines = list(dict.fromkeys(_infrastructure(row) for row in rows if row.machine))
    return [_table(name, group, machines) for name, group in grouped(rows, _group).items()]


def _group(row: Row) -> str:
    if row.command:
        return "commands"
    return f"{row.cell.framework}, {update(row)}, {f'{row.cell.data} {row.cell.input}'.strip()}, {row.cell.precision}"


def _table(name: str, rows: list[Row], machines: list[str]) -> Grid:
    row_labels = labels(rows, lambda row: _line(row, machines, "")[:4])
    lines = [_line(row, machines, label) for row, label in zip(rows, row_labels, strict=True)]
    used = [_infrastructure(row) for row in rows if row.machine]
    notes = [f"infrastructure {index}: {text}" for index, text in enumerate(machines, 1) if text in used]
    notes += [LEGEND, *scaling_kinds(rows), *sureness(rows), *_accuracy_sureness(rows), *remarks(rows)]
    # One link in a line is enough, and the first place is only a number.
    cells = {(line, HEADINGS.index("model")): (row,) for line, row in enumerate(rows, 1)}
    return Grid(name, (HEADINGS, *lines), tuple(notes), turns=False, cells=cells)


def _accuracy_sureness(rows: list[Row]) -> list[str]:
    found = [] if only_runs(rows) else [each for row in rows if (each := row.estimate(TEST_ACCURACY))]
    widths = [each.high - each.low for each in found if each.low is not None and each.high is not None]
    return [f"95 % intervals of accuracy are {max(widths):.3f} wide at most"] if widths else []


def _infrastructure(row: Row) -> str:
    """The machine, and the framework in its mode; a command says nothing of that kind."""
    software = "" if row.command else " ".join(filter(None, (row.cell.framework, row.framework_version)))
    return ", ".join(filter(None, (row.machine_description, software)))


def _line(row: Row, machines: list[str], label: str) -> tuple[str, ...]:
    return (
        str(1 + machines.index(_infrastructure(row))) if row.machine else "?",
        f"{row.cell.framework if row.command else row.cell.workload} {label}".strip(),
        batch(row),
        str(row.device_count if "cuda" in row.cell.devices else 0),
        part(row.median(TEST_ACCURACY)) if row.estimate(TEST_ACCURACY) else "x",
        "?" if row.epochs is None else f"{row.epochs:.3g}",
        number(row.seconds_per_epoch) if row.seconds_per_epoch else row.status,
        speed(row) + _busy(row) if row.estimate(SPEED) else "x",
    )


def _busy(row: Row) -> str:
    """How many devices, and how busy they were on average."""
    medians = [middle for _, middle, _ in row.utilisation]
    return f" ({row.device_count}-{statistics.mean(medians):.0%})" if medians else ""
