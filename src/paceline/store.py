"""Results: a folder per run, which is the record, and an SQLite index over them, which can always be made again."""

from __future__ import annotations

import contextlib
import json
import secrets
import sqlite3
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from paceline.errors import UserError
from paceline.indexing import insert_plan, insert_run
from paceline.letters import quoted
from paceline.outcome import Outcome
from paceline.plan import Plan, Run
from paceline.records import OUTCOME_FILE, PLAN_FOLDER, RUN_FILE, RUN_FOLDER, PlanRecord, RunRecord, cell_id
from paceline.whole_files import write_json
from paceline_worker.protocol import JOB_FILE, Job

INDEX_FILE = "index.sqlite"
BUSY_SECONDS = 30.0  # how long SQLite waits for a lock, before a transaction and at its end
COMMIT_TRIES = 10  # each as long; what was measured for hours must not be lost to somebody who reads for minutes


@dataclass(frozen=True)
class Store:
    folder: Path
    read_only: bool = False  # an index that is missing or old is an error then, and not made anew

    def create_run(self, record: RunRecord, job: Job | None = None) -> Path:
        """A fresh folder with the job, if it is one for a worker, and all that is known before the run."""
        folder = self.folder / RUN_FOLDER / record.id
        folder.mkdir(parents=True)
        if job is not None:
            (folder / JOB_FILE).write_text(json.dumps(job.to_json()), encoding="utf-8")
        write_json(folder / RUN_FILE, record)
        return folder

    def finish_run(self, folder: Path, outcome: Outcome) -> None:
        """Complete the record, then index it; a run without its outcome never happened."""
        write_json(folder / OUTCOME_FILE, outcome)
        with self.transaction() as index:
            insert_run(index, folder)

    def save_plan(self, plan: Plan, command: str, older_runs: str = "all") -> str:
        """Keep what is to be measured; return the plan's id."""
        skips = {skip.cell: skip.reason for skip in plan.skips}
        record = PlanRecord(
            id=new_id(),
            suite=plan.suite.name,
            command=command,
            cells=plan.cells,
            reasons=tuple(skips.get(cell) for cell in plan.cells),
            keys=tuple(tuple(run.key for run in plan.runs if run.cell == cell) for cell in plan.cells),
            settings=msgspec.to_builtins(plan.suite),
            older_runs=older_runs,
        )
        path = self.folder / PLAN_FOLDER / f"{record.id}.json"
        with self.transaction() as index:
            path.parent.mkdir(exist_ok=True)
            write_json(path, record)
            insert_plan(index, record)
        return record.id

    def done(self, *, count_failed: bool) -> set[str]:
        """Keys of the runs that need no repetition."""
        wanted = "SELECT key FROM run" if count_failed else "SELECT key FROM run WHERE status = 'ok'"
        return {row["key"] for row in self.query(wanted)}

    def seconds_of(self, run: Run) -> float | None:
        """What this run, or another of its cell, took before."""
        rows = self.query("SELECT AVG(seconds) AS seconds FROM run WHERE cell = ?", cell_id(run.cell))
        return rows[0]["seconds"] if rows else None

    def newest(self, key: str) -> sqlite3.Row | None:
        """The last run with this key, and how fast it was."""
        rows = self.query(
            "SELECT run.*, training.images_per_second FROM run LEFT JOIN training ON training.run_id = run.id "
            "WHERE run.key = ? ORDER BY run.id DESC LIMIT 1",
            key,
        )
        return rows[0] if rows else None

    def find_run(self, text: str) -> Path:
        """The folder of the one run whose id begins or ends so."""
        folders = sorted((self.folder / RUN_FOLDER).glob("*"))
        found = [
            path for path in folders if path.name == text or path.name.startswith(text) or path.name.endswith(text)
        ]
        if len(found) != 1:
            newest = ", ".join(path.name for path in folders[-3:]) or "none"
            problem = "No run is" if not found else f"{len(found)} runs are"
            raise UserError(f"{problem} named {quoted(text)}; the newest are {newest}.")
        return found[0]

    def query(self, sql: str, *values: Any, **named: Any) -> list[sqlite3.Row]:
        """Rows of the index, for values in order or by name; none where nothing was stored yet."""
        path = self.folder / INDEX_FILE
        if not path.exists() and not (self.folder / RUN_FOLDER).exists():
            return []
        if path.exists():
            with self._explained(), _reading(path) as index:
                if _is_current(index):
                    return index.execute(sql, named or values).fetchall()
        if self.read_only:
            raise UserError(f"{path} is missing or of another version; `paceline index` makes it anew.")
        with self.transaction() as index:
            return index.execute(sql, named or values).fetchall()

    def rebuild(self) -> int:
        """Make the index anew from the folders; how many runs it holds."""
        if not self.folder.exists():
            raise UserError(f"There is no store at {self.folder}.")
        (self.folder / INDEX_FILE).unlink(missing_ok=True)
        with self.transaction() as index:
            return int(index.execute("SELECT COUNT(*) FROM run").fetchone()[0])

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The index in one transaction that may write, filled first if it is new or of another version."""
        path = self.folder / INDEX_FILE
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            with _connected(str(path)) as index:
                index.execute("BEGIN IMMEDIATE")
                if not _is_current(index):
                    self._fill(index)
                yield index
                _commit(index)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """What is wrong with the file or the folder is told to the user."""
        path = self.folder / INDEX_FILE
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise  # a bug of ours, not a broken file
        except sqlite3.DatabaseError as error:
            damaged = error.sqlite_errorname in ("SQLITE_NOTADB", "SQLITE_CORRUPT")
            cure = "`paceline index` makes it anew from the run folders" if damaged else "--store names another place"
            raise UserError(f"Cannot use {path}: {error}; {cure}.") from None
        except OSError as error:
            raise UserError(f"Cannot use the store {self.folder}: {error.strerror}; --store names another.") from None

    def _fill(self, index: sqlite3.Connection) -> None:
        names = [
            row[0]
            for row in index.execute("SELECT type || ' ' || name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        ]
        for name in sorted(names, reverse=True):  # views before tables before indexes
            index.execute(f"DROP {name}" if not name.startswith("index") else f"DROP INDEX IF EXISTS {name.split()[1]}")
        for statement in _schema().split(";\n"):
            index.execute(statement)
        for path in sorted((self.folder / PLAN_FOLDER).glob("*.json")):
            with _naming(path):
                insert_plan(index, msgspec.json.decode(path.read_bytes(), type=PlanRecord))
        for path in sorted((self.folder / RUN_FOLDER).glob(f"*/{OUTCOME_FILE}")):
            with _naming(path.parent):
                insert_run(index, path.parent)
        index.execute(f"PRAGMA user_version = {_version()}")


@contextlib.contextmanager
def _connected(name: str, *, uri: bool = False) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(name, timeout=BUSY_SECONDS, isolation_level=None, uri=uri)) as index:
        index.row_factory = sqlite3.Row
        yield index


def _commit(index: sqlite3.Connection) -> None:
    """Waits for queries under way; new ones wait for it meanwhile, and a transaction that was refused is kept."""
    for left in reversed(range(COMMIT_TRIES)):
        try:
            index.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or not left:
                raise
        else:
            return


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The index without the right to write: who stores a run waits at most for the query under way."""
    with _connected(f"{path.absolute().as_uri()}?mode=ro", uri=True) as index:
        try:
            _is_current(index)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_READONLY_ROLLBACK":
                raise
            with _connected(str(path)) as writer:
                _is_current(writer)  # who was writing was killed; the first to look with a right to write undoes it
        yield index


def _is_current(index: sqlite3.Connection) -> bool:
    return bool(index.execute("PRAGMA user_version").fetchone()[0] == _version())


def _version() -> int:
    """The text of the schema is its version."""
    return zlib.crc32(_schema().encode()) >> 1


@cache  # as it was when this process began, even if Paceline is upgraded while it runs
def _schema() -> str:
    return (files("paceline") / "schema.sql").read_text(encoding="utf-8")


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A damaged record is named, not passed over: it may be somebody's result."""
    try:
        yield
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{path} is damaged: {error}; repair it or move it out of the store.") from None


def new_id() -> str:
    """Sorts by time, and no two are alike."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds))
    return f"{moment}-{nanoseconds // 1000:06}-{secrets.token_hex(3)}"
