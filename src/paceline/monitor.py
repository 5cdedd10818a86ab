"""Samples from outside what a run uses: memory and processor time of each rank, and what its cores and GPUs do."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import psutil

from paceline import processes
from paceline.cards import Cards, Gpu
from paceline.cgroups import Throttling, cpu_groups, throttling
from paceline.cores import Core, core_counters
from paceline.plain_files import lines_of
from paceline.processes import GONE

PERIOD_SECONDS = 0.5
FREQUENCY_PERIOD_SECONDS = 2.0  # seldom: some systems interrupt a core to read its frequency
FILE = "monitor.jsonl"


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's process and all below it."""

    resident_bytes: int
    children_bytes: int = 0  # of those below it; pages they share count in proportion
    processor_seconds: float  # since they began


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a run; fields with a default came later than the first records."""

    time: float  # seconds since 1970
    load: float | None  # None where the system does not tell
    ranks: dict[int, Usage]
    gpus: list[Gpu]  # those of the run; in older records all of the machine
    cores: list[Core] = []  # busy and stolen seconds of each core of the machine since it started
    core_numbers: list[int] = []  # of these cores, where some number is missing among them
    mhz: list[float] = []  # of each core; empty where nobody tells, or when it was not the time to ask
    throttled: Throttling | None = None  # by quotas so far; None where nobody counts

    def gpu(self, index: int) -> Gpu | None:
        """A card by its number, if it was looked at."""
        known = [gpu for place, gpu in enumerate(self.gpus) if (place if gpu.index is None else gpu.index) == index]
        return known[0] if known else None

    def place(self, core: int) -> int | None:
        """Where a core stands in the lists; None where it is unknown, as in a container that numbers them anew."""
        if self.core_numbers:
            return self.core_numbers.index(core) if core in self.core_numbers else None
        return core if core < len(self.cores) else None

    def core(self, number: int) -> Core:
        """The counters of a core that is known."""
        place = self.place(number)
        assert place is not None  # noqa: S101 - whoever asks has looked
        return self.cores[place]


DECODER = msgspec.json.Decoder(Sample)


class Monitor:
    """Writes one line per period into the run's folder; the first, before any process starts, is the idle machine."""

    def __init__(self, folder: Path, gpus: Iterable[int] = ()) -> None:
        self._path = folder / FILE
        self._due = self._frequency_due = 0.0
        self.cards = Cards(gpus)
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
            ranks=_ranks(pids),
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


def _ranks(pids: dict[int, int]) -> dict[int, Usage]:
    """One look at the process table for all ranks: for each of them it would cost as much again."""
    parents = processes.parents() if pids else {}
    found = {rank: _usage(pid, processes.below(pid, parents)) for rank, pid in pids.items()}
    return {rank: usage for rank, usage in found.items() if usage is not None}


def _usage(pid: int, below: list[int]) -> Usage | None:
    try:
        process = psutil.Process(pid)
        children = [psutil.Process(child) for child in below]
        times = [member.cpu_times() for member in (process, *children)]
        own, theirs = process.memory_info().rss, sum(_proportional_bytes(child) for child in children)
    except GONE:
        return None
    processor_seconds = sum(used.user + used.system for used in times)
    return Usage(resident_bytes=own + theirs, children_bytes=theirs, processor_seconds=processor_seconds)


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
    except (AttributeError, NotImplementedError, OSError):  # each says on some system that nobody knows
        return []
    return [core.current for core in found or []]


def read_samples(folder: Path) -> list[Sample]:
    """All samples of a run; the last may be half written if Paceline was killed."""
    return list(stream_samples(folder))


def stream_samples(folder: Path) -> Iterator[Sample]:
    """Likewise one by one: of a file of empty lines, the first is refused."""
    for line in lines_of(folder / FILE):
        yield DECODER.decode(line)
