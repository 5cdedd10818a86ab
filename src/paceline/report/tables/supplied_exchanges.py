"""Whose exchange brought the devices of a row together."""

from __future__ import annotations

from paceline.analysis.rows.row import Row
from paceline.catalog.frameworks import all_frameworks


def supplied_exchange(row: Row) -> str:
    """Why it is not the framework's own; empty where it is, and where nothing was exchanged."""
    framework = all_frameworks().get(row.framework.partition("+")[0])
    exchanged = (row.device_count > 1 or row.wrapped) and row.update != "independent" and row.runs and not row.command
    return framework.exchange if framework and exchanged else ""
