"""Lists of plans and of runs, straight from the index: no statistics, so that the first view comes at once."""

from __future__ import annotations

import json
import sqlite3
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from paceline.cell import Cell
from paceline.display import cell_name, duration
from paceline.letters import printable, shortened
from paceline.outcome import cause_of
from paceline.report.columns import number
from paceline.store import Store
from paceline.web.live import moment_of

PAGE = 50  # lines
CAUSE_LETTERS = 120  # in a list of cells; the page of a run has all of it
FILTERS = ("workload", "framework", "devices", "data")  # settings of a cell that a form offers

# Of each cell of a plan how many runs it wants and what became of those that are done.
PLANS = """
WITH shown AS (SELECT * FROM plan ORDER BY id DESC LIMIT :limit OFFSET :offset),
result AS (
    SELECT plan_result.plan_id, plan_result.position, run.status
    FROM plan_result LEFT JOIN run ON run.id = plan_result.run_id
    WHERE plan_result.plan_id IN (SELECT id FROM shown)
),
cell AS (
    SELECT plan_id, position, COUNT(*) AS wanted, COUNT(status) AS done, SUM(status = 'failed') AS failed
    FROM result GROUP BY plan_id, position
)
SELECT shown.id, shown.suite, shown.command, shown.quick, COUNT(*) AS cells,
       COALESCE(SUM(cell.wanted), 0) AS wanted, COALESCE(SUM(cell.done), 0) AS done,
       SUM(plan_cell.reason IS NOT NULL) AS skipped,
       COALESCE(SUM(plan_cell.reason IS NULL AND cell.failed > 0), 0) AS failed,
       COALESCE(SUM(plan_cell.reason IS NULL AND cell.failed = 0 AND cell.done = cell.wanted), 0) AS ok
FROM shown JOIN plan_cell ON plan_cell.plan_id = shown.id
LEFT JOIN cell ON cell.plan_id = shown.id AND cell.position = plan_cell.position
GROUP BY shown.id ORDER BY shown.id DESC
"""
CHOSEN = " AND ".join(f"(:{name} IS NULL OR json_extract(run.cell, '$.{name}') = :{name})" for name in FILTERS)
RUNS = f"""
SELECT run.id, run.cell, run.repeat, run.status, run.started, run.seconds, run.kind, run.phase, run.message,
       run.framework_version, run.machine_description AS machine, training.images_per_second
FROM (SELECT * FROM run WHERE {CHOSEN} AND (:status IS NULL OR run.status = :status)
      ORDER BY id DESC LIMIT :limit OFFSET :offset) AS run
LEFT JOIN training ON training.run_id = run.id
ORDER BY run.id DESC
"""  # noqa: S608 - made of our own names
COUNT = f"SELECT COUNT(*) AS runs FROM run WHERE {CHOSEN} AND (:status IS NULL OR run.status = :status)"  # noqa: S608


CELLS = """
WITH result AS (SELECT * FROM plan_result WHERE plan_id = :plan)
SELECT plan_cell.cell, plan_cell.reason, COUNT(result.key) AS wanted, COUNT(run.id) AS done,
       COALESCE(SUM(run.status = 'failed'), 0) AS failed,
       MIN(CASE WHEN run.status = 'failed' THEN run.id END) AS failed_run,  -- SQLite takes its cause from the same row
       run.kind, run.phase, run.message,
       json_group_array((SELECT images_per_second FROM training WHERE training.run_id = run.id))
           FILTER (WHERE run.status = 'ok') AS speeds
FROM plan_cell
LEFT JOIN result ON result.position = plan_cell.position
LEFT JOIN run ON run.id = result.run_id
WHERE plan_cell.plan_id = :plan GROUP BY plan_cell.position ORDER BY plan_cell.position
"""


@dataclass(frozen=True)
class Page:
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
    when: str
    suite: str
    command: str
    quick: bool
    counts: Mapping[str, int]  # cells by what became of them; only those that there are
    done: int  # runs
    wanted: int


