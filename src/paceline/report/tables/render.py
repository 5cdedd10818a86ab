"""A row for each cell: the tables of `paceline show`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from paceline.analysis.rows.flat import estimates as estimated
from paceline.analysis.rows.flat import flat
from paceline.analysis.rows.row import Row
from paceline.report.document import GAP, Block, Document, Heading, Notes, Paragraph, Part, Table, Title, folding
from paceline.report.escaping import csv_lines
from paceline.report.formats import as_text, formats
from paceline.report.tables import sentences
from paceline.report.tables.columns import (
    FOOTNOTE,
    NEVER_FOOTNOTE,
    Column,
    accuracy_columns,
    machines,
    never_there,
    resource_columns,
    speed_columns,
    tables,
    with_places,
)
from paceline.report.tables.command_tables import (
    COMMAND_COLUMNS,
    COMMAND_FOOTNOTE,
    command_blocks,
    command_remarks,
    flat_command,
)
from paceline.report.tables.remarks import remarks
from paceline.system.text.safe_text import plainly


def said(findings: list[str]) -> Document:
    return [Paragraph("Findings"), Notes(findings)] if findings else []


def document(rows: list[Row]) -> Document:
    parts: list[Part] = []
    for title, group in tables(rows):
        parts += [Title(title), *(_commands(group) if group[0].command else _trainings(group)), GAP]
    return [*parts, *map(Paragraph, footnotes(rows))]


def _commands(rows: list[Row]) -> Document:
    notes = Notes([*remarks(rows), *command_remarks(rows)])
    return [_table(rows, COMMAND_COLUMNS), notes, GAP, Block(command_blocks(rows))]


def _trainings(rows: list[Row]) -> Document:
    parts: list[Part] = [_table(rows, with_places(speed_columns(rows), rows))]
    if ran := [row for row in rows if row.repeats]:
        parts += [GAP, _table(ran, with_places(resource_columns(ran), rows))]
    if accuracies := accuracy_columns(rows):
        parts += [GAP, _table(rows, with_places(accuracies, rows))]
    found = sentences.lines(rows)
    return [*parts, Notes(remarks(rows)), *([GAP] if found else []), *said(found)]


def _table(rows: list[Row], columns: Sequence[Column]) -> Table:
    headings = [Heading(one.heading, one.number, one.stacked, whole=one.heading == "framework") for one in columns]
    return folding(Table(headings, [[column.text(row) for column in columns] for row in rows], gap=1))


def footnotes(rows: list[Row]) -> list[str]:
    """What the columns mean, for each kind of table that is there, and which machines there are if several."""
    kinds = {row.command is not None: COMMAND_FOOTNOTE if row.command else FOOTNOTE for row in rows}
    known = machines(rows)
    several = [f"machine {name}: {what}." for name, what in known.items()] if len(known) > 1 else []
    never = [NEVER_FOOTNOTE] if any(never_there(row) and not row.command for row in rows) else []
    return [*several, *never, *(kinds[kind] for kind in sorted(kinds))]


@plainly
def text(rows: list[Row], width: int | None = None) -> str:
    return as_text(document(rows), width)


@plainly
def as_csv(rows: list[Row]) -> str:
    """One line per row; an estimate becomes three columns, a list is joined by spaces."""
    lines = [_flat(row) for row in rows]
    return csv_lines([*lines[:1], *(line.values() for line in lines)])


def _flat(row: Row) -> dict[str, object]:
    values = msgspec.to_builtins(flat(row))
    estimates = {name: values.pop(name) or {} for name in estimated()}
    values["utilisation"] = ["/".join(map(str, device)) for device in values["utilisation"]]
    values["scaling_against"] = [f"{one.devices}={one.scaling.median}" for one in row.scaling_against]
    noise = {f"noise_{name}": value for name, value in values.pop("noise").items()}
    values.update(flat_command(row))
    joined = {
        key: " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value for key, value in values.items()
    }
    parts = ("median", "low", "high")
    split = {f"{name}_{part}": found.get(part) for name, found in estimates.items() for part in parts}
    return {**joined, **noise, **split}


FORMATS = {
    **formats(document, lambda rows: [flat(row) for row in rows]),
    "csv": as_csv,
    "findings": sentences.as_json,
}
markdown = FORMATS["markdown"]
