"""Tables of the pages in docs/, to hold them against what they speak of."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def rows_below(page: str, heading: str) -> list[str]:
    """The rows of the first table below a heading, as they are written, without its head."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = text.partition(f"\n{heading}\n")[2].partition("\n#")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]
