"""Words of others, made fit for a page."""

from __future__ import annotations

from paceline.system.text.safe_text import printable


def shown(text: str) -> str:
    """Without letters that steer what shows them; quick, since nearly all texts have none and a page has many."""
    return text if text.isprintable() else printable(text)
