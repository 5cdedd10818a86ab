"""What a plan is doing now, found from what is on disk: who measures and who looks share nothing but the store."""

from __future__ import annotations

import sqlite3
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from paceline.plan.cell import Cell
from paceline.plan.shares import MEASURED
from paceline.report.server.lists import names_in
from paceline.report.server.unfinished_runs import SILENCE_SECONDS, OpenRun, OpenRuns
from paceline.store.import_notes import imported_runs
from paceline.store.index.file import INDEX_FILE
from paceline.store.records.outcome import cause_of
from paceline.store.records.runs import cell_id
from paceline.store.store import Store
from paceline.system.machine_lock import LockHolder, holder
from paceline.system.text.formatting import duration, number
from paceline.system.text.safe_text import printable

PERIOD_SECONDS = 0.5  # between two looks at the disk, for all who watch together
LAST_ENDED = 5  # runs that are named

# The runs that a plan wants, with what has been measured of each, and what such runs took before.
WANTED = """
SELECT plan_cell.cell, run.id, run.status, run.seconds, run.kind, run.phase, run.message,
       (SELECT AVG(seconds) FROM run AS before WHERE before.cell = plan_cell.cell) AS expected
FROM plan_result
JOIN plan_cell ON plan_cell.plan_id = plan_result.plan_id AND plan_cell.position = plan_result.position
LEFT JOIN run ON run.id = plan_result.run_id
WHERE plan_result.plan_id = ?
"""
CELLS_OF = "SELECT cell FROM plan_cell WHERE plan_id = ? ORDER BY position"
RUNS_OF = "SELECT run.id FROM plan_run JOIN run ON run.key = plan_run.key WHERE plan_run.plan_id = ?"


class CurrentRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run that is under way, or that was cut off."""

    id: str
    name: str
    interrupted: bool
    phase: str
    steps: int
    of_steps: int  # 0 for a command, which keeps them to itself
    images_per_second: str  # empty where nothing is known yet


class EndedRun(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    status: str
    said: str


class PlanProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a plan is. The words are ready to be shown; who shows them must not read them as HTML."""

    plan: str
    state: str  # running, interrupted or complete
    done: int
    wanted: int
    failed: int
    summary: str
    left: str  # such as "3 min 20 s"; empty where it is not known
    run: CurrentRun | None = None
    ended: tuple[EndedRun, ...] = ()  # the newest first
    final: bool  # nothing of this will change any more


@dataclass(frozen=True)
class PlanCounts:
    """What the index knows of a plan."""

    wanted: Sequence[sqlite3.Row]
    done: Sequence[sqlite3.Row]
    names: Mapping[str, str]  # of all its cells, by their JSON

    @property
    def is_complete(self) -> bool:
        return len(self.done) == len(self.wanted)

    @property
    def failed(self) -> int:
        return sum(run["status"] == "failed" for run in self.done)

    def seconds_left(self) -> float | None:
        """None where the duration of a pending run is not known."""
        mean = statistics.mean(run["seconds"] for run in self.done) if self.done else None
        done = {run["id"] for run in self.done}
        left = [run["expected"] or mean for run in self.wanted if run["id"] not in done]
        known = [seconds for seconds in left if seconds is not None]
        return sum(known) if len(known) == len(left) else None

    def last_ended(self) -> tuple[EndedRun, ...]:
        newest = sorted(self.done, key=lambda run: str(run["id"]), reverse=True)[:LAST_ENDED]
        return tuple(_ended(run, self.names[run["cell"]]) for run in newest)

    def name_of(self, run: OpenRun) -> str:
        """As the plan names its cell, if it is one of its cells."""
        return self.names.get(cell_id(run.cell)) or run.name


def _ended(run: sqlite3.Row, name: str) -> EndedRun:
    failed = run["status"] == "failed"
    said = cause_of(run["kind"], run["phase"], run["message"]) if failed else duration(run["seconds"])
    return EndedRun(id=run["id"], name=name, status=run["status"], said=printable(said))


