"""Where this process stands among the ranks, and which devices, cores and images are its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Mapping, Tuple

from paceline_worker.protocol import Job


@dataclass(frozen=True)
class Place:
    """One process of a run: alone with all devices, or one of several with one device each."""

    rank: int
    size: int
    devices: Tuple[str, ...]
    cores: Tuple[int, ...]
    threads: int  # for the work of one device
    shares: Tuple[int, ...]  # images of a step on each of its devices
    first_image: int  # where its part of the whole batch begins

    @property
    def local_batch_size(self) -> int:
        return sum(self.shares)

    @property
    def images(self) -> slice:
        """This process's part of the whole batch."""
        return slice(self.first_image, self.first_image + self.local_batch_size)


def find_place(job: Job, environment: Mapping[str, str]) -> Place:
    """Read the rank as every launcher gives it: RANK and WORLD_SIZE."""
    rank, size = int(environment.get("RANK", "0")), int(environment.get("WORLD_SIZE", "1"))
    mine = slice(rank, rank + 1) if size > 1 else slice(None)
    return Place(
        rank=rank,
        size=size,
        devices=job.devices[mine],
        cores=tuple(sorted({core for cores in job.cores[mine] for core in cores})),
        threads=len(job.cores[rank]),
        shares=job.shares[mine],
        first_image=sum(job.shares[:rank]),
    )


def bind(place: Place) -> None:
    """Keep this process, and the threads it will start, on its own cores (where the system can)."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, place.cores)
