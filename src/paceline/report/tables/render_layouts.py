"""Arranged tables as text, Markdown or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from paceline.analysis.rows.row import Row
from paceline.report.document import GAP, Block, Document, Heading, Notes, Paragraph, Part, Table, Title
from paceline.report.escaping import csv_lines
from paceline.report.formats import formats
from paceline.report.tables import sentences
from paceline.report.tables.columns import tables
from paceline.report.tables.layouts import LAYOUTS, Grid
from paceline.report.tables.render import FORMATS as ROW_FORMATS
from paceline.report.tables.render import said
from paceline.system.text.safe_text import plainly

NAME = 30  # letters; longer ones would push the numbers out of a terminal if they were not broken
WORD = 8  # letters; shorter ones stand for a number that is missing


def document(grids: Sequence[Grid]) -> Document:
    parts: list[Part] = []
    for grid in grids:
        narrow = _table(grid.transposed()) if grid.turns else None
        parts += [Title(grid.title), replace(_table(grid), narrow=narrow), Notes(grid.notes)]
        parts += [Paragraph(grid.blocks_title, whole=True)] if grid.blocks_title else []
        parts += [Block(grid.blocks)] if grid.blocks else []
        parts.append(GAP)
    return parts


def _table(grid: Grid) -> Table:
    headings, *lines = grid.lines
    set_as = [_heading(grid, place, [line[place] for line in lines]) for place in range(len(headings))]
    return Table(set_as, lines)


def _heading(grid: Grid, place: int, cells: Sequence[str]) -> Heading:
    numbers = place >= grid.words and all(cell[:1].isdigit() or len(cell) < WORD for cell in cells)
    name = place < grid.unbroken and not numbers and all(len(cell) <= NAME for cell in cells)
    return Heading(grid.lines[0][place], numbers, whole=name)


def arranged(layout: str, rows: list[Row]) -> Document:
    """And below it what the rows say, table by table of their plain form."""
    found = _each_once(tables(rows))
    return [*document(LAYOUTS[layout](rows)), *said(found)]


def _each_once(groups: Sequence[tuple[str, list[Row]]]) -> list[str]:
    """The first sentences, each with the tables that it is true of, unless it is true of all."""
    labels = differing([name for name, _ in groups])
    found: dict[str, list[str]] = {}
    for label, (_, group) in zip(labels, groups, strict=True):
        for line in sentences.below_remarks(group):
            found.setdefault(line, []).append(label)
    lines = [line if len(where) == len(groups) else f"{'; '.join(where)}: {line}" for line, where in found.items()]
    return sentences.first_ones(lines)


def differing(titles: Sequence[str]) -> list[str]:
    """What each has that not all have."""
    parts = [title.split(", ") for title in titles]
    common = set.intersection(*map(set, parts)) if parts else set()
    return [", ".join(part for part in each if part not in common) for each in parts]


@plainly
def as_csv(grids: Sequence[Grid]) -> str:
    """Table after table, each with its title in the first column."""
    lines: list[tuple[str, ...]] = []
    for grid in grids:
        headings, *rest = grid.lines
        lines += [("table", *headings), *((grid.title, *line) for line in rest)]
    return csv_lines(lines)


FORMATS = {**formats(document), "csv": as_csv}
markdown = FORMATS["markdown"]


def in_layout(rows: list[Row], layout: str, form: str) -> str:
    """As `paceline show` prints it: a row for each cell where the layout, or the form, is no other."""
    if layout in LAYOUTS and form in ("text", "markdown"):
        return formats(partial(arranged, layout))[form](rows)
    if layout in LAYOUTS and form == "csv":
        return as_csv(LAYOUTS[layout](rows))
    return ROW_FORMATS[form](rows)
