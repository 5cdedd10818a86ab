"""The processes of one run, from their start to their end: their events, their health, their whole tree."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Self

import psutil

from paceline.run.diagnosis import WorkerEnding, judge, with_processes, with_troubles
from paceline.run.launchers import LaunchCommand
from paceline.run.monitor import Monitor
from paceline.store.records.events import AnyEvent, EventFile, Failed, Finished, Phase
from paceline.store.records.outcome import Outcome
from paceline.system import processes
from paceline.system.machine import oom_kills
from paceline_worker.protocol import LEASE_FILE, event_file

POLL_SECONDS = 0.2
GRACE_SECONDS = 6.0  # for the other ranks, or a launcher, to end by themselves and say why
JOIN_SECONDS = 120.0  # for every rank to start its framework and meet the others
REAP_SECONDS = 1.0  # for a killed process to be gone
LOG_FILE = "log.txt"
TURNS = ("build", "train", "evaluate")  # a look at once: nothing is built yet; training begins; it has ended


class RunProcesses:
    """Use as a context: leaving it ends every process of the run, whatever happened."""

    ending: WorkerEnding

    def __init__(
        self, commands: list[LaunchCommand], folder: Path, timeout_seconds: float, gpus: Collection[int]
    ) -> None:
        self._commands, self._folder, self._timeout = commands, folder, timeout_seconds
        self._monitor = Monitor(folder, gpus)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._adopter: psutil.Process | None = None  # to which orphans fall, if one is there for that
        self.left: tuple[int, ...] = ()  # processes that could not be ended

    def __enter__(self) -> Self:
        self._monitor.sample({})
        with contextlib.ExitStack() as started:
            lease = started.enter_context((self._folder / LEASE_FILE).open("wb"))
            fcntl.flock(lease, fcntl.LOCK_EX)  # for as long as this process lives; those of the run end when it is free
            self._log = started.enter_context((self._folder / LOG_FILE).open("ab"))
            started.callback(self._end)
            self._started = time.monotonic()
            for command in self._commands:
                self._processes.append(self._start(command))
            self._open = started.pop_all()  # if one cannot be started, the others are ended
        return self

    def _start(self, command: LaunchCommand) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command.arguments,
            env=command.environment,
            cwd=command.folder or self._folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the orchestrator, which then ends the tree in order
        )

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _end(self) -> None:
        try:
            self.left = processes.end_all(self._folder.name, reap=self._poll, adopter=self._adopter)
        finally:
            for process in self._processes:  # those that were started here, whatever became of the others
                process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=REAP_SECONDS)

    def _poll(self) -> tuple[int | None, ...]:
        """The exit codes of those that have ended, which are reaped thereby."""
        return tuple(process.poll() for process in self._processes)

    def follow(self) -> Iterator[AnyEvent]:
        """Events of all ranks as they come, until the run has ended; `ending` then says how."""
        ending = None
        while ending is None:
            time.sleep(POLL_SECONDS)
            codes = self._poll()
            yield from self._look()
            ending = self._ending(codes)
        self.ending = ending
        yield from self._last_look()

    def _look(self) -> Iterable[AnyEvent]:
        """What is new, while its processes are sampled."""
        raise NotImplementedError

    def _last_look(self) -> Iterable[AnyEvent]:
        """Likewise when it has ended."""
        raise NotImplementedError

    def _ending(self, codes: tuple[int | None, ...]) -> WorkerEnding | None:
        """None while it goes on."""
        if None not in codes:
            return WorkerEnding("exited", "", codes)
        if time.monotonic() - self._started > self._timeout:
            return WorkerEnding("timeout", f"no end after {self._timeout:g} s", codes)
        return None

    def _judged(self, seconds: float, *, memory_ran_out: bool) -> Outcome:
        """What it came to, by all that was seen of it."""
        raise NotImplementedError

    def carry_out(self, show: Callable[[AnyEvent], None] = lambda event: None) -> Outcome:
        """Start it, see it to its end and say what came of it."""
        began, kills = time.monotonic(), oom_kills.kills()
        with self:
            for event in self.follow():
                show(event)
        seconds = time.monotonic() - began
        outcome = self._judged(seconds, memory_ran_out=oom_kills.killed_since(kills))
        return with_troubles(with_processes(outcome, self.left), self._monitor.cards)


class Worker(RunProcesses):
    """The ranks of a training, which tell of themselves by events."""

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
        super().__init__(commands, folder, timeout_seconds, gpus)
        self._braked = braked  # ranks that are stopped again and again on purpose
        self.files = [EventFile(event_file(folder, rank)) for rank in range(ranks)]
        self._troubled_since: float | None = None
        self._first_trouble = ""  # what went wrong first explains the rest
        self._vanished = False  # whether that was a rank whose process was gone

    def _look(self) -> list[AnyEvent]:
        self._states = {rank: processes.state(pid) for rank, pid in self._pids().items()}  # all at one moment
        events = self._last_look()  # after that look: who was gone by then has written all that it ever will
        turns = [event for event in events if isinstance(event, Phase) and event.phase in TURNS]
        self._monitor.sample(self._pids(), now=bool(turns))
        return events

    def _last_look(self) -> list[AnyEvent]:
        return [event for file in self.files for event in file.read_on()]

    def _judged(self, seconds: float, *, memory_ran_out: bool) -> Outcome:
        return judge(self.files, self.ending, seconds, self._folder / LOG_FILE, memory_ran_out=memory_ran_out)

    def _pids(self) -> dict[int, int]:
        """Of all ranks that have said which process they are."""
        return {rank: file.pid for rank, file in enumerate(self.files) if file.pid is not None}

    def _ending(self, codes: tuple[int | None, ...]) -> WorkerEnding | None:
        if None not in codes:
            return WorkerEnding("exited", self._first_trouble, codes, self._vanished)
        if seen := super()._ending(codes):
            return seen
        trouble = self._trouble()
        if trouble is None:
            self._troubled_since, self._first_trouble, self._vanished = None, "", False
            return None
        if not self._first_trouble:
            self._first_trouble, self._vanished = trouble, bool(self._silent("gone"))
        self._troubled_since = self._troubled_since or time.monotonic()
        patient = time.monotonic() - self._troubled_since < GRACE_SECONDS
        return None if patient else WorkerEnding("trouble", self._first_trouble, codes, self._vanished)

    def _trouble(self) -> str | None:
        """What keeps a run from ending by itself: a rank that vanished, was stopped or failed, or a hanging exit."""
        if all(file.has(Finished) for file in self.files):
            return "all ranks have finished"
        gone = self._silent("gone")
        stopped = [rank for rank in self._silent("stopped") if rank not in self._braked]
        if gone or stopped:  # before those that failed, perhaps only because they miss it
            return self._seen(gone or stopped, "gone" if gone else "stopped")
        failed = [rank for rank, file in enumerate(self.files) if file.has(Failed)]
        return f"rank {failed[0]} failed" if failed else self._absent_rank()

    def _silent(self, state: str) -> list[int]:
        """Ranks in that state which have not said how they ended."""
        return [
            rank
            for rank, file in enumerate(self.files)
            if self._states.get(rank) == state and not file.has(Finished) and not file.has(Failed)
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
