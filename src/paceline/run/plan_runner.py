"""Carries out what is missing of a plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rich.console import Console

from paceline.catalog import datasets
from paceline.catalog.frameworks import find
from paceline.environments import virtual_environments
from paceline.plan.planning import Plan, Run
from paceline.run.progress import ProgressDisplay
from paceline.run.session import RunTools, execute
from paceline.store.store import Store
from paceline.system.machine.hardware import this_machine
from paceline.system.machine_lock import MachineLock


def pending(plan: Plan, store: Store, done: str) -> list[Run]:
    """Runs that are still to be measured, when `none`, `ok` or `all` of the stored ones count."""
    keys = set() if done == "none" else store.done(count_failed=done == "all")
    return [run for run in plan.runs if run.key not in keys]


def measure(plan: Plan, store: Store, done: str, lock: MachineLock) -> None:
    """Carry out what is missing of a plan."""
    console, todo = Console(stderr=True), pending(plan, store, done)
    if len(todo) < len(plan.runs):
        console.print(f"{len(plan.runs) - len(todo)} of {len(plan.runs)} runs are done already", highlight=False)
    get_missing(plan, partial(console.print, markup=False, highlight=False, soft_wrap=True))
    with ProgressDisplay(console, todo, store.seconds_of, plan.names()) as progress:
        tools = RunTools(store, this_machine(), progress, lock.note_run)
        for run in todo:
            execute(run, tools)
    lock.note_run("")


def get_missing(plan: Plan, say: Callable[[str], None]) -> None:
    """All environments and data sets first: to get one between two runs would disturb the second."""
    for name in dict.fromkeys(run.cell.framework for run in plan.runs):
        virtual_environments.ensure(find(name).framework, say)
    for name in dict.fromkeys(run.cell.data for run in plan.runs if run.cell.input):
        datasets.ensure(name, say)
