"""Documents as text for a terminal and as Markdown, lines as CSV: the one way in which commands say what they found."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.table import Table as TerminalTable

from paceline.report.document import Block, Document, Notes, Paragraph, Part, Table, Title
from paceline.report.escaping import csv_lines, markdown_cell
from paceline.system.text.safe_text import as_json, printed

Value = TypeVar("Value")


def itself(value: object) -> object:
    return value


def formats(
    document: Callable[[Value], Document], data: Callable[[Value], object] = itself
) -> dict[str, Callable[[Value], str]]:
    """The forms that a command offers: for people in printable words only, for programs as it is."""
    return {
        "text": lambda value: as_text(document(printed(value))),
        "markdown": lambda value: as_markdown(document(printed(value))),
        "csv": lambda value: as_csv(document(printed(value))),
        "json": lambda value: as_json(data(value)),
    }


def as_text(document: Document, width: int | None = None) -> str:
    """For a terminal; as wide as it is."""
    output = io.StringIO()
    # Neither markup nor emoji: the shares 1:100:1 have no picture in the middle.
    console = Console(width=width, file=output, highlight=False, force_terminal=False, markup=False, emoji=False)
    for part in document:
        if isinstance(part, Table):
            if part.lines or not part.optional:
                console.print(_fitting(part, console))
        else:
            for line in _lines(part):
                console.print(line, soft_wrap=part.whole)
    return output.getvalue()


def _lines(part: Title | Paragraph | Notes | Block) -> Sequence[str]:
    match part:
        case Notes(lines):
            return [f"* {line}" for line in lines]
        case Block(lines):
            return lines
    return [part.text]


def _fitting(table: Table, console: Console) -> TerminalTable:
    """As it is, unless that is too wide and there is a narrower shape."""
    unlimited = console.options.update(width=1000)
    shapes = [_made(shape) for shape in (table, table.narrow) if shape]
    widths = [console.measure(shape, options=unlimited).maximum for shape in shapes]
    return shapes[0] if widths[0] <= console.width else shapes[widths.index(min(widths))]


def _made(table: Table) -> TerminalTable:
    made = TerminalTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, table.gap - 1, 0, 0), show_edge=False)
    for heading, *cells in zip(table.headings, *table.lines, strict=True):
        words = " ".join([heading.text, *cells]).split() if heading.words else []
        made.add_column(
            heading.stacked or heading.text,
            justify="right" if heading.number else "left",
            no_wrap=heading.whole,
            overflow="fold",
            min_width=max(map(len, words), default=None),
        )
    for line in table.lines:
        made.add_row(*line)
    return made


def as_markdown(document: Document) -> str:
    return "\n\n".join(filter(None, map(_markdown, document))) + "\n"


def _markdown(part: Part) -> str:
    match part:
        case Title(text):
            return f"**{markdown_cell(text)}**"
        case Paragraph(text):
            return markdown_cell(text)
        case Notes(lines):
            return "\n".join(f"* {markdown_cell(line)}" for line in lines)
        case Block(lines):
            return "\n".join(["```text", *lines, "```"])
        case Table(headings, rows) if rows or not part.optional:
            marks = ["---:" if heading.number else "---" for heading in headings]
            names = [heading.text for heading in headings]
            return "\n".join([_row(names), f"|{'|'.join(marks)}|", *map(_row, rows)])
    return ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(markdown_cell, cells))} |"


def as_csv(document: Document) -> str:
    """Its tables; of one without lines the headings, so that it can be read."""
    tables = [part for part in document if isinstance(part, Table)]
    return csv_lines(line for table in tables for line in ([heading.text for heading in table.headings], *table.lines))
