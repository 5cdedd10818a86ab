"""What sets rows apart that would have the same place in a table, and how they are called for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from paceline.analysis.rows.labels import DEVICES, placed
from paceline.analysis.rows.row import Row
from paceline.report.tables.columns import Column


def with_places(columns: Iterable[Column], rows: Iterable[Row]) -> tuple[Column, ...]:
    """The columns of a table of these rows, in which no two have the same framework and devices."""
    place = placed(rows)
    return tuple(replace(column, text=place) if column.heading == DEVICES else column for column in columns)
