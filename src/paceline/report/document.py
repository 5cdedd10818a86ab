"""What a command says, before it is text: a sequence of parts, which each format writes in its own way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

FOLDS = re.compile(r"–|(?<=.)(?=\+)|(?<==\d) (?=\()|(?<=,) ")  # where a cell may be broken over two lines


@dataclass(frozen=True)
class Title:
    """Of the table below it."""

    text: str
    whole: bool = False  # one line, however long


@dataclass(frozen=True)
class Paragraph:
    text: str
    whole: bool = False


GAP = Paragraph("")  # an empty line in a terminal; Markdown has one between any two parts


@dataclass(frozen=True)
class Notes:
    """A list with a point before each line."""

    lines: Sequence[str]
    whole: ClassVar = False


@dataclass(frozen=True)
class Block:
    """Lines that must stay as they are: a command in two lines would be two commands."""

    lines: Sequence[str]
    whole: ClassVar = True


@dataclass(frozen=True)
class Heading:
    """Of a column, and how what stands below it is set."""

    text: str
    number: bool = False  # aligned to the right
    stacked: str = ""  # the text over two lines, for a terminal
    whole: bool = False  # never broken over two lines
    words: bool = False  # broken between words only


@dataclass(frozen=True)
class Table:
    headings: Sequence[Heading]
    lines: Sequence[Sequence[str]]
    gap: int = 2  # letters between columns in a terminal
    narrow: Table | None = None  # what it becomes where it is too wide
    optional: bool = False  # people see it only if it has lines; CSV has its headings in any case


Part = Title | Paragraph | Notes | Block | Table
Document = Sequence[Part]


def listing(headings: Sequence[str], lines: Sequence[Sequence[str]], gap: int = 2) -> Table:
    """Words in columns, of which the first has names."""
    return Table([Heading(text, whole=place == 0) for place, text in enumerate(headings)], lines, gap)


def folding(table: Table, folds: re.Pattern[str] = FOLDS) -> Table:
    """Cells are broken over several lines, unless one line per row fits."""
    lines = [[folds.sub(r"\g<0>\n", cell) if len(cell) > 1 else cell for cell in line] for line in table.lines]
    return replace(table, narrow=replace(table, lines=lines))
