"""The tables of a page: the columns and words of `paceline show`, with the number of its cell in each line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paceline.analysis.rows.row import Row
from paceline.report.escaping import page_text
from paceline.report.page.badges import Badge, badges_of
from paceline.report.tables.columns import Column, accuracy_columns, resource_columns, speed_columns, with_places
from paceline.report.tables.command_tables import COMMAND_COLUMNS
from paceline.report.tables.layouts import JOINT, Grid, GridCells
from paceline.system.text.safe_text import printed

FOLDED = 30  # lines of a table that are shown at first
NumberOfCell = Callable[[Row], int]  # of a cell, on one page


@dataclass(frozen=True)
class TableLine:
    cell: int
    texts: tuple[str, ...]
    marks: tuple[Badge, ...]
    cause: str  # in place of numbers where there are none


@dataclass(frozen=True)
class PageTable:
    caption: str
    columns: tuple[Column, ...]
    lines: tuple[TableLine, ...]

    @property
    def long(self) -> bool:
        return len(self.lines) > FOLDED


def speed_table(rows: Sequence[Row], number: NumberOfCell) -> PageTable:
    """Every cell has its line here, also one without a result."""
    if rows[0].command:
        return _table("Whole commands", rows, COMMAND_COLUMNS, number)
    return _table("Speed, scaling and memory", rows, with_places(speed_columns(rows), rows), number)


def further_tables(rows: Sequence[Row], number: NumberOfCell) -> list[PageTable]:
    """What else is known of the cells that ran."""
    if rows[0].command:
        return []
    found = []
    ran = [row for row in rows if row.repeats]
    if accuracies := accuracy_columns(ran):
        found.append(_table("Accuracy", ran, with_places(accuracies, rows), number))
    if ran:
        found.append(_table("Memory, utilisation and noise", ran, with_places(resource_columns(ran), rows), number))
    return found


def _table(caption: str, rows: Sequence[Row], columns: tuple[Column, ...], number: NumberOfCell) -> PageTable:
    lines = [
        TableLine(
            cell=number(row),
            texts=tuple(page_text(column.text(row)) for column in columns),
            marks=badges_of(row),
            cause=page_text(row.reason or "") if not row.repeats else "",
        )
        for row in rows
    ]
    return PageTable(caption, columns, tuple(lines))


@dataclass(frozen=True)
class PlacePart:
    """Words of a place in a table, and the cell that they lead to."""

    text: str
    cell: int | None


Pieces = tuple[PlacePart, ...]


@dataclass(frozen=True)
class ArrangedTable:
    """A table in a suite's own layout; a place has several pieces where it joins the values of several cells."""

    grid: Grid  # what else it says, in printable words
    headings: tuple[Pieces, ...]
    lines: tuple[tuple[Pieces, ...], ...]


def arranged(grid: Grid, number: NumberOfCell) -> ArrangedTable:
    headings, *lines = [
        tuple(_pieces(text, grid.cells.get((line, column), ()), number) for column, text in enumerate(texts))
        for line, texts in enumerate(grid.lines)
    ]
    return ArrangedTable(printed(replace(grid, lines=(), cells={})), headings, tuple(lines))


def _pieces(text: str, cells: GridCells, number: NumberOfCell) -> Pieces:
    """One for each cell; one that leads nowhere where a word stands for several cells, or for none."""
    texts = text.split(JOINT) if len(cells) > 1 else [text]
    if len(texts) != len(cells):
        return (PlacePart(page_text(text), None),)
    return tuple(
        PlacePart(page_text(each), number(row) if row else None) for each, row in zip(texts, cells, strict=True)
    )
