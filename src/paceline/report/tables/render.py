"""Tables as text, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from paceline.analysis.rows.flat import estimates as estimated
from paceline.analysis.rows.flat import flat
from paceline.analysis.rows.row import Row
from paceline.report.escaping import markdown_cell, spreadsheet_cell
from paceline.report.tables import columns, sentences
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
)
from paceline.report.tables.command_tables import (
    COMMAND_COLUMNS,
    COMMAND_FOOTNOTE,
    command_blocks,
    command_remarks,
    flat_command,
)
from paceline.report.tables.remarks import remarks
from paceline.system.text import safe_text
from paceline.system.text.safe_text import plainly

Columns = tuple[Column, ...]
FOLDS = re.compile(r"–|(?<=.)(?=\+)|(?<==\d) (?=\()|(?<=,) ")  # where a cell may be broken over two lines


@plainly
def text(rows: list[Row], width: int | None = None) -> str:
    """For a terminal; as wide as it is."""
    output = io.StringIO()
    console = Console(width=width, file=output, highlight=False, force_terminal=False, markup=False)
    for title, group in tables(rows):
        console.print(title, markup=False)
        if group[0].command:
            print_commands(group, console)
            continue
        console.print(fitting_grid(group, columns.with_places(speed_columns(group), group), console))
        if ran := [row for row in group if row.repeats]:
            console.print()
            console.print(fitting_grid(ran, columns.with_places(resource_columns(ran), group), console))
        if accuracies := accuracy_columns(group):
            console.print()
            console.print(fitting_grid(group, columns.with_places(accuracies, group), console))
        for remark in remarks(group):
            console.print(f"* {remark}", markup=False)
        if found := sentences.lines(group):
            console.print("\nFindings", *(f"* {line}" for line in found), sep="\n", markup=False)
        console.print()
    for footnote in footnotes(rows):
        console.print(footnote, markup=False)
    return output.getvalue()


def footnotes(rows: list[Row]) -> list[str]:
    """What the columns mean, for each kind of table that is there, and which machines there are if several."""
    kinds = {row.command is not None: COMMAND_FOOTNOTE if row.command else FOOTNOTE for row in rows}
    known = machines(rows)
    several = [f"machine {name}: {what}." for name, what in known.items()] if len(known) > 1 else []
    never = [NEVER_FOOTNOTE] if any(never_there(row) and not row.command for row in rows) else []
    return [*several, *never, *(kinds[kind] for kind in sorted(kinds))]


def print_commands(rows: list[Row], console: Console) -> None:
    console.print(fitting_grid(rows, COMMAND_COLUMNS, console))
    for remark in [*remarks(rows), *command_remarks(rows)]:
        console.print(f"* {remark}")
    console.print("", *command_blocks(rows), sep="\n", soft_wrap=True)
    console.print()


def markdown_commands(rows: list[Row]) -> list[str]:
    lines = [f"* {markdown_cell(remark)}" for remark in [*remarks(rows), *command_remarks(rows)]]
    blocks = ["```text", *command_blocks(rows), "```"]
    return [*markdown_grid(rows, COMMAND_COLUMNS), "", *lines, "", *blocks, ""]


def fitting_grid(rows: list[Row], columns: Columns, console: Console) -> Table:
    """One line per row if that is not too wide, else cells broken where they join two values."""
    wide = grid(rows, columns, lambda cell: cell)
    unlimited = console.options.update(width=1000)
    if console.measure(wide, options=unlimited).maximum <= console.width:
        return wide
    return grid(rows, columns, lambda cell: FOLDS.sub(r"\g<0>\n", cell) if len(cell) > 1 else cell)


def grid(rows: list[Row], columns: Columns, fold: Callable[[str], str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
    for column in columns:
        table.add_column(
            column.stacked or column.heading,
            justify="right" if column.number else "left",
            overflow="fold",
            no_wrap=column.heading == "framework",  # a name in two parts is no name
        )
    for row in rows:
        table.add_row(*(fold(column.text(row)) for column in columns))
    return table


@plainly
def markdown(rows: list[Row]) -> str:
    lines = []
    for title, group in tables(rows):
        lines += [f"**{markdown_cell(title)}**", ""]
        if group[0].command:
            lines += markdown_commands(group)
            continue
        lines += [*markdown_grid(group, columns.with_places(speed_columns(group), group)), ""]
        if ran := [row for row in group if row.repeats]:
            lines += [*markdown_grid(ran, columns.with_places(resource_columns(ran), group)), ""]
        if accuracies := accuracy_columns(group):
            lines += [*markdown_grid(group, columns.with_places(accuracies, group)), ""]
        lines += [*(f"* {markdown_cell(remark)}" for remark in remarks(group)), ""]
        if found := sentences.lines(group):
            lines += ["Findings", "", *(f"* {markdown_cell(line)}" for line in found), ""]
    return "\n".join([*lines, "\n\n".join(footnotes(rows)), ""])


def markdown_grid(rows: list[Row], columns: Columns) -> list[str]:
    return [
        "| " + " | ".join(column.heading for column in columns) + " |",
        "|" + "|".join("---:" if column.number else "---" for column in columns) + "|",
        *("| " + " | ".join(markdown_cell(column.text(row)) for column in columns) + " |" for row in rows),
    ]


def as_json(rows: list[Row]) -> str:
    return safe_text.as_json([flat(row) for row in rows])


@plainly
def as_csv(rows: list[Row]) -> str:
    """One line per row; an estimate becomes three columns, a list is joined by spaces."""
    output = io.StringIO()
    writer = csv.DictWriter(output, fieldnames=list(_flat(rows[0])) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(row) for row in rows)
    return output.getvalue()


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
    return {key: spreadsheet_cell(value) for key, value in {**joined, **noise, **split}.items()}


FORMATS: dict[str, Callable[[list[Row]], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": as_csv,
    "json": as_json,
    "findings": sentences.as_json,
}
