"""What MXNet and the Keras on it have in common: devices of one process, and arrays read when its engine is done."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Dict, List

import mxnet as mx
import numpy as np

from paceline_worker.contract import OneProcess
from paceline_worker.graph import Graph
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Layout, Weights

CONTEXTS = {"cpu": mx.cpu, "cuda": mx.gpu}
Arrays = Dict[str, Any]  # NDArrays of one device


class MxnetBackend(OneProcess):
    layout: ClassVar[Layout]
    unbiased: bool  # the running variance that MXNet keeps
    _first: List[Weights]  # of each device, what its running statistics start from
    _steps: int  # taken since then

    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        names = [name.split(":") for name in place.devices]
        self._contexts = [CONTEXTS[kind](int(index)) for kind, index in names]
        everyone = list(range(len(names)))  # devices of a group train the same weights
        self._groups = [[device] for device in everyone] if job.update == "independent" else [everyone]
        mx.random.seed(job.seed)  # for dropout; the weights come from outside
        for context in self._contexts:
            mx.nd.zeros((1,), context).wait_to_read()  # starts the device's threads

    def _describe(self, graph: Graph) -> None:
        self._graph, self._parameters = graph, graph.parameters()
        self._trained, self._running = graph.names("trainable"), graph.names("running")

    @abstractmethod
    def _array(self, name: str, device: int) -> Any:
        """A device's own, in MXNet's order of axes."""

    def synchronize(self) -> None:
        mx.nd.waitall()

    def _settle(self) -> None:
        """Wait, before running statistics are touched: they change in a backward pass, and the engine does not know."""
        mx.nd.waitall()

    def merge_statistics(self) -> None:
        means = [self._averaged(self._running, group) for group in self._groups]
        self._first = [mean for group, mean in zip(self._groups, means) for _ in group]
        self._steps = 0
        self._put([{name: mx.nd.array(array) for name, array in own.items()} for own in self._first])

    def _kept(self) -> List[Arrays]:
        """Running statistics of each device as they are: a pass in training moves them."""
        self._settle()
        devices = range(len(self._contexts))
        return [{name: self._array(name, device).copy() for name in self._running} for device in devices]

    def _put(self, arrays: List[Arrays]) -> None:
        """By a copy inside MXNet: NumPy cannot write to an array that oneDNN has brought into its own layout."""
        self._settle()
        for device, own in enumerate(arrays):
            for name, array in own.items():
                array.copyto(self._array(name, device))

    def _native(self, weights: Weights) -> Arrays:
        roles = {name: self._parameters[name].role for name in weights}
        return {name: mx.nd.array(self.layout.from_neutral(roles[name], array)) for name, array in weights.items()}

    def _mean(self, name: str, arrays: List[Array]) -> Array:
        return self.layout.to_neutral(self._parameters[name].role, np.mean(arrays, axis=0))

    def read_weights(self) -> Weights:
        return self._averaged(list(self._parameters), self._groups[0])

    def _averaged(self, names: List[str], group: List[int]) -> Weights:
        self._settle()
        return {name: self._mean(name, [self._read(name, device) for device in group]) for name in names}

    def _read(self, name: str, device: int) -> Array:
        """One device's array; its running variance is as biased as the graph wants it."""
        array = self._array(name, device).asnumpy()
        layer = self._graph.nodes[name.rpartition(".")[0]]
        if self._parameters[name].role != "variance" or layer.op.unbiased_running_variance == self.unbiased:
            return array
        count = self._place.shares[device] * int(np.prod(layer.shape[:-1]))
        factor = (count - 1) / count if self.unbiased else count / (count - 1)
        start = self._first[device][name] * layer.op.decay**self._steps
        return start + factor * (array - start)

    def close(self) -> None:
        mx.nd.waitall()
