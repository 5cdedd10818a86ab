"""JAX: one process for all devices, the batch sharded over them, and a whole step compiled as one program."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Dict, List, Optional, Tuple

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding, PartitionSpec

from paceline_worker.contract import Backend, Batch, Evaluation
from paceline_worker.frameworks.jax.builder import Arrays, Pass, forward
from paceline_worker.graph import Dropout, Graph
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights

AXIS = "devices"


class FrameworkBackend(Backend):
    _trained: Arrays
    _frozen: Arrays
    _running: Arrays  # with a leading axis: one row for each device
    _velocity: Arrays
    _key: Any

    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        kind = place.devices[0].split(":")[0]
        if kind == "cpu":
            jax.config.update("jax_platforms", "cpu")
            jax.config.update("jax_num_cpu_devices", len(place.devices))
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
        self.write_weights(weights)
        self._step = self._compiled(self._train, donate=(0, 1, 2))
        self._gradients = self._compiled(self._differentiate, donate=())

    def _sharding(self, *axes: Optional[str]) -> NamedSharding:
        return NamedSharding(self._mesh, PartitionSpec(*axes))

    def _names(self, kind: str) -> List[str]:
        return [name for name, parameter in self._parameters.items() if parameter.kind == kind]

    @property
    def _count(self) -> int:
        return len(self._devices)

    def _compiled(self, function: Any, donate: Tuple[int, ...]) -> Any:
        """One program for all devices: each works on its shard of the batch, with running statistics of its own."""
        if self._count == 1:
            return jax.jit(function, donate_argnums=donate)
        every, shard = PartitionSpec(), PartitionSpec(AXIS)
        specs = (every, every, shard, every, shard, shard)
        sharded = jax.shard_map(
            function, mesh=self._mesh, in_specs=specs, out_specs=(every, every, shard, every), check_vma=False
        )
        return jax.jit(sharded, donate_argnums=donate)

    def _loss(self, trained: Arrays, rest: Arrays, images: jax.Array, labels: jax.Array, key: Any) -> Any:
        weights = {**rest, **trained}
        outputs, running = forward(self._graph, weights, images, Pass(True, self._dtype, key))
        terms = [weight * jnp.mean(cross_entropy(outputs[name], labels)) for name, weight in self._graph.losses.items()]
        return sum(terms[1:], terms[0]), running

    def _differentiate(
        self,
        trained: Arrays,
        velocity: Arrays,
        running: Arrays,
        fixed: Dict[str, Any],
        images: jax.Array,
        labels: jax.Array,
    ) -> Tuple[Arrays, Arrays, Arrays, jax.Array]:
        """Gradients and loss, averaged over the devices; running statistics of this device."""
        mine = {name: value[0] for name, value in running.items()}
        key = fixed.get("key")
        loss_and_gradient = jax.value_and_grad(self._loss, has_aux=True)
        (loss, after), gradient = loss_and_gradient(trained, {**mine, **fixed["frozen"]}, images, labels, key)
        if self._count > 1:
            flat, restore = ravel_pytree((gradient, loss))  # one exchange for all instead of one for each array
            gradient, loss = restore(jax.lax.pmean(flat, AXIS))
        return gradient, velocity, {name: value[None] for name, value in after.items()}, loss

    def _train(
        self,
        trained: Arrays,
        velocity: Arrays,
        running: Arrays,
        fixed: Dict[str, Any],
        images: jax.Array,
        labels: jax.Array,
    ) -> Tuple[Arrays, Arrays, Arrays, jax.Array]:
        """One optimiser step."""
        gradient, _, running, loss = self._differentiate(trained, velocity, running, fixed, images, labels)
        recipe = self._job.recipe
        for name, weight in trained.items():
            if recipe.weight_decay and self._parameters[name].role in recipe.decayed:
                gradient[name] = gradient[name] + recipe.weight_decay * weight
        if recipe.momentum:
            gradient = velocity = jax.tree.map(lambda v, g: recipe.momentum * v + g, velocity, gradient)
        trained = jax.tree.map(lambda w, g: w - recipe.learning_rate * g, trained, gradient)
        return trained, velocity, running, loss

    def to_host(self, images: Array, labels: Array) -> Batch:
        host = jax.devices("cpu")[0]
        return jax.device_put((images, labels.astype(np.int32)), host)

    def to_device(self, batch: Batch) -> Batch:
        return jax.device_put(batch, self._sharding(AXIS))

    def train_step(self, batch: Batch) -> None:
        self._trained, self._velocity, self._running, loss = self._step(
            self._trained, self._velocity, self._running, self._fixed(), *batch
        )
        self._losses.append(loss)

    def _fixed(self) -> Dict[str, Any]:
        """What a step reads and does not change."""
        if not self._random:
            return {"frozen": self._frozen}
        self._key, key = jax.random.split(self._key)
        return {"frozen": self._frozen, "key": key}

    def synchronize(self) -> None:
        jax.block_until_ready((self._trained, self._losses))

    def losses(self) -> List[float]:
        losses, self._losses = self._losses, []
        return [float(loss) for loss in losses]

    def agree(self, ready: bool) -> bool:
        return ready

    def evaluate(self, batch: Batch) -> Evaluation:
        running = {name: value.mean(0) for name, value in self._running.items()}
        weights = {**self._trained, **running, **self._frozen}
        loss, correct = judge(self._graph, self._dtype, weights, *batch)
        return Evaluation(len(batch[1]), float(loss), int(correct))

    def gradients(self, batch: Batch) -> Weights:
        arguments = self._trained, self._velocity, self._running, self._fixed()
        gradients, *_ = self._gradients(*arguments, *batch)
        return {name: np.array(value) for name, value in gradients.items()}

    def read_weights(self) -> Weights:
        running = {name: value.mean(0) for name, value in self._running.items()}
        arrays = {**self._trained, **running, **self._frozen}
        return {name: np.array(arrays[name]) for name in self._parameters}

    def write_weights(self, weights: Weights) -> None:
        every, shard = self._sharding(), self._sharding(AXIS)
        self._trained = jax.device_put({name: weights[name] for name in self._names("trainable")}, every)
        self._frozen = jax.device_put({name: weights[name] for name in self._names("frozen")}, every)
        running = {name: np.stack([weights[name]] * self._count) for name in self._names("running")}
        self._running = jax.device_put(running, shard)
        momentum = self._trained if self._job.recipe.momentum else {}
        self._velocity = jax.device_put(
            {name: np.zeros(value.shape, np.float32) for name, value in momentum.items()}, every
        )
        self._key = jax.random.key(self._job.seed)

    def peak_memory_bytes(self) -> Optional[List[int]]:
        known = [device.memory_stats() for device in self._devices]
        return [stats["peak_bytes_in_use"] for stats in known] if all(known) else None

    def close(self) -> None:
        jax.clear_caches()


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Loss of each image."""
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]


@partial(jax.jit, static_argnums=(0, 1))
def judge(
    graph: Graph, dtype: Any, weights: Arrays, images: jax.Array, labels: jax.Array
) -> Tuple[jax.Array, jax.Array]:
    """Summed loss and number of right predictions with the running statistics."""
    outputs, _ = forward(graph, weights, images, Pass(False, dtype, None))
    logits = outputs[graph.prediction]
    return cross_entropy(logits, labels).sum(), (logits.argmax(-1) == labels).sum()
