"""Two shapes of device sets by frameworks: one with data sources in each place, one for time and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from paceline.analysis.quantities.known import IDLE_MEMORY, MEMORY, SECONDS
from paceline.analysis.rows.labels import labels, where
from paceline.analysis.rows.row import Row
from paceline.plan.cell_names import grouped
from paceline.report.tables.columns import titled
from paceline.report.tables.command_tables import command_blocks
from paceline.report.tables.layouts.grid import JOINT, Grid, GridCells, speed, sureness
from paceline.report.tables.remarks import remarks
from paceline.report.tables.rerun_command import command_line
from paceline.system.text.formatting import NOTHING
from paceline.system.text.safe_text import printable

SOURCES = ("fake:device", "fake:host", "fake:python")
MISSING = "N/A"  # as published tables say what crashed
Labelled = list[tuple[str, Row]]  # the device set, with what else makes the place its own


def by_source(rows: Sequence[Row]) -> list[Grid]:
    """A table for each update: device sets down, frameworks across, and one value for each data source joined by /."""
    return [_sources(name, group) for name, group in grouped(rows, titled(rows, source=False)).items()]


def _sources(name: str, rows: list[Row]) -> Grid:
    def joined(cells: GridCells) -> str:
        """One word where all have no value for the same cause."""
        values = list(map(speed, cells))
        return values[0] if len(set(values)) == 1 and not values[0][0].isdigit() else JOINT.join(values)

    unit = f"images/s, {JOINT.join(source.removeprefix('fake:') for source in _sources_of(rows))}"
    notes = (*sureness(rows), *remarks(rows, memory=False))
    return replace(_spread(f"{name}: {unit}", _labelled(rows), joined), notes=notes)


def _sources_of(rows: Iterable[Row]) -> list[str]:
    order = {source: position for position, source in enumerate(SOURCES)}
    return sorted({row.cell.data for row in rows}, key=lambda source: (order.get(source, len(order)), source))


def _labelled(rows: list[Row]) -> Labelled:
    """No two rows of the same framework and data have the same label."""
    row_labels = labels(rows, lambda row: (where(row), row.cell.framework, row.cell.data))
    return [(f"{where(row)} {label}".strip(), row) for row, label in zip(rows, row_labels, strict=True)]


def _spread(title: str, labelled: Labelled, text: Callable[[GridCells], str]) -> Grid:
    """Device sets down, frameworks across; a place is given its row, or None, of each data source."""
    labels = list(dict.fromkeys(label for label, _ in labelled))
    frameworks = list(dict.fromkeys(row.cell.framework for _, row in labelled))
    sources = _sources_of(row for _, row in labelled)
    found = {(label, row.cell.framework, row.cell.data): row for label, row in labelled}
    cells = {
        (line, column): tuple(found.get((label, framework, source)) for source in sources)
        for line, label in enumerate(labels, 1)
        for column, framework in enumerate(frameworks, 1)
    }
    columns = range(1, len(frameworks) + 1)
    lines = [(label, *(text(cells[line, column]) for column in columns)) for line, label in enumerate(labels, 1)]
    return Grid(title, (("", *frameworks), *lines), notes=(), cells=cells)


def matrix(rows: Sequence[Row]) -> list[Grid]:
    """Framework by device set: a table for time, one for memory, and below each cell's own block."""
    return [grid for name, group in grouped(rows, titled(rows)).items() for grid in _two_matrices(name, group)]


def _two_matrices(name: str, rows: list[Row]) -> list[Grid]:
    def seconds(cells: GridCells) -> str:
        return next(
            (f"{row.median(SECONDS):.3f}s" for row in cells if row and row.median(SECONDS) is not None), _empty(cells)
        )

    def memory(cells: GridCells) -> str:
        found = [" + ".join(f"{value:.0f}" for value in row.of_each(MEMORY)) for row in cells if row]
        return f"{found[0]} MiB" if found and found[0] else _empty(cells)

    labelled = _labelled(rows)
    blocks = [line for label, row in labelled for line in _block(label, row)]
    notes = remarks(map(_without_cause, rows))
    time = replace(_spread(f"{name}: time", labelled, seconds), notes=tuple(sureness(rows)))
    held = _spread(f"{name}: memory, peak minus idle", labelled, memory)
    return [time.transposed(), replace(held, notes=tuple(notes), blocks=tuple(blocks)).transposed()]


def _empty(cells: GridCells) -> str:
    """A dash where nothing was to be measured, such as another framework's rate."""
    return MISSING if any(cells) else NOTHING


def _without_cause(row: Row) -> Row:
    """Its block has the cause and the log."""
    return msgspec.structs.replace(row, reason=None, failed_run=None) if row.median(SECONDS) is None else row


def _block(label: str, row: Row) -> list[str]:
    """What was run, and how long it took and what it held, or why there is nothing."""
    if row.command:
        return command_blocks([row]) + _log(row)
    return [f"{row.cell.framework} ({label})", f"  $ {command_line(row)}", f"  {_outcome(row)}", *_log(row)]


def _outcome(row: Row) -> str:
    if row.median(SECONDS) is None:
        return f"{MISSING} ({row.status}): {printable(row.reason or 'no cause is known')}"
    held = [
        f"({idle + peak:.0f} - {idle:.0f}) MiB"
        for idle, peak in zip(row.of_each(IDLE_MEMORY), row.of_each(MEMORY), strict=False)
    ]
    return f"training {row.median(SECONDS):.3f}s, peak memory {' + '.join(held) or NOTHING}"


def _log(row: Row) -> list[str]:
    return [f"  log: paceline log {row.failed_run}"] if row.failed_run and row.median(SECONDS) is None else []
