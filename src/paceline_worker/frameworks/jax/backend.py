"""JAX: one process for all devices, the batch sharded over them, and a whole step compiled as one program."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from paceline_worker.contract import Backend, Batch
from paceline_worker.frameworks.jax.builder import Arrays, Pass, forward
from paceline_worker.graph import Dropout, Graph
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights

AXIS = "devices"


class State(NamedTuple):
    """What a step replaces; the old arrays give their memory to the new ones."""

    trained: Arrays
    velocity: Arrays
    running: Arrays  # with a leading axis: one row for each device


class Fixed(NamedTuple):
    """What a step reads and leaves alone."""

    frozen: Arrays
    key: Any  # for dropout; None where nothing is random
    rate: jax.Array


EVERY, SHARD = PartitionSpec(), PartitionSpec(AXIS)


class FrameworkBackend(Backend):
    _state: State
    _frozen: Arrays
    _key: Any

    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        kind = place.devices[0].split(":")[0]
        if kind == "cpu":
            jax.config.update("jax_platforms", "cpu")
            jax.config.update("jax_num_cpu_devices", len(place.devices))
            # A device that waits for the others in an exchange holds a thread of XLA's pool, and the work that the
            # others still have to do may then find none: everything stands still. Training has one exchange in a step,
            # so a thread to spare is enough; where every layer is an output, each device needs one.
            spare = len(place.devices) if job.task == "probe" else 1
            os.environ["PJRT_NPROC"] = str(len(place.devices) * place.threads + spare)
            many = "true" if place.threads > 1 else "false"
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen={many}"
        jax.config.update("jax_default_matmul_precision", "highest")  # float32 means float32, also on tensor cores
        indices = [int(name.split(":")[1]) for name in place.devices]
        found = jax.devices(kind)
        self._devices = [found[index] for index in indices]
        self._mesh = jax.sharding.Mesh(np.array(self._devices), (AXIS,))
        self._dtype = jnp.dtype(job.precision)

    def settings(self) -> Dict[str, Any]:
        return {
            "versions": {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "numpy": np.__version__},
            "threads": self._place.threads,
            "layout": "NHWC",
            "xla_flags": os.environ.get("XLA_FLAGS", "").strip(),
            "devices": [str(device) for device in self._devices],
        }

    def build(self, graph: Graph, weights: Weights) -> None:
        self._graph, self._parameters = graph, graph.parameters()
        self._random = any(isinstance(node.op, Dropout) for node in graph.nodes.values())
        self._losses: List[jax.Array] = []
        self._correct: List[jax.Array] = []
        self.write_weights(weights)
        self._step = self._compiled(self._train, (State(EVERY, EVERY, SHARD), EVERY), donate=(0,))
        self._inspect = self._compiled(self._differentiate, (EVERY, SHARD, EVERY, SHARD))

    def _names(self, kind: str) -> List[str]:
        return [name for name, parameter in self._parameters.items() if parameter.kind == kind]

    @property
    def _count(self) -> int:
        return len(self._devices)

    def _compiled(self, function: Any, outputs: Any, donate: Tuple[int, ...] = ()) -> Any:
        """One program for all devices: each works on its shard of the batch, with running statistics of its own."""
        if self._count == 1:
            return jax.jit(function, donate_argnums=donate)
        inputs = (State(EVERY, EVERY, SHARD), EVERY, SHARD, SHARD)
        sharded = jax.shard_map(function, mesh=self._mesh, in_specs=inputs, out_specs=outputs, check_vma=False)
        return jax.jit(sharded, donate_argnums=donate)

    def _forward(self, trained: Arrays, state: State, fixed: Fixed, images: jax.Array) -> Tuple[Arrays, Arrays]:
        """What every layer of this device gives, and its running statistics after that."""
        running = {name: value[0] for name, value in state.running.items()}
        weights = {**trained, **running, **fixed.frozen}
        return forward(self._graph, weights, images, Pass(True, self._dtype, fixed.key))

    def _differentiate(
        self, state: State, fixed: Fixed, images: jax.Array, labels: jax.Array
    ) -> Tuple[Arrays, Arrays, Tuple[jax.Array, ...], Arrays]:
        """Gradients and results, averaged over the devices; running statistics and layer outputs of this device.

        Results are the loss and, where they are counted, the images that were right.
        """

        def loss_of(trained: Arrays) -> Tuple[jax.Array, Tuple[Arrays, Arrays]]:
            values, running = self._forward(trained, state, fixed, images)
            terms = [weight * cross_entropy(values[name], labels).mean() for name, weight in self._graph.losses.items()]
            return sum(terms[1:], terms[0]), (values, running)

        (loss, (values, running)), gradient = jax.value_and_grad(loss_of, has_aux=True)(state.trained)
        results = (loss, self._correct_share(values, labels)) if self._job.count_correct else (loss,)
        if self._count > 1:  # all in one: XLA makes it a single exchange, and two may wait for each other for ever
            gradient, results = jax.lax.pmean((gradient, results), AXIS)
        return gradient, {name: value[None] for name, value in running.items()}, results, values

    def _train(
        self, state: State, fixed: Fixed, images: jax.Array, labels: jax.Array
    ) -> Tuple[State, Tuple[jax.Array, ...]]:
        """One optimiser step; XLA leaves out the layer outputs, which nobody reads here."""
        gradient, running, results, _ = self._differentiate(state, fixed, images, labels)
        recipe, velocity = self._job.recipe, state.velocity
        for name, weight in state.trained.items():
            if recipe.weight_decay and self._parameters[name].role in recipe.decayed:
                gradient[name] = gradient[name] + recipe.weight_decay * weight
        if recipe.momentum:
            velocity = jax.tree.map(lambda v, g: recipe.momentum * v + g, velocity, gradient)
            ahead = jax.tree.map(lambda v, g: recipe.momentum * v + g, velocity, gradient)
            gradient = ahead if recipe.nesterov else velocity
        trained = jax.tree.map(lambda w, g: w - fixed.rate * g, state.trained, gradient)
        return State(trained, velocity, running), results

    def _correct_share(self, values: Arrays, labels: jax.Array) -> jax.Array:
        """Times the number of devices: their mean is the sum."""
        correct = (values[self._graph.prediction].argmax(-1) == labels).sum()
        return self._count * correct.astype(jnp.float32)

    def to_host(self, images: Array, labels: Array) -> Batch:
        host = jax.devices("cpu")[0]
        return jax.device_put((images, labels.astype(np.int32)), host)

    def to_device(self, batch: Batch) -> Batch:
        return jax.device_put(batch, NamedSharding(self._mesh, SHARD))

    def train_step(self, batch: Batch) -> None:
        self._state, (loss, *correct) = self._step(self._state, self._fixed(), *batch)
        self._losses.append(loss)
        self._correct += correct

    def _fixed(self) -> Fixed:
        if not self._random:
            return Fixed(self._frozen, None, self._rate)
        self._key, key = jax.random.split(self._key)
        return Fixed(self._frozen, key, self._rate)

    def set_learning_rate(self, rate: float) -> None:
        self._rate = jax.device_put(np.float32(rate), NamedSharding(self._mesh, EVERY))

    def synchronize(self) -> None:
        jax.block_until_ready((self._state, self._losses))

    def losses(self) -> List[float]:
        losses, self._losses = self._losses, []
        return [float(loss) for loss in losses]

    def correct(self) -> List[int]:
        correct, self._correct = self._correct, []
        return [round(float(count)) for count in correct]

    def agree(self, ready: bool) -> bool:
        return ready

    def merge_statistics(self) -> None:
        means = {name: np.array(value).mean(0) for name, value in self._state.running.items()}
        self._state = self._state._replace(running=self._for_each_device(means))

    def predict(self, batch: Batch) -> Array:
        running = {name: value[0] for name, value in self._state.running.items()}
        weights = {**self._state.trained, **running, **self._frozen}
        return np.array(prediction(self._graph, self._dtype, weights, batch[0]), dtype=np.float32)

    def outputs(self, batch: Batch) -> Weights:
        _, _, _, values = self._inspect(self._state, self._fixed(), *batch)
        return {name: np.array(value, dtype=np.float32) for name, value in values.items()}

    def gradients(self, batch: Batch) -> Weights:
        gradients, *_ = self._inspect(self._state, self._fixed(), *batch)
        return {name: np.array(value) for name, value in gradients.items()}

    def _arrays(self) -> Arrays:
        """Everything, with running statistics averaged over the devices."""
        running = {name: value.mean(0) for name, value in self._state.running.items()}
        return {**self._state.trained, **running, **self._frozen}

    def read_weights(self) -> Weights:
        arrays = self._arrays()
        return {name: np.array(arrays[name]) for name in self._parameters}

    def write_weights(self, weights: Weights) -> None:
        every = NamedSharding(self._mesh, EVERY)
        trained = {name: weights[name] for name in self._names("trainable")}
        velocity = {name: np.zeros_like(value) for name, value in trained.items() if self._job.recipe.momentum}
        running = self._for_each_device({name: weights[name] for name in self._names("running")})
        self._state = State(jax.device_put(trained, every), jax.device_put(velocity, every), running)
        self._frozen = jax.device_put({name: weights[name] for name in self._names("frozen")}, every)
        self._key = jax.random.key(self._job.seed)
        self.set_learning_rate(self._job.recipe.learning_rate)

    def _for_each_device(self, arrays: Weights) -> Arrays:
        rows = {name: np.stack([value] * self._count) for name, value in arrays.items()}
        return jax.device_put(rows, NamedSharding(self._mesh, SHARD))

    def peak_memory_bytes(self) -> Optional[List[int]]:
        known = [device.memory_stats() for device in self._devices]
        return [stats["peak_bytes_in_use"] for stats in known] if all(known) else None

    def close(self) -> None:
        jax.clear_caches()


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Loss of each image."""
    logits = logits.astype(jnp.float32)
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]


@partial(jax.jit, static_argnums=(0, 1))
def prediction(graph: Graph, dtype: Any, weights: Arrays, images: jax.Array) -> jax.Array:
    """Logits with the running statistics."""
    outputs, _ = forward(graph, weights, images, Pass(False, dtype, None))
    return outputs[graph.prediction]
