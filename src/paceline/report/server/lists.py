"""Lists of plans and of runs, straight from the index: only as much statistics as a cell's status needs."""

from __future__ import annotations

import json
import sqlite3
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from paceline.analysis.rows.statuses import IntervalTarget, RunCounts, counted, status_of
from paceline.analysis.statistics.intervals import estimate
from paceline.plan.cell import Cell
from paceline.plan.cell_names import cell_names
from paceline.report.escaping import csv_lines
from paceline.report.page.templating import moment
from paceline.report.tables.layouts import Grid
from paceline.report.tables.render_layouts import markdown
from paceline.store.records.outcome import cause_of
from paceline.store.store import Store
from paceline.system.text.safe_text import as_json, plainly, printable, shortened

PAGE = 50  # lines
CAUSE_LETTERS = 120  # in a list of cells; the page of a run has all of it
NO_LIMIT = -1  # as SQLite has it
FILTERS = ("workload", "framework", "devices", "data")  # settings of a cell that a form offers

PLANS = "SELECT id, suite, command, quick, interval_target FROM plan ORDER BY id DESC LIMIT :limit OFFSET :offset"
CHOSEN = " AND ".join(f":{name} IN ('', json_extract(run.cell, '$.{name}'))" for name in FILTERS)
RUNS = f"""
SELECT run.id, run.cell, run.repeat, run.status, run.started, run.seconds, run.kind, run.phase, run.message,
       run.framework_version, run.machine_description AS machine, speed.value AS images_per_second
FROM (SELECT * FROM run WHERE {CHOSEN} AND :status IN ('', run.status)
      ORDER BY id DESC LIMIT :limit OFFSET :offset) AS run
LEFT JOIN value AS speed ON speed.run_id = run.id AND speed.name = 'images_per_second'
ORDER BY run.id DESC
"""  # noqa: S608 - made of our own names
COUNT = f"SELECT COUNT(*) AS runs FROM run WHERE {CHOSEN} AND :status IN ('', run.status)"  # noqa: S608


# Of each cell of these plans how many runs it wants, and what became of those that are done.
CELLS = """
WITH chosen AS (SELECT value AS id FROM json_each(:plans)),
result AS (SELECT * FROM plan_result WHERE plan_id IN (SELECT id FROM chosen))
SELECT plan_cell.plan_id, plan_cell.cell, plan_cell.reason, plan.interval_target,
       COUNT(result.key) AS wanted, COUNT(run.id) AS done, COALESCE(SUM(run.status = 'failed'), 0) AS failed,
       MIN(CASE WHEN run.status = 'failed' THEN run.id END) AS failed_run,  -- SQLite takes its cause from the same row
       run.kind, run.phase, run.message,
       json_group_array(json((SELECT json_group_object(name, value) FROM value
                              WHERE run_id = run.id AND name IN ('images_per_second', 'training_seconds')))
       ) FILTER (WHERE run.status = 'ok') AS trained
FROM plan_cell JOIN plan ON plan.id = plan_cell.plan_id
LEFT JOIN result ON result.plan_id = plan_cell.plan_id AND result.position = plan_cell.position
LEFT JOIN run ON run.id = result.run_id
WHERE plan_cell.plan_id IN (SELECT id FROM chosen)
GROUP BY plan_cell.plan_id, plan_cell.position ORDER BY plan_cell.plan_id, plan_cell.position
"""


