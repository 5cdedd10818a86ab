"""Samples of a run as the monitor wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from paceline.system.files.regular_files import lines_of
from paceline.system.machine.cgroups import Throttling
from paceline.system.machine.cpu_times import Core
from paceline.system.machine.gpus import Gpu

FILE = "monitor.jsonl"


class ProcessUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's process and all below it."""

    resident_bytes: int
    children_bytes: int = 0  # of those below it; pages they share count in proportion
    processor_seconds: float  # since they began


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a run; fields with a default came later than the first records."""

    time: float  # seconds since 1970
    load: float | None = None  # None where the system does not tell
    ranks: dict[int, ProcessUsage] = {}
    gpus: list[Gpu] = []  # those of the run; in older records all of the machine
    cores: list[Core] = []  # busy and stolen seconds of each core of the machine since it started
    core_numbers: list[int] = []  # of these cores, where some number is missing among them
    mhz: list[float] = []  # of each core; empty where it is not known, or when it was not the time to ask
    throttled: Throttling | None = None  # by quotas so far; None where it is not counted

    counters: dict[str, list[float | None]] = {}  # of further samplers, by name: each only ever grows
    gauges: dict[str, list[float | None]] = {}

    def gpu(self, index: int) -> Gpu | None:
        """A card by its number, if it was looked at."""
        known = [gpu for place, gpu in enumerate(self.gpus) if (place if gpu.index is None else gpu.index) == index]
        return known[0] if known else None

    def place(self, core: int) -> int | None:
        """Where a core stands in the lists; None where it is unknown, as in a container that numbers them itself."""
        if self.core_numbers:
            return self.core_numbers.index(core) if core in self.core_numbers else None
        return core if core < len(self.cores) else None

    def core(self, number: int) -> Core:
        """The counters of a core that is known."""
        place = self.place(number)
        assert place is not None  # noqa: S101 - whoever asks has looked
        return self.cores[place]


DECODER = msgspec.json.Decoder(Sample)


def read_samples(folder: Path) -> list[Sample]:
    """All samples of a run; the last may be half written if Paceline was killed."""
    return list(stream_samples(folder))


def stream_samples(folder: Path) -> Iterator[Sample]:
    """Likewise one by one: of a file of empty lines, the first is refused."""
    for line in lines_of(folder / FILE):
        yield DECODER.decode(line)
