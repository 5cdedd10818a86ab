"""Samples from outside what a run uses: memory and processor time of each rank, and what its cores and GPUs do."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
import psutil

from paceline.store.records.samples import FILE, ProcessUsage, Sample
from paceline.system import processes
from paceline.system.machine.cgroups import cpu_groups, throttling
from paceline.system.machine.cpu_times import Core, core_counters
from paceline.system.machine.gpus import WatchedGpus
from paceline.system.processes import GONE

PERIOD_SECONDS = 0.5
FREQUENCY_PERIOD_SECONDS = 2.0  # seldom: some systems interrupt a core to read its frequency


class Monitor:
    """Writes one line per period into the run's folder; the first, before any process starts, is the idle machine."""

    def __init__(self, folder: Path, gpus: Iterable[int] = ()) -> None:
        self._path = folder / FILE
        self._due = self._frequency_due = 0.0
        self.cards = WatchedGpus(gpus)
        self.seen: dict[psutil.Process, tuple[float, float]] = {}  # user and system seconds of all, when last seen
        self._groups = cpu_groups()  # workers stay in them

    def sample(self, pids: dict[int, int], *, now: bool = False) -> None:
        """Look at these ranks' processes, if a period has passed since the last look or it is wanted now."""
        moment = time.monotonic()
        if moment < self._due and not now:
            return
        self._due = moment + PERIOD_SECONDS
        cores = _cores()
        sample = Sample(
            time=time.time(),
            load=_load(),
            ranks=self._ranks(pids),
            gpus=self.cards.look(),
            cores=list(cores.values()),
            core_numbers=[] if list(cores) == list(range(len(cores))) else list(cores),
            mhz=_frequencies() if now or moment >= self._frequency_due else [],
            throttled=throttling(self._groups),
        )
        if sample.mhz:
            self._frequency_due = moment + FREQUENCY_PERIOD_SECONDS
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(sample) + b"\n")

    def _ranks(self, pids: dict[int, int]) -> dict[int, ProcessUsage]:
        """One look at the process table for all ranks: for each of them it would cost as much again."""
        parents = processes.parents() if pids else {}
        found = {rank: self._usage(pid, processes.below(pid, parents)) for rank, pid in pids.items()}
        return {rank: usage for rank, usage in found.items() if usage is not None}

    def _usage(self, pid: int, below: list[int]) -> ProcessUsage | None:
        try:
            process, *children = [psutil.Process(member) for member in (pid, *below)]
            for member in (process, *children):
                times = member.cpu_times()
                self.seen[member] = times.user, times.system
            own, theirs = process.memory_info().rss, sum(_proportional_bytes(child) for child in children)
        except GONE:
            return None
        processor_seconds = sum(sum(self.seen[member]) for member in (process, *children))
        return ProcessUsage(resident_bytes=own + theirs, children_bytes=theirs, processor_seconds=processor_seconds)


def _proportional_bytes(process: psutil.Process) -> int:
    """A forked child shares most pages with its parent, and they must not count twice."""
    rollup = Path(f"/proc/{process.pid}/smaps_rollup")
    try:
        lines = rollup.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return int(process.memory_info().rss)
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _load() -> float | None:
    try:
        return psutil.getloadavg()[0]
    except OSError:
        return None


def _cores() -> dict[int, Core]:
    try:
        return core_counters()
    except OSError:  # some containers hide them
        return {}


def _frequencies() -> list[float]:
    try:
        found = psutil.cpu_freq(percpu=True)
    except (AttributeError, NotImplementedError, OSError):  # each says on some system that it is not known
        return []
    return [core.current for core in found or []]
