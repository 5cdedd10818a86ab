"""What a rule of an audit is, and what one of its checks says: what was compared, and which figures it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from paceline.studies.audit.printed_rows import Document, PrintedNumber, PrintedRow, PrintedTable

FigureKey = tuple[str, str]  # where it stands, and its quantity


@dataclass(frozen=True)
class TableCheck:
    where: str
    text: str | None = None  # None: it is right
    covers: tuple[FigureKey, ...] = ()  # those that it would find wrong at twice their size
    counts: bool = True  # False: if it fails, that is worth a note, but no contradiction
    against: tuple[FigureKey, ...] = ()  # it was measured against these: where one is wrong, nothing follows


Checks = Iterator[TableCheck]


@dataclass(frozen=True)
class Rule:
    name: str
    meaning: str
    check: Callable[[Document], Checks]


def figures(row: PrintedRow, *quantities: str) -> tuple[FigureKey, ...]:
    return tuple((row.where, quantity) for quantity in quantities)


def of_rows(check: Callable[[PrintedRow], Checks]) -> Callable[[Document], Checks]:
    """A rule that looks at one row at a time."""

    def checked(document: Document) -> Checks:
        for table in document.tables:
            for row in table.rows:
                yield from check(row)

    return checked


def of_tables(check: Callable[[PrintedTable], Checks]) -> Callable[[Document], Checks]:
    """A rule that needs the rows of a table together."""

    def checked(document: Document) -> Checks:
        for table in document.tables:
            yield from check(table)

    return checked


def contradiction(printed: PrintedNumber, right: float, within: float, how: str) -> str | None:
    """The printed number and the right one, unless rounding explains the difference."""
    if abs(printed.value - right) <= within * (1 + 1e-9):
        return None
    shown = _with_decimals(100 * right, printed) + "%" if printed.percent else _with_decimals(right, printed)
    return f"printed {printed.text}, but {how} = {shown} ({off(printed.value, right)})"


def _with_decimals(right: float, printed: PrintedNumber) -> str:
    """As many as were printed, or more where less than two digits would be left: 0.92 for 92, not 1."""
    digits = 1 - math.floor(math.log10(abs(right))) if right else 0
    return f"{right:.{max(printed.decimals, digits)}f}"


def off(printed: float, right: float) -> str:
    if right <= 0 or printed <= 0:
        return "not even its sign"
    ratio = printed / right
    if ratio >= 1.5:
        return f"{ratio:.3g} times as much"
    return f"{abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'}"
