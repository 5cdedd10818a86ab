"""How the devices agree: where weights, momentum and running statistics are, and a parameter server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from paceline_worker.frameworks.jax.builder import Arrays
from paceline_worker.protocol import Job
from paceline_worker.weights import Weights

AXIS = "devices"
EVERY, SHARD = PartitionSpec(), PartitionSpec(AXIS)  # the same on every device; a row, along a leading axis, for each


class State(NamedTuple):
    """What a step replaces; the old arrays give their memory to the new ones."""

    trained: Any
    velocity: Any
    running: Any


@dataclass(frozen=True)
class Update:
    """One way to agree, as the arrays show it."""

    mechanism: Optional[str]
    state: State  # of each part, EVERY or SHARD
    results: PartitionSpec  # of gradients and losses: EVERY if they are averaged where they are computed

    @property
    def independent(self) -> bool:
        return bool(self.state.trained == SHARD)

    def own(self, state: State) -> State:
        """This device's part, inside a program for all."""
        return State(*map(without_row, self.state, state))

    def stacked(self, state: State) -> State:
        """The opposite."""
        return State(*map(with_row, self.state, state))


def without_row(spec: PartitionSpec, arrays: Any) -> Any:
    return jax.tree.map(lambda array: array[0], arrays) if spec == SHARD else arrays


def with_row(spec: PartitionSpec, arrays: Any) -> Any:
    return jax.tree.map(lambda array: array[None], arrays) if spec == SHARD else arrays


def placed(spec: PartitionSpec, mesh: Mesh, arrays: Weights) -> Arrays:
    """On all devices of the mesh, from equal beginnings."""
    if spec == SHARD:
        arrays = {name: np.stack([value] * mesh.size) for name, value in arrays.items()}
    return jax.device_put(arrays, NamedSharding(mesh, spec))


ALONE = Update(None, State(EVERY, EVERY, SHARD), EVERY)
UPDATES: Dict[str, Update] = {
    "replicated": Update("shard_map with one pmean", State(EVERY, EVERY, SHARD), EVERY),
    "parameter_server": Update(
        "device_put of gradients, update on one device, device_put of weights", State(EVERY, EVERY, SHARD), SHARD
    ),
    "independent": Update(None, State(SHARD, SHARD, SHARD), SHARD),
}


def update_of(job: Job) -> Update:
    """One device alone has nothing to exchange."""
    return UPDATES[job.update] if job.exchanges else ALONE


class ParameterServer:
    """The only copy of the momentum and the master copy of the weights, on one device or in host memory.

    JAX has none; this one is made of copies between devices and of programs, and never waits for any of them. Gradients
    and weights travel as one long array each, since every array is a message to every device.
    """

    def __init__(self, home: Any, mesh: Mesh, shapes: Weights, updated: Callable[..., Tuple[Arrays, Arrays]]) -> None:
        self._home, self._every, self._updated = home, NamedSharding(mesh, EVERY), updated
        _, self._unpacked = ravel_pytree(shapes)
        self._update = jax.jit(self._take, donate_argnums=(1,))  # not the weights: they may still be on their way
        self._received = jax.jit(self._unpacked, out_shardings=self._every)

    def start(self, trained: Weights, velocity: Weights) -> Arrays:
        """Take these as the master copy; return the weights as all devices get them."""
        self._trained, self._velocity = jax.device_put((packed(trained), velocity), self._home)
        return self._sent()

    def set_learning_rate(self, rate: float) -> None:
        self._rate = jax.device_put(np.float32(rate), self._home)

    def step(self, gradients: jax.Array) -> Arrays:
        """From a row of gradients on each device to new weights on all."""
        rows = [shard.data for shard in gradients.addressable_shards]  # one by one: to put them as a whole would wait
        arrived = jax.device_put(rows, self._home)
        self._trained, self._velocity = self._update(self._trained, self._velocity, arrived, self._rate)
        return self._sent()

    def _take(self, trained: jax.Array, velocity: Arrays, rows: Any, rate: jax.Array) -> Tuple[jax.Array, Arrays]:
        mean = self._unpacked(sum(rows[1:], rows[0])[0] / len(rows))
        weights, velocity = self._updated(self._unpacked(trained), velocity, mean, rate)
        return packed(weights), velocity

    def _sent(self) -> Arrays:
        return self._received(jax.device_put(self._trained, self._every))


def packed(arrays: Any) -> jax.Array:
    """All in one long array."""
    return ravel_pytree(arrays)[0]
