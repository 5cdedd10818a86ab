"""Arranged tables as text, Markdown or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from paceline.analysis.rows.row import Row
from paceline.report.escaping import markdown_cell, spreadsheet_cell
from paceline.report.tables import sentences
from paceline.report.tables.columns import tables
from paceline.report.tables.layouts import LAYOUTS, Grid
from paceline.report.tables.render import FORMATS as ROW_FORMATS
from paceline.system.text.safe_text import plainly

NAME = 30  # letters; longer ones would push the numbers out of a terminal if they were not broken
WORD = 8  # letters; shorter ones stand for a number that is missing


@plainly
def text(grids: Sequence[Grid], width: int | None = None) -> str:
    """For a terminal: turned on its side where it would be too wide."""
    output = io.StringIO()
    console = Console(width=width, file=output, highlight=False, force_terminal=False, markup=False)
    for grid in grids:
        console.print(grid.title, markup=False)
        console.print(_fitting(grid, console))
        for note in grid.notes:
            console.print(f"* {note}", markup=False)
        for line in (*filter(None, [grid.blocks_title]), *grid.blocks):
            console.print(line, markup=False, soft_wrap=True)  # a command in two lines would be two commands
        console.print()
    return output.getvalue()


@plainly
def findings(rows: Sequence[Row], form: str) -> str:
    """What the rows say, table by table of their plain form."""
    lines = _each_once(tables(rows))
    if form == "csv" or not lines:
        return ""
    if form == "markdown":
        return "\n".join(["Findings", "", *(f"* {markdown_cell(line)}" for line in lines), ""])
    output = io.StringIO()
    console = Console(file=output, highlight=False, force_terminal=False, markup=False)
    console.print("Findings", *(f"* {line}" for line in lines), sep="\n")
    return output.getvalue()


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


def _fitting(grid: Grid, console: Console) -> Table:
    upright = _table(grid)
    if not grid.turns:
        return upright
    lying = _table(grid.transposed())
    unlimited = console.options.update(width=1000)
    widths = [console.measure(table, options=unlimited).maximum for table in (upright, lying)]
    return upright if widths[0] <= console.width or widths[0] <= widths[1] else lying


def _table(grid: Grid) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    headings, *lines = grid.lines
    for place, heading in enumerate(headings):
        numbers = place >= grid.words and all(line[place][:1].isdigit() or len(line[place]) < WORD for line in lines)
        name = place < grid.unbroken and not numbers and all(len(line[place]) <= NAME for line in lines)
        table.add_column(heading, justify="right" if numbers else "left", no_wrap=name, overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


@plainly
def markdown(grids: Sequence[Grid]) -> str:
    lines = []
    for grid in grids:
        rows = [f"| {' | '.join(map(markdown_cell, line))} |" for line in grid.lines]
        rows.insert(1, "|" + "---|" * grid.words + "---:|" * (len(grid.lines[0]) - grid.words))
        notes = [f"* {markdown_cell(note)}" for note in grid.notes]
        named = [markdown_cell(grid.blocks_title), ""] if grid.blocks_title else []
        blocks = [*named, "```text", *grid.blocks, "```", ""] if grid.blocks else []
        lines += [f"**{markdown_cell(grid.title)}**", "", *rows, "", *notes, "", *blocks]
    return "\n".join([*lines, ""])  # an empty line at the end: what follows is no part of the last note


@plainly
def as_csv(grids: Sequence[Grid]) -> str:
    """Table after table, each with its title in the first column."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    for grid in grids:
        writer.writerow(map(spreadsheet_cell, ["table", *grid.lines[0]]))
        writer.writerows(map(spreadsheet_cell, [grid.title, *line]) for line in grid.lines[1:])
    return output.getvalue()


FORMATS: dict[str, Callable[[Sequence[Grid]], str]] = {"text": text, "markdown": markdown, "csv": as_csv}


def in_layout(rows: list[Row], layout: str, form: str) -> str:
    """As `paceline show` prints it: a row for each cell where the layout, or the form, is no other."""
    if form in FORMATS and layout in LAYOUTS:
        return FORMATS[form](LAYOUTS[layout](rows)) + findings(rows, form)
    return ROW_FORMATS[form](rows)