@dataclass(frozen=True)
class RunLine:
    id: str
    when: str
    name: str
    repeat: int
    status: str
    said: str  # why it failed, or what it took
    images_per_second: str
    version: str
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
    images_per_second: str


def cells(store: Store, plan_id: str) -> list[CellLine]:
    """How far each cell of a plan is, in the order of its table."""
    return [_cell_line(row) for row in store.query(CELLS, plan=plan_id)]


def _cell_line(row: sqlite3.Row) -> CellLine:
    speeds = [speed for speed in json.loads(row["speeds"]) if speed is not None]
    cause = cause_of(row["kind"], row["phase"], row["message"])
    complete = "ok" if row["done"] == row["wanted"] else "not run"
    return CellLine(
        name=printable(cell_name(msgspec.json.decode(row["cell"], type=Cell))),
        status="skipped" if row["reason"] else "failed" if row["failed"] else complete,
        reason=printable(row["reason"] or ""),
        cause=printable(shortened(cause, CAUSE_LETTERS)) if row["failed_run"] else "",
        failed_run=row["failed_run"],
        done=row["done"],
        wanted=row["wanted"],
        images_per_second=number(statistics.median(speeds) if speeds else None),
    )


def plans(store: Store, page: int) -> tuple[Page, list[PlanLine]]:
    shown = _page(page, store.query("SELECT COUNT(*) FROM plan"))
    rows = store.query(PLANS, limit=PAGE, offset=shown.offset)
    return shown, [_plan_line(row) for row in rows]


def _page(wanted: int, counted: Sequence[sqlite3.Row]) -> Page:
    total = int(counted[0][0]) if counted else 0
    return Page(min(max(1, wanted), Page(1, total).last), total)


def _plan_line(row: sqlite3.Row) -> PlanLine:
    open_ = row["cells"] - row["skipped"] - row["failed"] - row["ok"]
    counts = {"ok": row["ok"], "failed": row["failed"], "skipped": row["skipped"], "not run": open_}
    return PlanLine(
        id=row["id"],
        when=moment(moment_of(row["id"])),
        suite=printable(row["suite"]) or "no suite",
        command=printable(row["command"]),
        quick=bool(row["quick"]),
        counts={word: count for word, count in counts.items() if count},
        done=row["done"],
        wanted=row["wanted"],
    )


def runs(store: Store, chosen: Mapping[str, str | None], page: int) -> tuple[Page, list[RunLine]]:
    """The newest first, of those that the filters and the status choose."""
    wanted = {name: chosen.get(name) for name in (*FILTERS, "status")}
    shown = _page(page, store.query(COUNT, **wanted))
    rows = store.query(RUNS, **wanted, limit=PAGE, offset=shown.offset)
    return shown, [_run_line(row) for row in rows]


def _run_line(row: sqlite3.Row) -> RunLine:
    failed = row["status"] == "failed"
    said = cause_of(row["kind"], row["phase"], row["message"]) if failed else duration(row["seconds"])
    return RunLine(
        id=row["id"],
        when=moment(row["started"]),
        name=printable(cell_name(msgspec.json.decode(row["cell"], type=Cell))),
        repeat=row["repeat"],
        status=row["status"],
        said=printable(said),
        images_per_second=number(row["images_per_second"]),
        version=printable(row["framework_version"]),
        machine=printable(row["machine"] or ""),
    )


def choices(store: Store, plan_id: str | None = None) -> dict[str, list[str]]:
    """What each filter can be set to, in one plan or in all."""
    rows = store.query("SELECT DISTINCT cell FROM plan_cell WHERE plan_id = :plan OR :plan IS NULL", plan=plan_id)
    cells = [msgspec.json.decode(row["cell"], type=Cell) for row in rows]
    return {name: sorted({getattr(cell, name) for cell in cells}) for name in FILTERS}


def moment(seconds: float) -> str:
    """In UTC, as ids have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds else "?"
