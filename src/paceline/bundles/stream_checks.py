"""Events and samples of a run from elsewhere, checked while they are read: the first line that is wrong ends it."""

from __future__ import annotations

from pathlib import Path

from paceline.bundles.manifest import BundleError
from paceline.plan.cell import Cell
from paceline.store.records.events import MOST_RUBBISH, AnyEvent, Block, EventFile, event_paths
from paceline.store.records.samples import FILE as MONITOR_FILE
from paceline.store.records.samples import Sample, stream_samples

# Of one run: all of it is in memory when it is indexed, and a short line may become large there.
MOST_EVENTS = 250_000  # of all ranks: 16 of them have so many in 1,200 epochs
MOST_STEPS = 6_400_000  # of all ranks: 16 of them with 400,000 each
MOST_SAMPLES = 400_000  # two days, and some more
MOST_READINGS = 3_000_000  # of cores, ranks and GPUs in all samples: six hours on 64 cores


class EventCheck:
    """Counts what the ranks of a run have written."""

    def __init__(self, name: str, cell: Cell, *, ok: bool) -> None:
        self._name, self._cell, self._ok = name, cell, ok
        self._events = self._steps = 0

    def all_ranks(self, folder: Path) -> None:
        files = [EventFile(path) for path in event_paths(folder).values()]
        if len(files) > self._cell.device_set.count:
            ranks, devices = len(files), self._cell.devices
            raise BundleError(f"run {self._name} has events of {ranks} ranks, but {devices} has fewer devices")
        for file in files:
            self._rank(file)
        if self._ok and not files:
            raise BundleError(f"run {self._name} is ok, but has no events")

    def _rank(self, file: EventFile) -> None:
        trained = 0
        for event in file.stream():
            self._refuse_rubbish(file)
            self._count(event, file)
            trained += event.steps if isinstance(event, Block) and event.phase == "train" else 0
            if trained > self._cell.steps:
                raise BundleError(f"{self._of(file)} has more training than the {self._cell.steps:,} steps of its cell")
        self._refuse_rubbish(file)

    def _refuse_rubbish(self, file: EventFile) -> None:
        """A run may have failed because of it."""
        if self._ok and file.rubbish:
            raise BundleError(f"{self._of(file)} has a line that is no event: {file.rubbish[0][:60]!r}")
        if file.rubbish_count >= MOST_RUBBISH:
            raise BundleError(f"{self._of(file)} has {MOST_RUBBISH:,} lines that are no events, or one without an end")

    def _count(self, event: AnyEvent, file: EventFile) -> None:
        self._events += 1
        if self._events > MOST_EVENTS:
            raise BundleError(f"run {self._name} has more than {MOST_EVENTS:,} events")
        if not isinstance(event, Block):
            return
        if event.steps < 1:
            raise BundleError(f"{self._of(file)} has a block without a step")
        if max(len(event.losses), len(event.correct)) > event.steps:
            raise BundleError(f"{self._of(file)} has a block with more losses than steps")
        self._steps += event.steps
        if self._steps > MOST_STEPS:
            raise BundleError(f"run {self._name} has more than {MOST_STEPS:,} steps")

    def _of(self, file: EventFile) -> str:
        return f"{self._name}/{file.path.name}"


def check_samples(folder: Path) -> None:
    readings = 0
    for number, sample in enumerate(stream_samples(folder), 1):
        readings += _readings(sample)
        if number > MOST_SAMPLES or readings > MOST_READINGS:
            most = f"{MOST_SAMPLES:,} samples, or {MOST_READINGS:,} readings in them"
            raise BundleError(f"{folder.name}/{MONITOR_FILE} has more than {most}")


def _readings(sample: Sample) -> int:
    """A frequency is one number."""
    further = sum(len(values) for kind in (sample.counters, sample.gauges) for values in kind.values())
    return len(sample.ranks) + len(sample.gpus) + len(sample.cores) + further + len(sample.mhz) // 4
