"""Words that are safe where they are put."""

from __future__ import annotations


def spreadsheet_cell(value: object) -> object:
    """Text that a spreadsheet would take for a formula gets a sign before it; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def markdown_cell(value: str) -> str:
    """A bar or a line break would end the cell, and a tag would be obeyed."""
    return " ".join(value.split()).replace("|", "\\|").replace("<", "&lt;")
