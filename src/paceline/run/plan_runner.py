"""Carries out what is missing of a plan, in further rounds if need be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from rich.console import Console

from paceline.analysis.rows.table_rows import table_rows
from paceline.catalog import datasets
from paceline.catalog.frameworks import find
from paceline.environments import virtual_environments
from paceline.plan.cell import Cell
from paceline.plan.planning import Plan, Run, another_round
from paceline.run.older_keys import with_older_results
from paceline.run.progress import WARM_UP, CommandLines, ProgressDisplay
from paceline.run.session import RunTools, execute
from paceline.store.store import Store
from paceline.system.machine.hardware import this_machine
from paceline.system.machine_lock import MachineLock
from paceline_worker.protocol import Job


def pending(plan: Plan, store: Store, done: str) -> list[Run]:
    """Runs that are still to be measured, when `none`, `ok` or `all` of the stored ones count."""
    keys = set() if done == "none" else store.done(count_failed=done == "all")
    return [run for run in plan.runs if run.key not in keys]


def measure(
    plan: Plan,
    store: Store,
    done: str,
    lock: MachineLock,
    job_of: Callable[[Run], Job | None] = lambda run: None,
    *,
    echo: bool = False,
) -> None:
    """Carry out what is missing of a plan; a job that does not follow from its cell is brought along."""
    console, todo = Console(stderr=True), pending(plan, store, done)
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    if len(todo) < len(plan.runs):
        say(f"{len(plan.runs) - len(todo)} of {len(plan.runs)} runs are done already")
    get_missing(plan, say)
    lines = CommandLines(say, todo) if any(run.cell.command for run in todo) else None
    with lines or ProgressDisplay(console, todo, store.seconds_of, plan.names()) as display:
        tools = RunTools(store, this_machine(), display, lock.note_run, echo)
        for run in todo:
            execute(run, tools, job_of(run))
    lock.note_run("")


def warmed_up(plan: Plan, number: int) -> Plan:
    """With so many runs of each cell before all others that only warm up disks and caches, and are forgotten."""
    before = [Run(cell, repeat, WARM_UP, plan.suite.timeout) for repeat in range(number) for cell in plan.cells]
    return replace(plan, runs=(*before, *plan.runs))


def get_missing(plan: Plan, say: Callable[[str], None]) -> None:
    """All environments and data sets first: to get one between two runs would disturb the second."""
    trained = [run.cell for run in plan.runs if not run.cell.command]
    for name in dict.fromkeys(cell.framework for cell in trained):
        virtual_environments.ensure(find(name).framework, say)
    for name in dict.fromkeys(cell.data for cell in trained if cell.input):
        datasets.ensure(name, say)


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
