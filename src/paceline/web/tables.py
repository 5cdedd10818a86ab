"""The tables of a page: the columns and words of `paceline show`, with the number of its cell in each line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.metrics import Row
from paceline.report.columns import RESOURCE_COLUMNS, Column, accuracy_columns, speed_columns
from paceline.report.commands import COMMAND_COLUMNS
from paceline.report.layouts import Grid
from paceline.web.marks import Mark, marks_of
from paceline.web.words import shown

FOLDED = 30  # lines of a table that are shown at first
Number = Callable[[Row], int]  # of a cell, on one page


@dataclass(frozen=True)
class Line:
    cell: int
    texts: tuple[str, ...]
    marks: tuple[Mark, ...]
    cause: str  # in place of numbers where there are none


@dataclass(frozen=True)
class Table:
    caption: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]

    @property
    def long(self) -> bool:
        return len(self.lines) > FOLDED


def speed_table(rows: Sequence[Row], number: Number) -> Table:
    """Every cell has its line here, also one without a result."""
    if rows[0].command:
        return _table("Whole commands", rows, COMMAND_COLUMNS, number)
    return _table("Speed, scaling and memory", rows, speed_columns(rows), number)


def further_tables(rows: Sequence[Row], number: Number) -> list[Table]:
    """What else is known of the cells that ran."""
    if rows[0].command:
        return []
    found = []
    if accuracies := accuracy_columns(rows):
        found.append(_table("Accuracy", [row for row in rows if row.test_accuracy], accuracies, number))
    if ran := [row for row in rows if row.repeats]:
        found.append(_table("Memory, utilisation and noise", ran, RESOURCE_COLUMNS, number))
    return found


def _table(caption: str, rows: Sequence[Row], columns: tuple[Column, ...], number: Number) -> Table:
    lines = [
        Line(
            cell=number(row),
            texts=tuple(shown(column.text(row)) for column in columns),
            marks=marks_of(row),
            cause=shown(row.reason or "") if not row.repeats else "",
        )
        for row in rows
    ]
    return Table(caption, columns, tuple(lines))


@dataclass(frozen=True)
class Arranged:
    """A table in a suite's own layout: words that lead nowhere; the lines of the cells stand below it."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    blocks: str


def arranged(grid: Grid) -> Arranged:
    headings, *lines = [tuple(map(shown, line)) for line in grid.lines]
    notes = tuple(map(shown, grid.notes))
    return Arranged(shown(grid.title), headings, tuple(lines), notes, "\n".join(map(shown, grid.blocks)))
