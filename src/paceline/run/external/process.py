"""The processes of one command, from their start to their end: what they use, what they print, their whole tree."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import psutil

from paceline.plan.external.command import ExternalCommand
from paceline.run.external import waiter
from paceline.run.monitor import Monitor
from paceline.run.samplers import PERIOD_SECONDS
from paceline.run.worker import LOG_FILE, POLL_SECONDS
from paceline.store.index.command_usage import RANK, WaiterReport
from paceline.system import processes
from paceline.system.machine.gpus import WatchedGpus
from paceline.system.processes import RUN_VARIABLE

REPORT_FILE = "waiter.json"


class CommandProcess:
    """Use as a context: leaving it ends every process of the command, whatever happened."""

    def __init__(
        self,
        command: ExternalCommand,
        folder: Path,
        timeout_seconds: float,
        *,
        echo: bool,
        gpus: Collection[int] = (),
    ) -> None:
        self._command, self._folder, self._timeout, self._echo = command, folder, timeout_seconds, echo
        self._monitor = Monitor(folder, gpus)
        self._times: dict[tuple[int, float], tuple[float, float]] = {}  # of every process that was ever seen
        self._due = 0.0
        self._echoed = 0
        self.timed_out = False
        self.seconds = 0.0  # as seen from here; the waiter knows them better
        self.left_behind = 0
        self.left: tuple[int, ...] = ()  # processes that could not be ended

    @property
    def cards(self) -> WatchedGpus:
        """Those of the command, as they were sampled."""
        return self._monitor.cards

    def __enter__(self) -> Self:
        self._monitor.sample({})
        self._log = (self._folder / LOG_FILE).open("ab")
        self._started = time.monotonic()
        self._waiter = subprocess.Popen(
            [sys.executable, "-I", "-S", waiter.__file__, str(self._folder / REPORT_FILE), *self._command.arguments],
            env={**os.environ, RUN_VARIABLE: self._folder.name},
            cwd=self._command.folder,
            stdin=subprocess.PIPE,  # closed by the kernel when this process ends
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the orchestrator, which then ends the tree in order
        )
        self._tree = psutil.Process(self._waiter.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.monotonic() - self._started
        self.left = processes.end_all(self._folder.name, reap=self._reap, adopter=self._tree)
        if not self.left:  # else it would be waited for in vain
            self._waiter.wait()
        if self._waiter.stdin:
            self._waiter.stdin.close()
        self._log.close()

    def _reap(self) -> None:
        self._waiter.poll()

    def follow(self) -> WaiterReport | None:
        """See it to its end; nothing is reported of a command that had to be ended."""
        path = self._folder / REPORT_FILE
        while not path.exists() and self._waiter.poll() is None:
            if time.monotonic() - self._started > self._timeout:
                self.timed_out = True
                return None
            self._look()
            self._echo_on()
            time.sleep(POLL_SECONDS)
        self._monitor.sample({}, now=True)  # what the cores have done by now
        self.left_behind = len(processes.left_behind(self._folder.name, self._tree))
        self._echo_on()
        return msgspec.json.decode(path.read_bytes(), type=WaiterReport) if path.exists() else None

    def _look(self) -> None:
        self._monitor.sample({RANK: self._waiter.pid})
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + PERIOD_SECONDS
        try:
            below = self._tree.children(recursive=True)
        except processes.GONE:
            return
        for process in below:
            self._note_times(process)

    def _note_times(self, process: psutil.Process) -> None:
        try:
            times = process.cpu_times()
            self._times[process.pid, process.create_time()] = times.user, times.system
        except processes.GONE:
            return

    def seen_times(self) -> tuple[float, float]:
        """User and system seconds as they were sampled: of every process what it had used when it was last seen."""
        return sum(user for user, _ in self._times.values()), sum(system for _, system in self._times.values())

    def _echo_on(self) -> None:
        if not self._echo:
            return
        with (self._folder / LOG_FILE).open("rb") as log:
            log.seek(self._echoed)
            while piece := log.read(1 << 16):
                sys.stderr.buffer.write(piece)
                self._echoed += len(piece)
        sys.stderr.buffer.flush()
