"""Names of cells as the index has them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from paceline.cell import Cell
from paceline.letters import printable
from paceline.naming import cell_names


def names_in(cells: Iterable[str]) -> dict[str, str]:
    """By their JSON, no two alike."""
    decoded = {cell: msgspec.json.decode(cell, type=Cell) for cell in dict.fromkeys(cells)}
    names = cell_names(decoded.values())
    return {text: printable(names[cell]) for text, cell in decoded.items()}
