"""Samples as the monitor would have taken them."""

from __future__ import annotations

import msgspec

from paceline.store.records.samples import ProcessUsage, Sample


def sample(time: float, *cores: tuple[float, float], used: float = 0.0, **facts: object) -> Sample:
    """The counters of the cores at a time, and how much of it one rank's process has used."""
    rank = ProcessUsage(resident_bytes=0, processor_seconds=used)
    made = Sample(time=time, load=0.5, ranks={0: rank}, gpus=[], cores=list(cores))
    return msgspec.structs.replace(made, **facts)
