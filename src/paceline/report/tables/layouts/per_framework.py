"""A table for each framework: device sets across, and a line for each thing that was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from paceline.analysis.quantities.known import MEMORY, SECONDS, TEST_ACCURACY, TRAIN_ACCURACY
from paceline.analysis.rows.labels import labels, update
from paceline.analysis.rows.row import Row
from paceline.plan.cell_names import grouped
from paceline.report.tables.columns import accuracy, batch
from paceline.report.tables.layouts.grid import Grid, scaling_kinds, speed, sureness
from paceline.report.tables.remarks import remarks
from paceline.report.tables.small_forms import only_runs
from paceline.system.text.formatting import number

MEASURED: dict[str, Callable[[Row], str]] = {
    "Training time (s)": lambda row: number(row.median(SECONDS)),
    "Average time per epoch (s)": lambda row: number(row.seconds_per_epoch),
    "Images processed per s": speed,
    "Training accuracy": lambda row: accuracy(row.estimate(TRAIN_ACCURACY)),
    "Test accuracy": lambda row: accuracy(row.estimate(TEST_ACCURACY)),
    "Maximum memory (MiB)": lambda row: number(math.fsum(row.of_each(MEMORY)) or None),
}
EPOCHS = "epochs"
SETUP: dict[str, Callable[[Row], str]] = {
    "data": lambda row: f"{row.cell.data} {row.cell.input}".strip(),
    "machine": lambda row: row.machine_description or "none: nothing was run",
    "batch": batch,
    EPOCHS: lambda row: "?" if row.epochs is None else f"{row.epochs:.3g}",
    "seed": lambda row: f"{row.cell.seed} and following",
    "update": update,
    "precision": lambda row: row.cell.precision,
}


def transposed(rows: Sequence[Row]) -> list[Grid]:
    """As they were published for Keras."""
    groups = grouped(
        rows, lambda row: f"{row.cell.workload} with {row.cell.framework} {row.framework_version or ''}".strip()
    )
    return [_table(name, group) for name, group in groups.items()]


def _table(name: str, rows: list[Row]) -> Grid:
    row_labels = labels(rows, _heading)
    headings = [f"{_heading(row)} {label}".strip() for row, label in zip(rows, row_labels, strict=True)]
    lines = [(what, *(text(row) for row in rows)) for what, text in MEASURED.items()]
    listed = [what for what in SETUP if what != EPOCHS or not only_runs(rows)]
    setup = [f"{what}: {_setting(list(map(SETUP[what], rows)), headings)}" for what in listed]
    memory = "memory: peak minus idle, all devices together"
    notes = (*setup, *scaling_kinds(rows), memory, *sureness(rows), *remarks(rows))
    cells = {(0, column): (row,) for column, row in enumerate(rows, 1)}
    return Grid(name, (("", *headings), *lines), notes, turns=False, cells=cells)


def _setting(values: list[str], headings: list[str]) -> str:
    """Once if all have the same, else column by column."""
    if len(set(values)) == 1:
        return values[0]
    return ", ".join(f"{heading} {value}" for heading, value in zip(headings, values, strict=True))


def _heading(row: Row) -> str:
    return f"{'GPU' if 'cuda' in row.cell.devices else 'CPU'} ({row.device_count})"
