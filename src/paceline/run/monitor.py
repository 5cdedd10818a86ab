"""Lets the samplers look at a run, and keeps what they see in its folder."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from paceline.run.samplers import PERIOD_SECONDS, Sampler, Watched, useful_samplers
from paceline.store.records.samples import FILE
from paceline.system.machine.gpus import WatchedGpus


class Monitor:
    """Writes one line per period into the run's folder; the first, before any process starts, is the idle machine."""

    def __init__(self, folder: Path, gpus: Iterable[int] = ()) -> None:
        self._path = folder / FILE
        self._due = 0.0
        self._due_of: dict[Sampler, float] = defaultdict(float)
        self.cards = WatchedGpus(gpus)

    def sample(self, pids: Mapping[int, int], *, now: bool = False) -> None:
        """Look at these ranks' processes, if a period has passed since the last look or it is wanted now."""
        moment = time.monotonic()
        if moment < self._due and not now:
            return
        self._due = moment + PERIOD_SECONDS
        sample = self._look(Watched(self.cards, pids), moment, now=now)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(sample) + b"\n")

    def _look(self, watched: Watched, moment: float, *, now: bool) -> dict[str, object]:
        sample: dict[str, object] = {"time": time.time()}
        further: dict[str, dict[str, list[float | None]]] = defaultdict(dict)
        for sampler in useful_samplers():
            if moment < self._due_of[sampler] and not now:
                continue
            self._due_of[sampler] = moment + sampler.period - PERIOD_SECONDS / 2  # looks come a little late
            sample |= sampler.fields(watched)
            if values := list(sampler.read(watched)):
                further[f"{sampler.kind}s"][sampler.name] = values
        return sample | further
