"""Runs that have a folder and no outcome: those under way, and those that were cut off."""

from __future__ import annotations

import contextlib
import fcntl
import time
from dataclasses import dataclass, field
from pathlib import Path

from paceline.plan.cell import Cell
from paceline.plan.cell_names import cell_name
from paceline.store.index.rows import read_run
from paceline.store.records.events import EventFile, event_paths
from paceline.store.records.runs import OUTCOME_FILE, RUN_FOLDER, UNREADABLE, RunRecord
from paceline.store.records.samples import FILE as MONITOR_FILE
from paceline.store.store import Store
from paceline.store.training_progress import TrainingSoFar
from paceline.system.errors import UserError
from paceline.system.files.regular_files import is_own_folder, open_plain
from paceline.system.text.safe_text import printable
from paceline_worker.protocol import LEASE_FILE

SILENCE_SECONDS = 5.0  # who measures writes a sample twice a second; after so long without one it is gone


@dataclass
class OpenRun:
    """A run without an outcome, with all that its ranks have written so far."""

    folder: Path
    record: RunRecord
    files: dict[int, EventFile] = field(default_factory=dict)  # by rank

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def cell(self) -> Cell:
        return self.record.cell

    @property
    def name(self) -> str:
        return printable(cell_name(self.cell))

    def read_on(self) -> None:
        with contextlib.suppress(OSError):  # a run that is cut off takes its folder away
            for rank, path in event_paths(self.folder).items():
                self.files.setdefault(rank, EventFile(path)).read_on()

    @property
    def is_alive(self) -> bool:
        """Whether somebody sees it to its end: its lease is held, or it was sampled just now.

        A command has no lease, and for a moment before its outcome is written no run has one.
        """
        return _is_held(self.folder / LEASE_FILE) or time.time() - self._last_sign() < SILENCE_SECONDS

    def _last_sign(self) -> float:
        for path in (self.folder / MONITOR_FILE, self.folder):
            try:
                return path.stat().st_mtime
            except OSError:
                continue
        return 0.0

    @property
    def phase(self) -> str:
        """That of the rank that got least far."""
        if self.cell.command:
            return "command"
        least = min(self.files.values(), key=lambda file: len(file.events), default=None)
        return printable(least.phase) if least else "start"

    @property
    def trained(self) -> TrainingSoFar:
        """By all ranks, so far."""
        return TrainingSoFar.of(file.events for file in self.files.values())


def _is_held(lease: Path) -> bool:
    """Whether its orchestrator lives; shared and for an instant, so that workers, who wait for it, notice nothing."""
    try:
        with open_plain(lease) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@dataclass
class OpenRuns:
    """The open runs of a store; looking again costs little while no folder comes or goes."""

    store: Store
    _runs: dict[str, OpenRun] = field(default_factory=dict)
    _seen: int = -1  # when the folder of all runs was last changed
    _silent: bool = (
        False  # whether a folder has just been made and says nothing yet, so that it must be looked at again
    )

    def look(self) -> list[OpenRun]:
        """Those that are open now, oldest first."""
        parent = self.store.folder / RUN_FOLDER
        changed = parent.stat().st_mtime_ns if parent.exists() else 0
        if changed != self._seen:
            self._find_new(parent)
            self._seen = changed if not self._silent else -1
        self._runs = {name: run for name, run in self._runs.items() if _is_open(run.folder)}
        for run in self._runs.values():
            run.read_on()
        return list(self._runs.values())

    def _find_new(self, parent: Path) -> None:
        ended = {row["id"] for row in self.store.query("SELECT id FROM run")}
        names = {path.name for path in parent.iterdir()} if parent.exists() else set()
        new = [parent / name for name in sorted(names - ended - self._runs.keys()) if _is_open(parent / name)]
        records = {folder: read_record(folder) for folder in new}
        self._runs |= {folder.name: OpenRun(folder, record) for folder, record in records.items() if record}
        self._silent = any(record is None and _is_new(folder) for folder, record in records.items())


def _is_new(folder: Path) -> bool:
    return folder.exists() and time.time() - folder.stat().st_mtime < SILENCE_SECONDS


def _is_open(folder: Path) -> bool:
    return is_own_folder(folder) and not (folder / OUTCOME_FILE).exists()


def read_record(folder: Path) -> RunRecord | None:
    """None where it is not written yet, or is not readable at all."""
    try:
        record = read_run(folder)
    except (*UNREADABLE, UserError):
        return None
    return record if record.id == folder.name else None
