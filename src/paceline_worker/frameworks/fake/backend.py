"""A framework that only sleeps: every step takes a known time, and each mode misbehaves in one known way."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from paceline_worker.contract import Backend, Batch, taken
from paceline_worker.frameworks.fake.builder import FakeNetwork
from paceline_worker.frameworks.fake.holding import HOLDINGS, Holding
from paceline_worker.graph import Graph
from paceline_worker.place import Place
from paceline_worker.protocol import Job, event_file
from paceline_worker.weights import Array, Weights

SECONDS_PER_IMAGE = 0.0001
DELAY_SECONDS = 0.005  # what a slow input, exchange or neighbour adds to each step
FOREVER = 3600.0


class FrameworkBackend(Backend):
    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        self._holding = HOLDINGS.get(job.mode, Holding)(place)
        self._queued = 0
        self._losses: List[float] = []
        self._correct: List[int] = []

    def settings(self) -> Dict[str, Any]:
        return {"versions": {"fake": "1"}, "threads": self._place.threads}

    def build(self, graph: Graph, weights: Weights) -> None:
        self._network = FakeNetwork(graph, weights)
        self._holding.fill()

    def to_host(self, images: Array, labels: Array) -> Batch:
        self._delay("input")
        return images, labels

    def to_device(self, batch: Batch) -> Batch:
        return batch

    def train_step(self, batch: Batch) -> None:
        self._queued += 1
        self._losses.append(1.0 / (1 + len(self._losses)))
        if self._job.count_correct:
            self._correct.append(int((batch[1] % 2 == 0).sum()))

    def set_learning_rate(self, rate: float) -> None:
        pass

    def synchronize(self) -> None:
        """Take the time of all queued steps here, as a device that works behind the program's back would."""
        queued, self._queued = self._queued, 0
        slower = self._job.slow[self._place.rank] if self._job.slow else 1.0  # a brake cannot slow down a sleep
        time.sleep(queued * SECONDS_PER_IMAGE * max(self._place.shares) * slower)
        self._delay("exchange", queued * (self._job.exchanges and self._job.update != "independent"))
        self._delay("contention", queued * (len(self._job.devices) > 1))
        if queued > 1:  # not in the first step, so that the fault falls into a later phase
            FAULTS[self._job.mode](self._place)

    def _delay(self, mode: str, steps: int = 1) -> None:
        """In this mode, take longer."""
        if self._job.mode == mode:
            time.sleep(steps * DELAY_SECONDS)

    def losses(self) -> List[float]:
        return taken(self._losses)

    def correct(self) -> List[int]:
        return taken(self._correct)

    def agree(self, ready: bool) -> bool:
        return ready

    def merge_statistics(self) -> None:
        pass

    def predict(self, batch: Batch) -> Array:
        """Sure of the right class for every image with an even label, and of the next class for the others."""
        labels = batch[1]
        return 10.0 * np.eye(self._job.classes)[(labels + labels % 2) % self._job.classes]

    def outputs(self, batch: Batch) -> Weights:
        nodes = self._network.graph.nodes.values()
        return {node.name: np.zeros((len(batch[1]), *node.shape)) for node in nodes}

    def gradients(self, batch: Batch) -> Weights:
        return {name: np.zeros_like(value) for name, value in self._network.weights.items()}

    def read_weights(self) -> Weights:
        return self._network.weights

    def write_weights(self, weights: Weights) -> None:
        self._network.weights = weights

    def peak_memory_bytes(self) -> Optional[List[int]]:
        return None

    def close(self) -> None:
        self._holding.release()


def no_fault(place: Place) -> None:
    pass


def fail(place: Place) -> None:
    raise RuntimeError("the fake framework was told to fail")


def kill(place: Place) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang(place: Place) -> None:
    time.sleep(FOREVER)


def fill_memory(place: Place) -> None:
    """Take memory until the system says no."""
    held = []
    while True:
        held.append(np.ones(2**24))


def leave(place: Place) -> None:
    """End well, as it seems, but without having finished."""
    os._exit(0)


def babble(place: Place) -> None:
    """Write what is no event into the event file."""
    from pathlib import Path

    with event_file(Path(sys.argv[1]), place.rank).open("ab") as events:
        events.write(b"\xff\xfe not an event\n")


def shout(place: Place) -> None:
    """Print rubbish, as frameworks do; harmless."""
    sys.stdout.buffer.write(bytes(range(256)) * 4096)


def lose_rank(place: Place) -> None:
    """The last rank dies, the others wait for it."""
    (kill if place.rank == place.size - 1 else hang)(place)


def stop_rank(place: Place) -> None:
    """The last rank is stopped, the others wait for it."""
    if place.rank == place.size - 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    hang(place)


FAULTS: Dict[str, Callable[[Place], None]] = {
    **dict.fromkeys(("", "hold", "share", "input", "exchange", "contention"), no_fault),
    "fail": fail,
    "kill": kill,
    "hang": hang,
    "memory": fill_memory,
    "leave": leave,
    "babble": babble,
    "shout": shout,
    "lose": lose_rank,
    "stop": stop_rank,
}
