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
from paceline.outcome import Outcome
from paceline.plan import Plan, Run
from paceline.records import OUTCOME_FILE, PLAN_FOLDER, RUN_FILE, RUN_FOLDER, PlanRecord, RunRecord, cell_id
from paceline_worker.protocol import JOB_FILE, Job

INDEX_FILE = "index.sqlite"


@dataclass(frozen=True)
class Store:
    folder: Path

    def create_run(self, record: RunRecord, job: Job | None = None) -> Path:
        """A fresh folder with the job, if it is one for a worker, and all that is known before the run."""
        folder = self.folder / RUN_FOLDER / record.id
        folder.mkdir(parents=True)
        if job is not None:
            (folder / JOB_FILE).write_text(json.dumps(job.to_json()), encoding="utf-8")
        _write(folder / RUN_FILE, record)
        return folder

    def finish_run(self, folder: Path, outcome: Outcome) -> None:
        """Complete the record, then index it; a run without its outcome never happened."""
        _write(folder / OUTCOME_FILE, outcome)
        with self._index() as index:
            insert_run(index, folder)

    def save_plan(self, plan: Plan, command: str) -> None:
        skips = {skip.cell: skip.reason for skip in plan.skips}
        record = PlanRecord(
            id=new_id(),
            suite=plan.suite.name,
            command=command,
            cells=plan.cells,
            reasons=tuple(skips.get(cell) for cell in plan.cells),
            keys=tuple(tuple(run.key for run in plan.runs if run.cell == cell) for cell in plan.cells),
            settings=msgspec.to_builtins(plan.suite),
        )
        path = self.folder / PLAN_FOLDER / f"{record.id}.json"
        with self._index() as index:
            path.parent.mkdir(exist_ok=True)
            _write(path, record)
            insert_plan(index, record)

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
            raise UserError(f"{problem} named {text!r}; the newest are {newest}.")
        return found[0]

    def query(self, sql: str, *values: Any, **named: Any) -> list[sqlite3.Row]:
        """Rows of the index, for values in order or by name; none where nothing was stored yet."""
        if not (self.folder / INDEX_FILE).exists() and not (self.folder / RUN_FOLDER).exists():
            return []
        with self._index() as index:
            return index.execute(sql, named or values).fetchall()

    def rebuild(self) -> int:
        """Make the index anew from the folders; how many runs it holds."""
        if not self.folder.exists():
            raise UserError(f"There is no store at {self.folder}.")
        (self.folder / INDEX_FILE).unlink(missing_ok=True)
        with self._index() as index:
            return int(index.execute("SELECT COUNT(*) FROM run").fetchone()[0])

    @contextlib.contextmanager
    def _index(self) -> Iterator[sqlite3.Connection]:
        """The index in one transaction, filled first if it is new or of another version."""
        path = self.folder / INDEX_FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as index:
                index.row_factory = sqlite3.Row
                index.execute("BEGIN IMMEDIATE")
                if index.execute("PRAGMA user_version").fetchone()[0] != zlib.crc32(_schema().encode()) >> 1:
                    self._fill(index)
                yield index
                index.execute("COMMIT")
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
        index.execute(f"PRAGMA user_version = {zlib.crc32(_schema().encode()) >> 1}")  # its text is its version


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


def _write(path: Path, value: msgspec.Struct) -> None:
    """Whole or not at all."""
    scratch = path.with_suffix(".new")
    try:
        scratch.write_bytes(msgspec.json.format(msgspec.json.encode(value)))
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
