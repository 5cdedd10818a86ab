"""The processes of one run, from their start to their end: their events, their health, their whole tree."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from paceline.run.launchers import LaunchCommand
from paceline.run.monitor import Monitor
from paceline.store.records.events import AnyEvent, EventFile, Failed, Finished, Phase
from paceline.system import processes
from paceline.system.machine.gpus import WatchedGpus
from paceline_worker.protocol import LEASE_FILE, event_file

POLL_SECONDS = 0.2
GRACE_SECONDS = 6.0  # for the other ranks, or a launcher, to end by themselves and say why
JOIN_SECONDS = 120.0  # for every rank to start its framework and meet the others
REAP_SECONDS = 1.0  # for a killed process to be gone
LOG_FILE = "log.txt"
TURNS = ("build", "train", "evaluate")  # a look at once: nothing is built yet; training begins; it has ended


@dataclass(frozen=True)
class WorkerEnding:
    """How it ended, seen from outside: by itself, or by us for a reason."""

    reason: str  # exited, timeout, trouble
    detail: str  # the first trouble that was seen
    codes: tuple[int | None, ...]  # exit codes of the started commands
    vanished: bool = False  # the first trouble was a rank whose process was gone

    @property
    def unexplained(self) -> bool:
        """Whether ranks have ended in a way that was not seen; one that is stopped or never came has not ended."""
        return self.vanished or self.reason == "exited"


class Worker:
    """Use as a context: leaving it ends every process of the run, whatever happened."""

    def __init__(
        self,
        commands: list[LaunchCommand],
        folder: Path,
        ranks: int,
        timeout_seconds: float,
        *,
        braked: Collection[int] = (),
        gpus: Collection[int] = (),
    ) -> None:
        self._commands, self._folder, self._timeout = commands, folder, timeout_seconds
        self._braked = braked  # ranks that are stopped again and again on purpose
        self.files = [EventFile(event_file(folder, rank)) for rank in range(ranks)]
        self._monitor = Monitor(folder, gpus)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.left: tuple[int, ...] = ()  # processes that could not be ended
        self._troubled_since: float | None = None
        self._first_trouble = ""  # what went wrong first explains the rest
        self._vanished = False  # whether that was a rank whose process was gone

    @property
    def cards(self) -> WatchedGpus:
        """Those of the run, as they were sampled."""
        return self._monitor.cards

    def __enter__(self) -> Self:
        self._monitor.sample({})
        with contextlib.ExitStack() as started:
            self._lease = started.enter_context(_hold_lease(self._folder))
            self._log = started.enter_context((self._folder / LOG_FILE).open("ab"))
            started.callback(self._end)
            for command in self._commands:
                self._processes.append(self._start(command))
            self._started = time.monotonic()
            self._open = started.pop_all()  # if one cannot be started, the others are ended
        return self

    def _start(self, command: LaunchCommand) -> subprocess.Popen[bytes]:
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
        self._open.close()

    def _end(self) -> None:
        try:
            self.left = processes.end_all(self._folder.name, reap=self._reap)
        finally:
            for process in self._processes:  # those that were started here, whatever became of the others
                process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=REAP_SECONDS)

    def _reap(self) -> None:
        for process in self._processes:
            process.poll()

    def follow(self) -> Iterator[AnyEvent]:
        """Events of all ranks as they come, until the run has ended; `ending` then says how."""
        ending = None
        while ending is None:
            time.sleep(POLL_SECONDS)
            codes, states = tuple(process.poll() for process in self._processes), self._states()
            events = self._new_events()  # after that look: who was gone by then has written all that it ever will
            turns = [event for event in events if isinstance(event, Phase) and event.phase in TURNS]
            self._monitor.sample(self._pids(), now=bool(turns))
            yield from events
            ending = self._ending(codes, states)
        self.ending = ending
        yield from self._new_events()

    def _new_events(self) -> list[AnyEvent]:
        return [event for file in self.files for event in file.read_on()]

    def _pids(self) -> dict[int, int]:
        return {rank: file.pid for rank, file in enumerate(self.files) if file.pid is not None}

    def _states(self) -> dict[int, str]:
        """Of all ranks that have said which process they are, at one moment."""
        return {rank: processes.state(pid) for rank, pid in self._pids().items()}

    def _ending(self, codes: tuple[int | None, ...], states: dict[int, str]) -> WorkerEnding | None:
        if None not in codes:
            return WorkerEnding("exited", self._first_trouble, codes, self._vanished)
        if time.monotonic() - self._started > self._timeout:
            return WorkerEnding("timeout", f"no end after {self._timeout:g} s", codes)
        trouble = self._trouble(states)
        if trouble is None:
            self._troubled_since, self._first_trouble, self._vanished = None, "", False
            return None
        if not self._first_trouble:
            self._first_trouble, self._vanished = trouble, bool(self._silent(states, "gone"))
        self._troubled_since = self._troubled_since or time.monotonic()
        patient = time.monotonic() - self._troubled_since < GRACE_SECONDS
        return None if patient else WorkerEnding("trouble", self._first_trouble, codes, self._vanished)

    def _trouble(self, states: dict[int, str]) -> str | None:
        """What keeps a run from ending by itself: a rank that vanished, was stopped or failed, or a hanging exit."""
        if all(file.has(Finished) for file in self.files):
            return "all ranks have finished"
        gone = self._silent(states, "gone")
        stopped = [rank for rank in self._silent(states, "stopped") if rank not in self._braked]
        if gone or stopped:  # before those that failed, perhaps only because they miss it
            return self._seen(gone or stopped, "gone" if gone else "stopped")
        failed = [rank for rank, file in enumerate(self.files) if file.has(Failed)]
        return f"rank {failed[0]} failed" if failed else self._absent_rank()

    def _silent(self, states: dict[int, str], state: str) -> list[int]:
        """Ranks in that state which have not said how they ended."""
        return [
            rank
            for rank, file in enumerate(self.files)
            if states.get(rank) == state and not file.has(Finished) and not file.has(Failed)
        ]

    def _seen(self, ranks: list[int], state: str) -> str:
        """Names them all: which was the first, one look cannot tell."""
        names = ", ".join(f"rank {rank} (process {self.files[rank].pid})" for rank in ranks)
        return f"{names} {'is' if len(ranks) == 1 else 'are'} {state}"

    def _absent_rank(self) -> str | None:
        """One for which the others, which have started, would wait in vain; or that they all wait."""
        begun = [file.phase != "start" for file in self.files]
        if all(begun) or len(begun) == 1 or time.monotonic() - self._started < JOIN_SECONDS:
            return None
        here = begun if any(begun) else [file.pid is not None for file in self.files]  # some meet while they start
        if not any(here):
            return None
        absent = "the ranks have not met" if all(here) else f"rank {here.index(False)} has not joined the others"
        return f"{absent} after {JOIN_SECONDS:g} s"


def _hold_lease(folder: Path) -> IO[bytes]:
    """Lock the lease for as long as this process lives; workers end when it is free."""
    lease = (folder / LEASE_FILE).open("wb")
    fcntl.flock(lease, fcntl.LOCK_EX)
    return lease
