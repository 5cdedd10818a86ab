"""How the devices agree: an optimiser for each of them, or one in a key-value store that has the weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, List, Optional

import mxnet as mx

from paceline_worker.protocol import Job

Lists = List[List[Any]]  # of each weight, an NDArray on every device
STORES = {"cpu": "local", "device": "device"}  # MXNet's names: where gradients are added up and weights are changed


class Nesterov(mx.optimizer.NAG):
    """MXNet's own changes a weight in place and then takes that, not the weight before, into the velocity's decay."""

    def _update_impl(self, index: int, weight: Any, grad: Any, state: Any, multi_precision: bool = False) -> None:
        self._update_count(index)
        settings = {"momentum": self.momentum, "rescale_grad": self.rescale_grad}
        changed = mx.nd.nag_mom_update(weight, grad, state, lr=self.lr, wd=self._get_wd(index), **settings)
        changed.copyto(weight)


def mechanism(job: Job) -> Optional[str]:
    """In words, for the record."""
    found = {
        "replicated": "kvstore device adds gradients up, an optimiser on each device",
        "parameter_server": f"kvstore {STORES[job.parameter_device]} with the optimiser in it",
    }
    return found.get(job.update) if job.exchanges else None


class Exchange(ABC):
    """The optimiser's part of a step; a new one starts with no momentum."""

    def __init__(self, optimizer: Any, gradients: Lists, weights: Lists) -> None:
        self._optimizer, self._gradients, self._weights = optimizer, gradients, weights
        self._keys = list(range(len(weights)))
        self._updaters: List[Any] = []  # each has momentum of its own

    @abstractmethod
    def update(self) -> None:
        """Change the weights on all devices by the gradients that are there."""

    def set_learning_rate(self, rate: float) -> None:
        if rate == self._optimizer.learning_rate:
            return
        for updater in self._updaters:
            for velocity in updater.states.values():
                if velocity is not None:  # as it is without momentum
                    velocity[:] = velocity * (rate / self._optimizer.learning_rate)  # MXNet's is a sum of steps
        self._optimizer.set_learning_rate(rate)

    def _new_store(self, kind: str) -> Any:
        store = mx.kv.create(kind)
        store.init(self._keys, [own[0] for own in self._weights])
        return store


class Independent(Exchange):
    """Each device changes its weights by its own gradients; on one device, this is plain training."""

    def __init__(self, optimizer: Any, gradients: Lists, weights: Lists) -> None:
        super().__init__(optimizer, gradients, weights)
        self._updaters = [mx.optimizer.get_updater(optimizer) for _ in weights[0]]
        self._of_devices = [(list(own), list(changed)) for own, changed in zip(zip(*gradients), zip(*weights))]

    def update(self) -> None:
        for updater, (gradients, weights) in zip(self._updaters, self._of_devices):
            updater(self._keys, gradients, weights)


class Replicated(Independent):
    """The store puts the sum of all gradients in the place of each device's own."""

    def __init__(self, optimizer: Any, gradients: Lists, weights: Lists) -> None:
        super().__init__(optimizer, gradients, weights)
        self._store = self._new_store("device")

    def update(self) -> None:
        self._store.push(self._keys, self._gradients)
        self._store.pull(self._keys, self._gradients)
        super().update()


class ParameterServer(Exchange):
    """The store adds gradients up, changes its weights once and gives them to all devices.

    On GPUs, `device` keeps each weight once too, but divides them among the devices by their sizes.
    """

    def __init__(self, optimizer: Any, gradients: Lists, weights: Lists, place: str) -> None:
        super().__init__(optimizer, gradients, weights)
        self._updaters = [mx.optimizer.get_updater(optimizer)]
        self._store = self._new_store(STORES[place])
        self._store._set_updater(self._updaters[0])  # as `set_optimizer` does, but ours: its velocity is rescaled

    def update(self) -> None:
        self._store.push(self._keys, self._gradients)
        self._store.pull(self._keys, self._weights)


def new_exchange(job: Job, optimizer: Any, gradients: Lists, weights: Lists) -> Exchange:
    """By the job's update; one device has nobody to agree with."""
    if not job.exchanges or job.update == "independent":
        return Independent(optimizer, gradients, weights)
    if job.update == "parameter_server":
        return ParameterServer(optimizer, gradients, weights, job.parameter_device)
    return Replicated(optimizer, gradients, weights)