@dataclass(frozen=True)
class ListPage:
    """Which part of a long list is shown."""

    number: int  # from 1 up
    total: int  # lines

    @property
    def last(self) -> int:
        return max(1, -(-self.total // PAGE))

    @property
    def offset(self) -> int:
        return (self.number - 1) * PAGE


@dataclass(frozen=True)
class PlanLine:
    id: str
    suite: str
    command: str
    quick: bool
    counts: Mapping[str, int]  # cells by what became of them; only those that there are
    done: int  # runs
    wanted: int


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended. Its fields are the columns of what is downloaded."""

    run: str  # its id
    cell: str
    repeat: int  # from 1 up
    status: str
    started: str  # UTC
    seconds: float  # all of it
    images_per_second: float | None
    cause: str  # of a failure
    framework_version: str
    machine: str


@dataclass(frozen=True)
class CellLine:
    """A cell of a plan that is being measured, with the plain median so far: intervals come with the report."""

    name: str
    status: str
    reason: str  # why it was not run
    cause: str  # of the first run that failed
    failed_run: str | None  # its id
    done: int
    wanted: int
    images_per_second: float | None


def cells(store: Store, plan_id: str) -> list[CellLine]:
    """How far each cell of a plan is, in the order of its table."""
    rows = store.query(CELLS, plans=json.dumps([plan_id]))
    names = names_in(row["cell"] for row in rows)
    return [_cell_line(row, names[row["cell"]]) for row in rows]


def _cell_line(row: sqlite3.Row, name: str) -> CellLine:
    cell, speeds = msgspec.json.decode(row["cell"], type=Cell), _of_runs(row, "images_per_second")
    cause = cause_of(row["kind"], row["phase"], row["message"])
    return CellLine(
        name=name,
        status=_status(row, cell),
        reason=row["reason"] or "",
        cause=shortened(cause, CAUSE_LETTERS) if row["failed_run"] else "",
        failed_run=row["failed_run"],
        done=row["done"],
        wanted=row["wanted"],
        images_per_second=statistics.median(speeds) if speeds else None,
    )


def _status(row: sqlite3.Row, cell: Cell) -> str:
    """As the report of the plan will have it."""
    runs, limit = RunCounts(row["wanted"], row["done"], row["failed"]), IntervalTarget(row["interval_target"])
    judged = estimate(
        _of_runs(row, "training_seconds" if cell.command else "images_per_second"), confidence=limit.confidence
    )
    return status_of(runs, judged, limit, skipped=bool(row["reason"]))


def _of_runs(row: sqlite3.Row, name: str) -> list[float]:
    """Of those that ended well and have it."""
    return [trained[name] for trained in json.loads(row["trained"]) if name in trained]


def plans(store: Store, page: int) -> tuple[ListPage, list[PlanLine]]:
    shown = _page(page, store.query("SELECT COUNT(*) FROM plan"))
    found = store.query(PLANS, limit=PAGE, offset=shown.offset)
    cells: dict[str, list[sqlite3.Row]] = {plan["id"]: [] for plan in found}
    for row in store.query(CELLS, plans=json.dumps(list(cells))):
        cells[row["plan_id"]].append(row)
    return shown, [_plan_line(plan, cells[plan["id"]]) for plan in found]


def _page(wanted: int, counted: Sequence[sqlite3.Row]) -> ListPage:
    total = int(counted[0][0]) if counted else 0
    return ListPage(min(max(1, wanted), ListPage(1, total).last), total)


def _plan_line(plan: sqlite3.Row, cells: Sequence[sqlite3.Row]) -> PlanLine:
    statuses = (_status(row, msgspec.json.decode(row["cell"], type=Cell)) for row in cells)
    return PlanLine(
        id=plan["id"],
        suite=plan["suite"],
        command=plan["command"],
        quick=bool(plan["quick"]),
        counts=counted(statuses),
        done=sum(row["done"] for row in cells),
        wanted=sum(row["wanted"] for row in cells),
    )


def runs(store: Store, chosen: Mapping[str, str], page: int) -> tuple[ListPage, list[ListedRun]]:
    """The newest first, of those that the filters and the status choose."""
    shown = _page(page, store.query(COUNT, **chosen))
    return shown, listed_runs(store, chosen, PAGE, shown.offset)


def listed_runs(store: Store, chosen: Mapping[str, str], limit: int = NO_LIMIT, offset: int = 0) -> list[ListedRun]:
    """Likewise, all of them unless it is said how many."""
    rows = store.query(RUNS, **chosen, limit=limit, offset=offset)
    names = names_in(row["cell"] for row in rows)
    return [_listed(row, names[row["cell"]]) for row in rows]


def _listed(row: sqlite3.Row, name: str) -> ListedRun:
    return ListedRun(
        run=row["id"],
        cell=name,
        repeat=row["repeat"] + 1,
        status=row["status"],
        started=moment(row["started"]),
        seconds=row["seconds"],
        images_per_second=row["images_per_second"],
        cause=cause_of(row["kind"], row["phase"], row["message"]) if row["status"] == "failed" else "",
        framework_version=row["framework_version"],
        machine=row["machine"] or "",
    )


def _columns(runs: Sequence[ListedRun]) -> list[tuple[object, ...]]:
    """The headings first; what is not known is left empty."""
    values = [tuple("" if value is None else value for value in msgspec.structs.astuple(run)) for run in runs]
    return [ListedRun.__struct_fields__, *values]


@plainly
def _as_csv(runs: Sequence[ListedRun]) -> str:
    return csv_lines(_columns(runs))


def _markdown(runs: Sequence[ListedRun]) -> str:
    return markdown([Grid("runs", tuple(tuple(map(str, line)) for line in _columns(runs)), ())])


FORMATS: dict[str, Callable[[Sequence[ListedRun]], str]] = {"csv": _as_csv, "json": as_json, "markdown": _markdown}


def choices(store: Store, plan_id: str | None = None) -> dict[str, list[str]]:
    """What each filter can be set to, in one plan or in all."""
    rows = store.query("SELECT DISTINCT cell FROM plan_cell WHERE plan_id = :plan OR :plan IS NULL", plan=plan_id)
    cells = [msgspec.json.decode(row["cell"], type=Cell) for row in rows]
    return {name: sorted({getattr(cell, name) for cell in cells}) for name in FILTERS}


def names_in(cells: Iterable[str]) -> dict[str, str]:
    """The names of cells by their JSON, as the index has it; no two alike."""
    decoded = {cell: msgspec.json.decode(cell, type=Cell) for cell in dict.fromkeys(cells)}
    names = cell_names(decoded.values())
    return {text: printable(names[cell]) for text, cell in decoded.items()}
