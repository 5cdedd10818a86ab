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

from paceline.metrics import Row
from paceline.report.columns import COLUMNS, FOOTNOTE, Column, accuracy_columns, remarks, tables

Columns = tuple[Column, ...]
FOLDS = re.compile(r"–|(?<=.)(?=\+)|(?<==\d) (?=\()")  # where a cell may be broken over two lines


def text(rows: list[Row], width: int | None = None) -> str:
    """For a terminal; as wide as it is."""
    output = io.StringIO()
    console = Console(width=width, file=output, highlight=False, force_terminal=False)
    for title, group in tables(rows):
        console.print(title, markup=False)
        console.print(fitting_grid(group, COLUMNS, console))
        if accuracies := accuracy_columns(group):
            console.print()
            console.print(fitting_grid(group, accuracies, console))
        for remark in remarks(group):
            console.print(f"* {remark}", markup=False)
        console.print()
    console.print(FOOTNOTE, markup=False)
    return output.getvalue()


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


def markdown(rows: list[Row]) -> str:
    lines = []
    for title, group in tables(rows):
        lines += [f"**{_cell(title)}**", ""]
        lines += [*markdown_grid(group, COLUMNS), ""]
        if accuracies := accuracy_columns(group):
            lines += [*markdown_grid(group, accuracies), ""]
        lines += [*(f"* {_cell(remark)}" for remark in remarks(group)), ""]
    return "\n".join([*lines, FOOTNOTE, ""])


def markdown_grid(rows: list[Row], columns: Columns) -> list[str]:
    return [
        "| " + " | ".join(column.heading for column in columns) + " |",
        "|" + "|".join("---:" if column.number else "---" for column in columns) + "|",
        *("| " + " | ".join(_cell(column.text(row)) for column in columns) + " |" for row in rows),
    ]


def _cell(value: str) -> str:
    """A bar or a line break would end the cell, and a tag would be obeyed."""
    return " ".join(value.split()).replace("|", "\\|").replace("<", "&lt;")


def as_json(rows: list[Row]) -> str:
    return msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n"


def as_csv(rows: list[Row]) -> str:
    """One line per row; an estimate becomes three columns, a list is joined by spaces."""
    output = io.StringIO()
    writer = csv.DictWriter(output, fieldnames=list(_flat(rows[0])) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(row) for row in rows)
    return output.getvalue()


def _flat(row: Row) -> dict[str, object]:
    values = msgspec.to_builtins(row)
    estimates = {name: values.pop(name) or {} for name in ("images_per_second", "train_accuracy", "test_accuracy")}
    joined = {
        key: " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value for key, value in values.items()
    }
    parts = ("median", "low", "high")
    return {**joined, **{f"{name}_{part}": found.get(part) for name, found in estimates.items() for part in parts}}


FORMATS: dict[str, Callable[[list[Row]], str]] = {"text": text, "markdown": markdown, "csv": as_csv, "json": as_json}
