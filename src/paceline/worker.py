"""The processes of one run, from their start to their end: their events, their health, their whole tree."""

from __future__ import annotations

import fcntl
import subprocess
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from paceline import processes
from paceline.events import AnyEvent, EventFile, Failed, Finished, Phase
from paceline.launchers import Command
from paceline.monitor import Monitor
from paceline_worker.protocol import LEASE_FILE, event_file

POLL_SECONDS = 0.2
GRACE_SECONDS = 6.0  # for the other ranks, or a launcher, to end by themselves and say why
JOIN_SECONDS = 120.0  # for every rank to start its framework and meet the others
LOG_FILE = "log.txt"
TURNS = ("build", "train", "evaluate")  # a look at once: nothing is built yet; training begins; it has ended


@dataclass(frozen=True)
class Ending:
    """How it ended, seen from outside: by itself, or by us for a reason."""

    reason: str  # exited, timeout, trouble
    detail: str  # the first trouble that was seen
    codes: tuple[int | None, ...]  # exit codes of the started commands


class Worker:
    """Use as a context: leaving it ends every process of the run, whatever happened."""

    def __init__(
        self,
        commands: list[Command],
        folder: Path,
        ranks: int,
        timeout_seconds: float,
        *,
        join_seconds: float = JOIN_SECONDS,
        braked: Collection[int] = (),
    ) -> None:
        self._commands, self._folder, self._timeout = commands, folder, timeout_seconds
        self._join = join_seconds
        self._braked = braked  # ranks that are stopped again and again on purpose
        self.files = [EventFile(event_file(folder, rank)) for rank in range(ranks)]
        self._monitor = Monitor(folder)
        self._troubled_since: float | None = None
        self._first_trouble = ""  # what went wrong first explains the rest

    def __enter__(self) -> Self:
        self._lease = _hold_lease(self._folder)
        self._monitor.sample({})
        self._log = (self._folder / LOG_FILE).open("ab")
        self._processes = [self._start(command) for command in self._commands]
        self._started = time.monotonic()
        return self

    def _start(self, command: Command) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command.arguments,
            env=command.environment,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the orchestrator, which then ends the tree in order
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes.end_all(self._folder.name, reap=self._reap)
        self._reap()
        self._log.close()
        self._lease.close()

    def _reap(self) -> None:
        for process in self._processes:
            process.poll()

    def follow(self) -> Iterator[AnyEvent]:
        """Events of all ranks as they come, until the run has ended; `ending` then says how."""
        while (ending := self._ending()) is None:
            events = self._new_events()
            turns = [event for event in events if isinstance(event, Phase) and event.phase in TURNS]
            self._monitor.sample(self._pids(), now=bool(turns))
            yield from events
            time.sleep(POLL_SECONDS)
        self.ending = ending
        yield from self._new_events()

    def _new_events(self) -> list[AnyEvent]:
        return [event for file in self.files for event in file.read_on()]

    def _pids(self) -> dict[int, int]:
        return {rank: file.pid for rank, file in enumerate(self.files) if file.pid is not None}

    def _ending(self) -> Ending | None:
        codes = tuple(process.poll() for process in self._processes)
        if None not in codes:
            return Ending("exited", self._first_trouble, codes)
        if time.monotonic() - self._started > self._timeout:
            return Ending("timeout", f"no end after {self._timeout:g} s", codes)
        trouble = self._trouble()
        if trouble is None:
            self._troubled_since = None
            return None
        self._first_trouble = self._first_trouble or trouble
        self._troubled_since = self._troubled_since or time.monotonic()
        patient = time.monotonic() - self._troubled_since < GRACE_SECONDS
        return None if patient else Ending("trouble", self._first_trouble, codes)

    def _trouble(self) -> str | None:
        """What keeps a run from ending by itself: a rank that failed, vanished or was stopped, or a hanging exit."""
        if all(file.has(Finished) for file in self.files):
            return "all ranks have finished"
        for rank, file in enumerate(self.files):
            if file.has(Failed):
                return f"rank {rank} failed"
            state = "alive" if file.pid is None or file.has(Finished) else processes.state(file.pid)
            if state != "alive" and not (state == "stopped" and rank in self._braked):
                return f"rank {rank} (process {file.pid}) is {state}"
        return self._absent_rank()

    def _absent_rank(self) -> str | None:
        """One that the others, which have started, would wait for in vain."""
        begun = [file.phase != "start" for file in self.files]
        if all(begun) or not any(begun) or time.monotonic() - self._started < self._join:
            return None
        return f"rank {begun.index(False)} has not joined the others after {self._join:g} s"


def _hold_lease(folder: Path) -> IO[bytes]:
    """Lock the lease for as long as this process lives; workers end when it is free."""
    lease = (folder / LEASE_FILE).open("wb")
    fcntl.flock(lease, fcntl.LOCK_EX)
    return lease
