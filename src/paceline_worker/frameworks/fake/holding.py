"""Memory of a known size, so that its measurement can be judged: a process's own, or one file that all ranks map."""

from __future__ import annotations

import mmap
import sys
import time
from pathlib import Path
from typing import Dict, Type

import numpy as np

from paceline_worker.place import Place

BYTES = 200 * 10**6
PAGE_BYTES = 4096


class Holding:
    """Nothing beyond what any process holds."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def fill(self) -> None:
        pass

    def release(self) -> None:
        pass


class Own(Holding):
    def fill(self) -> None:
        self._pages = np.ones(BYTES, dtype=np.uint8)


class Shared(Holding):
    """The first bytes are where the ranks meet: they start, fill and leave together, as real ones do."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        path = Path(sys.argv[1]) / "shared"
        with path.open("a+b") as file:
            file.truncate(BYTES)  # no change if another rank came first
            self._pages = mmap.mmap(file.fileno(), BYTES)
        self._meet(1)
        if place.rank == 0:
            path.unlink()  # all have it now, and it ends with them

    def fill(self) -> None:
        np.frombuffer(self._pages, dtype=np.uint8)[PAGE_BYTES::PAGE_BYTES] = 1
        self._meet(2)

    def release(self) -> None:
        self._meet(3)

    def _meet(self, stage: int) -> None:
        self._pages[self._place.rank] = stage
        while min(self._pages[: self._place.size]) < stage:
            time.sleep(0.01)


HOLDINGS: Dict[str, Type[Holding]] = {"hold": Own, "share": Shared}
