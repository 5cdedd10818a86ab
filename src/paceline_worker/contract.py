"""What every framework offers. The loop relies on all of it; nothing is optional."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, Dict, List, Optional, Type, TypeVar

from paceline_worker.graph import Graph
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights

Batch = Any  # images and labels in whatever form the framework trains on
Item = TypeVar("Item")


class Backend(ABC):
    """One framework in one process. Creating it starts the framework; `build` puts a network on its devices."""

    @abstractmethod
    def __init__(self, job: Job, place: Place) -> None:
        """Start the framework, its threads and its exchange with other ranks; build nothing yet."""

    @abstractmethod
    def settings(self) -> Dict[str, Any]:
        """What the framework was told and what it is: versions, threads, layout. It goes into the record."""

    @abstractmethod
    def build(self, graph: Graph, weights: Weights) -> None:
        """Put the network with these weights on the devices, ready to train."""

    @abstractmethod
    def to_host(self, images: Array, labels: Array) -> Batch:
        """Turn NumPy arrays (float32, channels last; int64) into the framework's own host memory."""

    @abstractmethod
    def to_device(self, batch: Batch) -> Batch:
        """Bring a host batch to the devices; may return before it is there."""

    @abstractmethod
    def train_step(self, batch: Batch) -> None:
        """Take one optimiser step on a device batch; may return before the devices have done it.

        How the devices agree is the job's update. `replicated`: each has all weights and optimiser state, and gradients
        are averaged over all images by an all-reduce. `parameter_server`: one copy of the weights, with the only
        optimiser state, takes the mean of all gradients and sends its new weights to all devices. `independent`:
        nothing is exchanged, and each device trains weights of its own on its own images.
        """

    @abstractmethod
    def set_learning_rate(self, rate: float) -> None:
        """Take steps of this rate from now on; what momentum has gathered is a sum of gradients and stays as it is."""

    @abstractmethod
    def synchronize(self) -> None:
        """Return when the devices of this process are idle."""

    @abstractmethod
    def losses(self) -> List[float]:
        """Mean loss over this process's images for each step since the last call; waits for the devices."""

    @abstractmethod
    def correct(self) -> List[int]:
        """How many of this process's images each step since the last call got right; none unless the job counts."""

    @abstractmethod
    def agree(self, ready: bool) -> bool:
        """Meet the other ranks; true when all of them are ready."""

    @abstractmethod
    def merge_statistics(self) -> None:
        """Give every device the mean of all devices' running statistics; gradients never depend on them."""

    @abstractmethod
    def predict(self, batch: Batch) -> Array:
        """Logits of this process's images, with the running statistics of the device they are on; nothing changes."""

    @abstractmethod
    def outputs(self, batch: Batch) -> Weights:
        """What every layer gives for a device batch of this process in training, channels last; nothing changes."""

    @abstractmethod
    def gradients(self, batch: Batch) -> Weights:
        """Gradients of one device batch without weight decay, averaged over all images; no weight changes."""

    @abstractmethod
    def read_weights(self) -> Weights:
        """All arrays in the neutral layout; running statistics averaged over the devices of all ranks.

        If the devices are independent, those of this process's first device.
        """

    @abstractmethod
    def write_weights(self, weights: Weights) -> None:
        """Start afresh from these weights: momentum is zero and the learning rate is the recipe's again."""

    @abstractmethod
    def peak_memory_bytes(self) -> Optional[List[int]]:
        """The allocator's peak for each device of this process; None where the framework does not tell."""

    @abstractmethod
    def close(self) -> None:
        """Leave the other ranks and release the devices."""


class OneProcess(Backend):
    """What is plain where one process has all devices: there is nobody to meet, and it ends with the process."""

    def agree(self, ready: bool) -> bool:
        return ready

    def peak_memory_bytes(self) -> Optional[List[int]]:
        return None

    def close(self) -> None:
        """Nothing is held beyond this process."""


def taken(values: List[Item]) -> List[Item]:
    """All of them; none is left."""
    found = values[:]
    values.clear()
    return found


def load(framework: str) -> Type[Backend]:
    """Import the framework; only here, and only the one that is named."""
    module = import_module(f"paceline_worker.frameworks.{framework.replace('-', '_')}.backend")
    backend: Type[Backend] = module.FrameworkBackend
    return backend
