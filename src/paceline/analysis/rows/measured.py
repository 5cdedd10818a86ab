"""What the runs of a cell came to, quantity by quantity."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from paceline.analysis.quantities.definition import Quantity
from paceline.analysis.quantities.known import all_quantities
from paceline.analysis.rows.row import Measured
from paceline.analysis.statistics.intervals import estimate
from paceline.plan.cell import Cell
from paceline.store.run_results import RunResult

Runs = Sequence[RunResult]


def measured(cell: Cell, good: Runs, confidence: float) -> dict[str, Measured]:
    """From the runs that ended well; what none of them has is left out."""
    found = {quantity.name: _one(quantity, cell, good, confidence) for quantity in all_quantities()}
    return {name: one for name, one in found.items() if one is not None}


def _one(quantity: Quantity, cell: Cell, good: Runs, confidence: float) -> Measured | None:
    values = [value / quantity.per_unit for value in quantity.values_of(cell, good)]
    if not values:
        return None
    return Measured(
        median=quantity.of_all(values, len(good)),
        estimate=estimate(values, quantity.yardstick.scale, confidence) if quantity.is_estimated else None,
        of_runs=tuple(values),
        of_each=_of_each(quantity, good),
        doubt=quantity.doubt(cell, good),
    )


def _of_each(quantity: Quantity, good: Runs) -> tuple[float, ...]:
    """Median over runs, place by place."""
    found = filter(None, (run.of_each(quantity.index_name) for run in good))
    return tuple(statistics.median(place) / quantity.per_unit for place in zip(*found, strict=False))
