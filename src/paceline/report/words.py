"""Words that are safe where they are put."""

from __future__ import annotations


def markdown_cell(value: str) -> str:
    """A bar or a line break would end the cell, and a tag would be obeyed."""
    return " ".join(value.split()).replace("|", "\\|").replace("<", "&lt;")
