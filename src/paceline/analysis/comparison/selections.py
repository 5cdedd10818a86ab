"""One side of a comparison: which runs it has of which cells."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import msgspec

from paceline.analysis.quantities.definition import Quantity
from paceline.analysis.rows.statuses import IntervalTarget
from paceline.plan.cell import Cell
from paceline.store.index.setups import Setup
from paceline.store.index_damage import blaming_the_index
from paceline.store.newer_records import warn_of_left_out
from paceline.store.run_results import RunResult, run_results
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.text.safe_text import quoted

# The runs of every plan, the newest plan first, but replays last: they take no other's place. A skipped cell has none.
RUNS = """
SELECT plan.id AS plan_id, plan.suite, plan.interval_target, plan_cell.cell AS planned, plan_cell.reason,
       run.id, run.started, run.framework_version, run.machine
FROM plan
JOIN plan_cell ON plan_cell.plan_id = plan.id
LEFT JOIN plan_result ON plan_result.plan_id = plan.id AND plan_result.position = plan_cell.position
LEFT JOIN run ON run.id = plan_result.run_id
ORDER BY plan.replay, plan.id DESC, plan_cell.position, run.id
"""
SETUPS = "SELECT id, facts FROM setup WHERE id IN (SELECT value FROM json_each(?))"
FORMS = "suite:NAME, plan:ID, date:2026-11-15, version:torch=2.13.0 or machine:ID"


@dataclass
class CellRuns:
    """The runs of one cell that a side has."""

    cell: Cell
    skipped: str | None  # why, if it was not run
    plan_id: str
    limit: IntervalTarget  # under which its plan added rounds
    runs: dict[str, RunResult] = field(default_factory=dict)  # by their keys
    commands: set[str] = field(default_factory=set)  # of all plans; several only where commands count by their names

    @property
    def good(self) -> list[RunResult]:
        return [run for run in self.runs.values() if run.status == "ok"]

    @property
    def failed(self) -> list[RunResult]:
        return [run for run in self.runs.values() if run.status == "failed"]

    @property
    def failed_part(self) -> Fraction:
        return Fraction(len(self.failed), len(self.runs)) if self.runs else Fraction(0)

    @property
    def failure(self) -> str | None:
        """The first one and how many there are."""
        if not self.failed:
            return None
        return f"{len(self.failed)} of {len(self.runs)} runs failed: {self.failed[0].cause}"

    @property
    def setups(self) -> set[str]:
        return {run.setup for run in self.runs.values()}


@dataclass(frozen=True)
class Side:
    name: str  # as the user wrote it
    quantity: Quantity
    cells: dict[Cell, CellRuns]  # by what must be equal in both
    setups: dict[str, Setup]  # of their runs, by id
    by_name: bool = False  # a command is known by its name, whatever its arguments

    def setups_of(self, runs: CellRuns) -> list[Setup]:
        """What they ran with, those that are alike once."""
        return [self.setups[one] for one in sorted(runs.setups)]


def choose(text: str, folder: Path, quantity: Quantity, *, by_name: bool = False) -> Side:
    """A store by its folder, or a part of the one in `folder`; of each cell the newest plan that has any such run."""
    kind, colon, wanted = text.partition(":")
    if colon and kind in FILTERS:
        accept = FILTERS[kind](wanted)
    elif Path(text).is_dir():
        folder, accept = Path(text), lambda row: True
    else:
        raise UserError(f"{quoted(text)} is no folder of results; name one, or {FORMS} of --store.")
    if not folder.exists():
        raise UserError(f"There are no results at {folder}.")
    cells: dict[Cell, CellRuns] = {}
    store = Store(folder)
    with blaming_the_index(store):
        rows = list(filter(accept, store.query(RUNS)))
        results = run_results(store, [row["id"] for row in rows if row["id"]])
        for row in rows:
            _add(cells, row, results.get(row["id"]), named if by_name else comparable)
        warn_of_left_out(store.query)
        if not cells:
            raise UserError(f"No results match {quoted(text)} in {folder}.")
        return Side(text, quantity, cells, _setups(store, cells.values()), by_name)


def _setups(store: Store, cells: Iterable[CellRuns]) -> dict[str, Setup]:
    ids = sorted({one for runs in cells for one in runs.setups})
    return {row["id"]: msgspec.json.decode(row["facts"], type=Setup) for row in store.query(SETUPS, json.dumps(ids))}


def _add(cells: dict[Cell, CellRuns], row: sqlite3.Row, run: RunResult | None, key: Callable[[Cell], Cell]) -> None:
    if run is None and row["reason"] is None:
        return  # planned, but not run yet
    cell = msgspec.json.decode(row["planned"], type=Cell)
    known = cells.setdefault(
        key(cell), CellRuns(cell, row["reason"], row["plan_id"], IntervalTarget(row["interval_target"]))
    )
    if cell.command:
        known.commands.add(str(cell.command))
    if run is not None and known.plan_id == row["plan_id"]:
        known.runs[run.key] = run


def comparable(cell: Cell) -> Cell:
    """The cell without what may differ from machine to machine: which cores it has, not how many, and folders."""
    cores = tuple(tuple(range(len(device))) for device in cell.cores)
    command = cell.command and msgspec.structs.replace(cell.command, folder="", metrics=())
    return msgspec.structs.replace(cell, cores=cores, oversubscribed=False, command=command)


def named(cell: Cell) -> Cell:
    """A command without all but its name and devices; its cores are noted, not enforced."""
    if cell.command is None:
        return comparable(cell)
    command = msgspec.structs.replace(cell.command, arguments=(), folder="", metrics=())
    return msgspec.structs.replace(cell, cores=(), oversubscribed=False, command=command)


Accept = Callable[[sqlite3.Row], bool]


def _of_suite(name: str) -> Accept:
    return lambda row: row["suite"] == name


def _of_plan(name: str) -> Accept:
    return lambda row: row["plan_id"].startswith(name)


def _of_date(beginning: str) -> Accept:
    return lambda row: (
        row["started"] is not None and datetime.fromtimestamp(row["started"], UTC).isoformat().startswith(beginning)
    )


def _of_version(text: str) -> Accept:
    framework, equals, version = text.partition("=")
    if not equals:
        raise UserError(f"{quoted(f'version:{text}')} lacks the version; write such as version:torch=2.13.0.")
    return lambda row: row["framework_version"] == version and _framework(row) == framework


def _framework(row: sqlite3.Row) -> str:
    return msgspec.json.decode(row["planned"], type=Cell).framework.partition("+")[0]


def _of_machine(name: str) -> Accept:
    return lambda row: row["machine"] == name


FILTERS: dict[str, Callable[[str], Accept]] = {
    "suite": _of_suite,
    "plan": _of_plan,
    "date": _of_date,
    "version": _of_version,
    "machine": _of_machine,
}
