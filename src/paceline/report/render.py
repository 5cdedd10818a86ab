"""Tables as text, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from paceline.metrics import Row
from paceline.report.columns import COLUMNS, FOOTNOTE, remarks, tables


def text(rows: list[Row], width: int | None = None) -> str:
    """For a terminal; as wide as it is."""
    output = io.StringIO()
    console = Console(width=width, file=output, highlight=False, force_terminal=False)
    for title, group in tables(rows):
        console.print(title, markup=False)
        console.print(fitting_grid(group, console))
        for remark in remarks(group):
            console.print(f"* {remark}", markup=False)
        console.print()
    console.print(FOOTNOTE, markup=False)
    return output.getvalue()


def fitting_grid(rows: list[Row], console: Console) -> Table:
    """One line per row if that is not too wide, else cells broken where they join two values."""
    wide = grid(rows, lambda cell: cell)
    unlimited = console.options.update(width=1000)
    if console.measure(wide, options=unlimited).maximum <= console.width:
        return wide
    return grid(rows, lambda cell: cell.replace("+", "\n+").replace("–", "–\n") if len(cell) > 1 else cell)


def grid(rows: list[Row], fold: Callable[[str], str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
    for column in COLUMNS:
        table.add_column(
            column.stacked or column.heading, justify="right" if column.number else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(fold(column.text(row)) for column in COLUMNS))
    return table


def markdown(rows: list[Row]) -> str:
    lines = []
    for title, group in tables(rows):
        lines += [f"**{_cell(title)}**", ""]
        lines.append("| " + " | ".join(column.heading for column in COLUMNS) + " |")
        lines.append("|" + "|".join("---:" if column.number else "---" for column in COLUMNS) + "|")
        lines += ["| " + " | ".join(_cell(column.text(row)) for column in COLUMNS) + " |" for row in group]
        lines += ["", *(f"* {_cell(remark)}" for remark in remarks(group)), ""]
    return "\n".join([*lines, FOOTNOTE, ""])


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
    speed = values.pop("images_per_second") or {}
    joined = {
        key: " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value for key, value in values.items()
    }
    return {**joined, **{f"images_per_second_{part}": speed.get(part) for part in ("median", "low", "high")}}


FORMATS: dict[str, Callable[[list[Row]], str]] = {"text": text, "markdown": markdown, "csv": as_csv, "json": as_json}
