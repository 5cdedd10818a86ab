"""Which runs stand behind each cell of a table: one of every key that its plan wants."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from paceline.analysis.rows.statuses import IntervalTarget
from paceline.plan.cell import Cell
from paceline.store.run_results import RunResult, rows_among, run_results
from paceline.store.store import Store

# A replay is shown by itself; it does not take the place of what it repeats.
PLANS = """
SELECT * FROM plan WHERE (suite = :suite OR :suite IS NULL) AND (id = :plan OR :plan IS NULL)
    AND (NOT replay OR COALESCE(:suite, :plan) IS NOT NULL)
ORDER BY id DESC
"""
BEGUN = """
SELECT 1 FROM plan_result WHERE plan_id = :plan AND run_id IS NOT NULL
UNION ALL SELECT 1 FROM plan_cell WHERE plan_id = :plan AND reason IS NOT NULL LIMIT 1
"""
OF_PLANS = ("suite", "plan")  # filters that choose plans; all others choose cells
CELLS = "SELECT * FROM plan_cell WHERE plan_id IN ({}) ORDER BY plan_id, position"
WANTED = """
SELECT plan_result.plan_id, plan_result.position, run.id, run.machine
FROM plan_result
LEFT JOIN run ON run.id = plan_result.run_id
WHERE plan_result.plan_id IN ({}) ORDER BY run.repeat, run.id
"""


@dataclass(frozen=True)
class PlannedCell:
    """A cell of a plan and what there is of the runs it wants."""

    cell: Cell
    skip_reason: str | None
    quick: bool  # its plan is scaled down for a small machine
    limit: IntervalTarget  # beyond which it is noisy
    starts_over: bool  # its plan counts no runs from before it
    machine: str | None  # on which its plan ran; None if nothing of it did
    wanted: int
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class MeasuredCell:
    """A planned cell with all that its runs measured."""

    planned: PlannedCell
    runs: list[RunResult]
    good: list[RunResult]  # those that ended well
    failed: list[RunResult]

    @classmethod
    def of(cls, planned: PlannedCell, results: Mapping[str, RunResult]) -> MeasuredCell:
        runs = [results[run_id] for run_id in planned.run_ids]
        good, failed = ([run for run in runs if run.status == status] for status in ("ok", "failed"))
        return cls(planned, runs, good, failed)

    @property
    def cell(self) -> Cell:
        return self.planned.cell

    def values(self, name: str) -> list[float]:
        """Of each run that ended well and has it."""
        return [value for run in self.good if (value := run.value(name)) is not None]


def select(
    store: Store, filters: Mapping[str, str | None], target: float | None, *, everything: bool
) -> list[MeasuredCell]:
    """The cells of the newest plan, or of all plans where everything or certain cells are wanted."""
    chosen = {key: value.split(",") for key, value in filters.items() if value and key not in OF_PLANS}
    shown = newest_plans(store, filters) if chosen or everything else shown_plan(store, filters)
    cells = _planned(store, shown)
    kept = [one for one in cells if all(getattr(one.cell, key) in values for key, values in chosen.items())]
    newest = list(_newest(kept))
    results = run_results(store, [run_id for one in newest for run_id in one.run_ids], target)
    return [MeasuredCell.of(one, results) for one in newest]


def newest_plans(store: Store, filters: Mapping[str, str | None]) -> list[sqlite3.Row]:
    """Those of which tables are made, the newest first."""
    return store.query(PLANS, **{key: filters.get(key) for key in OF_PLANS})


def shown_plan(store: Store, filters: Mapping[str, str | None]) -> list[sqlite3.Row]:
    """The newest plan that has something to show, or the newest at all if none has; none where there is none."""
    plans = newest_plans(store, filters)
    begun = (plan for plan in plans if store.query(BEGUN, plan=plan["id"]))
    return list(islice(begun, 1)) or plans[:1]


def _planned(store: Store, plans: Sequence[sqlite3.Row]) -> Iterator[PlannedCell]:
    """All cells of these plans, in their order and in that of their tables."""
    ids = [plan["id"] for plan in plans]
    cells, wanted = defaultdict(list), defaultdict(list)
    for cell in rows_among(store, CELLS, ids):
        cells[cell["plan_id"]].append(cell)
    for run in rows_among(store, WANTED, ids):
        wanted[run["plan_id"], run["position"]].append(run)
    machines = {run["plan_id"]: run["machine"] for runs in wanted.values() for run in runs if run["id"]}
    for plan in plans:
        for cell in cells[plan["id"]]:
            runs = wanted[plan["id"], cell["position"]]
            yield PlannedCell(
                cell=msgspec.json.decode(cell["cell"], type=Cell),
                skip_reason=cell["reason"],
                quick=bool(plan["quick"]),
                limit=IntervalTarget(plan["interval_target"]),
                starts_over=plan["older_runs"] == "none",
                machine=machines.get(plan["id"]),
                wanted=len(runs),
                run_ids=tuple(run["id"] for run in runs if run["id"]),
            )


def _newest(cells: Iterable[PlannedCell]) -> Iterator[PlannedCell]:
    """Of plans with the newest first: each cell once, or once for each machine where it is known to be another one."""
    places: dict[Cell, list[PlannedCell]] = {}
    for one in cells:
        places.setdefault(one.cell, []).append(one)
    for place in places.values():
        useful = [one for one in place if one.run_ids or one.skip_reason]  # a plan that has not begun hides nothing
        yield from _of_each_machine(useful or place[:1])


def _of_each_machine(place: Sequence[PlannedCell]) -> list[PlannedCell]:
    chosen: list[PlannedCell] = []
    for one in place:
        if all(one.machine and other.machine and one.machine != other.machine for other in chosen):
            chosen.append(one)
    return chosen
