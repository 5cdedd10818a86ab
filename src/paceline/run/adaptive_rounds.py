"""More rounds for cells that are not known well enough, for as long as the budget lasts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from paceline.analysis.rows.table_rows import table_rows
from paceline.plan.cell import Cell
from paceline.plan.planning import Plan, another_round
from paceline.run.older_keys import with_older_results
from paceline.store.store import Store
from paceline.system.machine.hardware import this_machine


def further_rounds(
    plan: Plan, plan_id: str, store: Store, save: Callable[[Plan], str], older_runs: str = "ok"
) -> Iterator[tuple[str, Plan]]:
    """The runs of one round after the other, as plans; they end when no cell is noisy or the time is over.

    What is saved, and named by its id, are plans with all rounds so far. A round that has begun is finished: else its
    last cells would have fewer runs than its first.
    """
    if plan.suite.interval_target is None:
        return
    deadline = time.monotonic() + plan.suite.budget
    while time.monotonic() < deadline and (cells := noisy_cells(plan, plan_id, store)):
        before, plan = plan, with_older_results(another_round(plan, cells, this_machine()), store, older_runs)
        plan_id = save(plan)
        yield plan_id, replace(plan, runs=plan.runs[len(before.runs) :])


def noisy_cells(plan: Plan, plan_id: str, store: Store) -> set[Cell]:
    rows = table_rows(store, {"plan": plan_id})  # a newer one may have been imported meanwhile
    return {cell for cell, row in zip(plan.cells, rows, strict=True) if row.status == "noisy"}
