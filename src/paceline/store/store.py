"""Results: a folder per run, which is the record, and an SQLite index over them, which can always be made again."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from paceline.plan.planning import Plan, Run
from paceline.store.index.file import BUSY_SECONDS, INDEX_FILE, IndexFile, commit, is_current
from paceline.store.index.rows import insert_plan, insert_run
from paceline.store.newer_records import leaving_out_newer
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import (
    FOLDERS,
    OUTCOME_FILE,
    PLAN_FOLDER,
    RUN_FILE,
    RUN_FOLDER,
    PlanRecord,
    RunRecord,
    cell_id,
)
from paceline.system.errors import UserError
from paceline.system.files.atomic_files import write_bytes, write_json
from paceline.system.files.regular_files import RECORD_BYTES, kind_of, read_plain
from paceline.system.format_versions import PLAN, decode_versioned
from paceline.system.text.safe_text import one_line, quoted, shortened
from paceline_worker.protocol import JOB_FILE, Job

TRIES = 5  # to find an index of this version: another version that is at work makes its own again and again
PATH_LETTERS = 200  # of a path that is named in a message
DAMAGED = "`paceline index` makes it anew from the run folders"
OUTSIDE = ("BUSY", "LOCKED", "CANTOPEN", "READONLY", "FULL", "IOERR", "PERM", "AUTH", "NOLFS")  # not the file's fault
# What code stumbles over in a record or an index that Paceline has not written so.
ODD = (
    *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError),
    *(sqlite3.Error, msgspec.MsgspecError, RecursionError),
)


@dataclass(frozen=True)
class Store:
    folder: Path
    read_only: bool = False  # an index that is missing or old is an error then, and not rebuilt
    busy_seconds: float = BUSY_SECONDS  # how long a lock is waited for

    def run_folder(self, run_id: str) -> Path:
        return self.folder / RUN_FOLDER / run_id

    def create_run(self, record: RunRecord, job: Job | None = None) -> Path:
        """A fresh folder with all that is known before the run."""
        with self.transaction():
            pass  # an index that cannot be used is found now, and one that is missing is made without this run
        folder = self.run_folder(record.id)
        folder.mkdir(parents=True)
        self.describe_run(folder, record, job)
        return folder

    def describe_run(self, folder: Path, record: RunRecord, job: Job | None = None) -> None:
        """Write down what is known by now, with the job if it is one for a worker."""
        if job is not None:
            (folder / JOB_FILE).write_text(json.dumps(job.to_json()), encoding="utf-8")
        write_json(folder / RUN_FILE, record)

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
        content = msgspec.json.format(msgspec.json.encode(record))
        if len(content) > RECORD_BYTES:
            raise UserError(f"A plan of {len(plan.cells):,} cells is too large to be kept; measure it in parts.")
        with self.transaction() as index:
            path.parent.mkdir(exist_ok=True)
            write_bytes(path, content)
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
            "SELECT run.*, speed.value AS images_per_second FROM run "
            "LEFT JOIN value AS speed ON speed.run_id = run.id AND speed.name = 'images_per_second' "
            "WHERE run.key = ? ORDER BY run.id DESC LIMIT 1",
            key,
        )
        return rows[0] if rows else None

    def find_run(self, text: str) -> Path:
        """The folder of the one run whose id begins or ends so."""
        with self._explained():
            folders = self._run_folders()
        found = [
            path for path in folders if path.name == text or path.name.startswith(text) or path.name.endswith(text)
        ]
        if len(found) != 1:
            newest = ", ".join(path.name for path in folders[-3:]) or "none"
            problem = "No run is" if not found else f"{len(found)} runs are"
            raise UserError(f"{problem} named {quoted(text)}; the newest are {newest}.")
        return found[0]

    def _run_folders(self) -> list[Path]:
        """Of all runs, the oldest first; what only leads to a folder elsewhere is not part of a store."""
        parent = self.folder / RUN_FOLDER
        with contextlib.suppress(FileNotFoundError), os.scandir(parent) as entries:
            found = sorted((entry.name, entry.is_symlink()) for entry in entries if entry.is_dir())
            for name, is_link in found:
                if is_link:
                    raise UserError(f"{parent / name} is a link, not a folder of this store; put the run itself there.")
            return [parent / name for name, _ in found]
        return []

    def query(self, sql: str, *values: Any, **named: Any) -> list[sqlite3.Row]:
        """Rows of the index, for values in order or by name; none where nothing was stored yet."""
        with self._explained():
            there = self.index.exists()
            if not there and not (self.folder / RUN_FOLDER).exists():
                return []
            if there:
                with self.index.reading() as index:
                    if is_current(index):
                        return index.execute(sql, named or values).fetchall()
        if self.read_only:
            raise UserError(f"{self.index.path} is missing or of another version; `paceline index` makes it anew.")
        with self.transaction() as index:
            return index.execute(sql, named or values).fetchall()

    def rebuild(self) -> int:
        """Rebuild the index from the folders; return how many runs it holds."""
        with self._explained():
            if not self.folder.exists():
                raise UserError(f"There is no store at {self._named}.")
            self.index.make(self.filling(), if_needed=False)
            return int(self.query("SELECT COUNT(*) FROM run")[0][0])

    def check_place(self) -> None:
        """That it is a folder, if there is anything, and has what is in it in folders of its own."""
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"Cannot use the store {self._named}: it is no folder; --store names another.")
        for path in (self.folder / name for name in FOLDERS):
            if kind := kind_of(path, stat.S_IFDIR):
                cure = "put the folder itself there, or link the whole store"
                raise UserError(f"{path} is {kind}, not a folder of this store; {cure}.")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The index in one transaction that may write; one that is new or of another version is made first."""
        with self._explained():
            self.folder.mkdir(parents=True, exist_ok=True)
            for _ in range(TRIES):
                if self.index.exists():
                    with self.index.writing() as index:
                        if is_current(index):
                            yield index
                            commit(index)
                            return
                self.index.make(self.filling(), if_needed=True)
        raise UserError(f"Another version of Paceline keeps {self.index.path} in its own form; end it first.")

    def filling(self) -> Callable[[sqlite3.Connection], None]:
        """What puts plans and runs into an index, and when it is called again those that have come meanwhile."""
        known: set[Path] = set()

        def fill(index: sqlite3.Connection) -> None:
            for path in sorted(set((self.folder / PLAN_FOLDER).glob("*.json")) - known):
                with naming(path), leaving_out_newer(index, path.stem):
                    insert_plan(index, decode_versioned(read_plain(path), PlanRecord, PLAN, f"Plan {path.stem}"))
                known.add(path)
            for folder in self._run_folders():
                if folder not in known and (folder / OUTCOME_FILE).exists():
                    with naming(folder), leaving_out_newer(index, folder.name):
                        insert_run(index, folder)
                    known.add(folder)

        return fill

    @property
    def index(self) -> IndexFile:
        return IndexFile(self.folder / INDEX_FILE, self.busy_seconds)

    @property
    def _named(self) -> str:
        return shortened(str(self.folder), PATH_LETTERS)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Tell the user what is wrong with the file or the folder, which is looked at first."""
        try:
            self.check_place()
            yield
        except UserError:
            raise
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise  # a bug of ours, not a broken file
        except (sqlite3.Error, UnicodeDecodeError) as error:
            name = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_")
            cure = "--store names another place" if name.startswith(OUTSIDE) else DAMAGED
            raise UserError(f"Cannot use {self.index.path}: {one_line(str(error))}; {cure}.") from None
        except OSError as error:
            raise UserError(f"Cannot use the store {self._named}: {error.strerror}; --store names another.") from None


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """A damaged record is named, not passed over: it may be somebody's result."""
    try:
        yield
    except (OSError, *ODD) as error:
        is_plain = isinstance(error, OSError | msgspec.MsgspecError)
        what = one_line(str(error) if is_plain else f"{type(error).__name__}: {error}")
        raise UserError(f"{path} is damaged: {what}; repair it or move it out of the store.") from None


def new_id() -> str:
    """Sorts by time, and no two are alike."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds))
    return f"{moment}-{nanoseconds // 1000:06}-{secrets.token_hex(3)}"
