"""How ranks agree: all that lies between a rank's own gradients and its next weights. It is Paceline's, not neon's."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Type

import numpy as np

from paceline_worker.frameworks.neon.peers import Peers
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Weights

Optimize = Callable[[], None]
LayOut = Callable[[bool], Any]  # all gradients of a network, or all its weights, as one long tensor


class Exchange:
    """None at all: a rank steps its own weights by its own gradients, as one device alone does."""

    mechanism: Optional[str] = None

    def __init__(self, job: Job, place: Place, peers: Peers) -> None:
        self._peers = peers
        self.images = place.local_batch_size  # that a gradient is the sum over when it reaches the optimiser

    def prepare(self, lay_out: LayOut) -> None:
        """Before anything holds on to the layers' arrays."""

    def step(self, optimize: Optimize) -> None:
        optimize()

    def add_up_gradients(self) -> None:
        """Only to look at them."""

    def averaged(self, arrays: Weights) -> Weights:
        """The ranks' mean, where they train one network."""
        return arrays


class Replicated(Exchange):
    """Every rank takes the same step: the gradients, sums over its images, are added up to those over all images.

    They lie in one long tensor, which is one message. It goes through host memory, also from and to GPUs.
    """

    mechanism: Optional[str] = "Paceline's ring all-reduce"

    def __init__(self, job: Job, place: Place, peers: Peers) -> None:
        super().__init__(job, place, peers)
        self.images = job.batch_size

    def prepare(self, lay_out: LayOut) -> None:
        self._gradients = lay_out(True)

    def step(self, optimize: Optimize) -> None:
        self.add_up_gradients()
        optimize()

    def add_up_gradients(self) -> None:
        sums = self._gradients.get()
        self._peers.add_up(sums.reshape(-1))
        self._gradients.set(sums)

    def averaged(self, arrays: Weights) -> Weights:
        if not arrays:
            return arrays
        sums = np.concatenate([np.ravel(array) for array in arrays.values()])
        self._peers.add_up(sums)
        ends = np.cumsum([array.size for array in arrays.values()])
        means = np.split(sums / self._peers.size, ends[:-1])
        return {name: mean.reshape(array.shape) for (name, array), mean in zip(arrays.items(), means)}


class ParameterServer(Replicated):
    """Rank 0 alone has velocities: gradients are added up there, it takes the step and sends its weights to all."""

    mechanism = "Paceline's: sum at rank 0, optimiser there, weights sent to all"

    def prepare(self, lay_out: LayOut) -> None:
        super().prepare(lay_out)
        self._weights = lay_out(False)

    def step(self, optimize: Optimize) -> None:
        first, sums = self._peers.rank == 0, self._gradients.get()
        self._peers.add_up_at_first(sums.reshape(-1))
        if first:
            self._gradients.set(sums)
            optimize()
        weights = self._weights.get()
        self._peers.copy_from_first(weights.reshape(-1))
        if not first:
            self._weights.set(weights)


EXCHANGES: Dict[str, Type[Exchange]] = {
    "replicated": Replicated,
    "parameter_server": ParameterServer,
    "independent": Exchange,
}


def exchange_of(job: Job) -> Type[Exchange]:
    """One device alone has nothing to exchange."""
    return EXCHANGES[job.update] if job.exchanges else Exchange
