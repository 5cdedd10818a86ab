"""Names of cells as the index has them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from paceline.plan.cell import Cell
from paceline.plan.cell_names import cell_names
from paceline.system.text.safe_text import printable


def names_in(cells: Iterable[str]) -> dict[str, str]:
    """By their JSON, no two alike."""
    decoded = {cell: msgspec.json.decode(cell, type=Cell) for cell in dict.fromkeys(cells)}
    names = cell_names(decoded.values())
    return {text: printable(names[cell]) for text, cell in decoded.items()}