@dataclass
class Observer:
    """Looks at a store, at most twice a second however many ask and at once when its index has changed.

    It may be asked from several threads.
    """

    store: Store
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked: float = -PERIOD_SECONDS
    _open: list[OpenRun] = field(default_factory=list)
    _owners: dict[str, str | None] = field(default_factory=dict)  # of open runs
    _counts: dict[str, PlanCounts] = field(default_factory=dict)
    _newest: str | None = None
    _stamp: tuple[int, int] = (0, 0)  # of the index

    def __post_init__(self) -> None:
        self._runs = OpenRuns(self.store)

    def progress(self, plan_id: str) -> PlanProgress | None:
        """None if there is no such plan."""
        with self._lock:
            self._look()
            counts = self._counted(plan_id)
            return self._progress(plan_id, counts) if counts else None

    def running(self) -> str | None:
        """The plan that is being measured now."""
        with self._lock:
            self._look()
            owners = [self._owners[run.id] for run in self._open if run.is_alive]
            now = self._holder()
            candidates = [plan for plan in (now and now.plan, *owners, self._newest) if plan]
            return next((plan for plan in candidates if self._is_running(plan)), None)

    def is_busy(self) -> bool:
        """Whether anything is measured: a plan, runs of no plan such as those of `explain`, or another store's."""
        if self.running() or any(run.is_alive for run in self.open_runs()):
            return True
        return holder() is not None  # also between two runs

    def open_runs(self) -> list[OpenRun]:
        with self._lock:
            self._look()
            return self._open

    def _look(self) -> None:
        stamp = index_stamp(self.store)
        if stamp == self._stamp and time.monotonic() - self._looked < PERIOD_SECONDS:
            return
        if stamp != self._stamp:
            self._newest = self._newest_before("~")
            self._stamp, self._counts, self._owners = stamp, {}, {}
        self._open = self._runs.look()
        for run in self._open:
            if run.id not in self._owners:
                self._owners[run.id] = self._owner(run)
        self._looked = time.monotonic()

    def _newest_before(self, run_id: str) -> str | None:
        """Of the plans that were made here: one from elsewhere may be newer, and is not being measured."""
        imported = imported_runs(self.store)
        for row in self.store.query("SELECT id FROM plan WHERE id < ? ORDER BY id DESC", run_id):
            runs = {run["id"] for run in self.store.query(RUNS_OF, row["id"])} if imported else set()
            if not runs or runs - imported:
                return str(row["id"])
        return None

    def _owner(self, run: OpenRun) -> str | None:
        """The plan for which it is done: as whoever measures it says.

        If that process is gone, the last plan before it that wants it, or whose batches it helps to divide.
        """
        now = self._holder()
        if now and now.run == run.id:
            return now.plan or None
        key = run.record.key
        rows = self.store.query("SELECT MAX(plan_id) AS id FROM plan_run WHERE key = ? AND plan_id < ?", key, run.id)
        if rows and rows[0]["id"]:
            return str(rows[0]["id"])
        last = self._newest_before(run.id)
        cells = self.store.query(CELLS_OF, last)
        planned = [msgspec.json.decode(row["cell"], type=Cell) for row in cells]
        return last if any(cell.shares == MEASURED or (cell.command and run.cell.command) for cell in planned) else None

    def _counted(self, plan_id: str) -> PlanCounts | None:
        if plan_id not in self._counts:
            if not self.store.query("SELECT 1 FROM plan WHERE id = ?", plan_id):
                return None
            wanted = self.store.query(WANTED, plan_id)
            cells = (row["cell"] for row in self.store.query(CELLS_OF, plan_id))
            self._counts[plan_id] = PlanCounts(wanted, [run for run in wanted if run["id"]], names_in(cells))
        return self._counts[plan_id]

    def _is_running(self, plan_id: str) -> bool:
        """One of its runs is alive, or whoever measures it is about to begin the next."""
        own = [run for run in self._open if self._owners.get(run.id) == plan_id]
        if any(run.is_alive for run in own):
            return True
        counts = self._counted(plan_id)
        if counts is None or counts.is_complete:
            return False
        just_now = not own and time.time() - self._stamp[0] / 1e9 < SILENCE_SECONDS
        now = self._holder()
        return (now is not None and now.plan == plan_id) or (plan_id == self._newest and just_now)

    def _holder(self) -> LockHolder | None:
        """Who measures into this store."""
        now = holder()
        return now if now and now.store == str(self.store.folder.resolve()) else None

    def _progress(self, plan_id: str, counts: PlanCounts) -> PlanProgress:
        own = [run for run in self._open if self._owners.get(run.id) == plan_id]
        running = self._is_running(plan_id)
        state = "running" if running else "complete" if counts.is_complete else "interrupted"
        run = own[-1] if own and state != "complete" else None
        left = counts.seconds_left() if running else None
        age = max(0.0, time.time() - run.record.started) if run else 0.0
        return PlanProgress(
            plan=plan_id,
            state=state,
            done=len(counts.done),
            wanted=len(counts.wanted),
            failed=counts.failed,
            summary=_summary(state, counts),
            left=duration(max(0.0, left - age)) if left else "",
            run=_run_now(run, counts.name_of(run)) if run else None,
            ended=counts.last_ended(),
            final=not running and (counts.is_complete or plan_id != self._newest),
        )


def _summary(state: str, counts: PlanCounts) -> str:
    done = f"{len(counts.done)} of {len(counts.wanted)} runs are done"
    failed = f", {counts.failed} of them failed" if counts.failed else ""
    more = "; nobody measures now: the same command goes on, with --again from the start"
    return f"{done}{failed}{more if state == 'interrupted' else ''}"


def _run_now(run: OpenRun, name: str) -> CurrentRun:
    trained = run.trained
    return CurrentRun(
        id=run.id,
        name=name,
        interrupted=not run.is_alive,
        phase=run.phase,
        steps=trained.steps,
        of_steps=0 if run.cell.command else run.cell.steps,
        images_per_second="" if trained.images_per_second is None else number(trained.images_per_second),
    )


def index_stamp(store: Store) -> tuple[int, int]:
    """Changes with every run that is stored."""
    try:
        status = (store.folder / INDEX_FILE).stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size
