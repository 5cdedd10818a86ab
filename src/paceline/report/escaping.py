"""Words that are safe where they are put, and not too many."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

from paceline.system.text.safe_text import printable

SIGNED = re.compile(r"[+-][\d.,]+((–| to )[+-]?[\d.,]+)?")  # a number, or two with what is between them


def spreadsheet_cell(value: object) -> object:
    """Text that a spreadsheet would take for a formula gets a sign before it; numbers stay numbers."""
    if not isinstance(value, str) or SIGNED.fullmatch(value):
        return value
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def csv_lines(lines: Iterable[Iterable[object]]) -> str:
    output = io.StringIO()
    csv.writer(output, lineterminator="\n").writerows(map(spreadsheet_cell, line) for line in lines)
    return output.getvalue()


def markdown_cell(value: str) -> str:
    """A bar or a line break would end the cell, and a tag would be obeyed."""
    return " ".join(value.split()).replace("|", "\\|").replace("<", "&lt;")


def few(parts: Iterable[str], most: int, between: str = "; ") -> str:
    """Each once, and of many the first with how many more there are."""
    kept = list(dict.fromkeys(parts))
    more = [f"and {len(kept) - most} more"] if len(kept) > most else []
    return between.join(kept[:most] + more)


def page_text(text: str) -> str:
    """Without letters that steer what shows them; quick, since nearly all texts have none and a page has many."""
    return text if text.isprintable() else printable(text)
