"""Shapes of a table other than one row per cell: the same rows, arranged as published tables are.

A layout decides which cell stands where; how it becomes text, Markdown or CSV is up to `render_layouts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline.analysis.rows.row import Row
from paceline.report.tables.layouts.grid import JOINT, Grid, GridCells
from paceline.report.tables.layouts.long_rows import long
from paceline.report.tables.layouts.matrices import by_source, matrix
from paceline.report.tables.layouts.per_framework import transposed

__all__ = ["JOINT", "LAYOUTS", "Grid", "GridCells", "by_source", "long", "matrix", "transposed"]

LAYOUTS: dict[str, Callable[[Sequence[Row]], list[Grid]]] = {
    "sources": by_source,
    "matrix": matrix,
    "long": long,
    "transposed": transposed,
}
