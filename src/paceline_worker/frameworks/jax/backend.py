"""JAX: one process for all devices, the batch sharded over them, and a whole step compiled as one program."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax.sharding import NamedSharding

from paceline_worker.contract import Batch, OneProcess, taken
from paceline_worker.frameworks.jax import exchange
from paceline_worker.frameworks.jax.builder import Arrays, Pass, forward
from paceline_worker.graph import Dropout, Graph
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights


class Fixed(NamedTuple):
    """What a step reads and leaves alone."""

    frozen: Arrays
    key: Any  # for dropout; None where nothing is random
    rate: jax.Array


Results = Tuple[jax.Array, ...]  # the loss and, where they are counted, the images that were right


class FrameworkBackend(OneProcess):
    _state: exchange.State
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
            spare = len(place.devices) if job.task != "train" else 1
            os.environ["PJRT_NPROC"] = str(len(place.devices) * place.threads + spare)
            many = "true" if place.threads > 1 else "false"
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen={many}"
        jax.config.update("jax_default_matmul_precision", "highest")  # float32 means float32, also on tensor cores
        indices = [int(name.split(":")[1]) for name in place.devices]
        found = jax.devices(kind)
        self._devices = [found[index] for index in indices]
        self._mesh = jax.sharding.Mesh(np.array(self._devices), (exchange.AXIS,))
        self._dtype = jnp.dtype(job.precision)
        self._rounded = job.task != "train"
        self._update = exchange.update_of(job)

    def settings(self) -> Dict[str, Any]:
        return {
            "versions": {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "numpy": np.__version__},
            "threads": self._place.threads,
            "layout": "NHWC",
            "exchange": self._update.mechanism,
            "xla_flags": os.environ.get("XLA_FLAGS", "").strip(),
            "devices": [str(device) for device in self._devices],
        }

    def build(self, graph: Graph, weights: Weights) -> None:
        self._graph, self._parameters = graph, graph.parameters()
        self._random = any(isinstance(node.op, Dropout) for node in graph.nodes.values())
        self._losses: List[jax.Array] = []
        self._correct: List[jax.Array] = []
        served = self._job.update == "parameter_server" and self._job.exchanges
        self._server = self._new_server(weights) if served else None
        self.write_weights(weights)
        update = self._update
        if self._server is None:
            self._step = self._compiled(self._train, (update.state, update.results), donate=(0,))
        else:
            self._step = self._compiled(self._prepare, (exchange.SHARD, exchange.SHARD, exchange.SHARD))
        self._inspect = self._compiled(self._look, (update.results, exchange.SHARD))
        self._predict = self._compiled(self._judge, exchange.SHARD)

    def _new_server(self, weights: Weights) -> exchange.ParameterServer:
        home = self._devices[0] if self._job.parameter_device == "device" else jax.devices("cpu")[0]
        shapes = {name: weights[name] for name in self._graph.names("trainable")}
        return exchange.ParameterServer(home, self._mesh, shapes, self._updated)

    @property
    def _count(self) -> int:
        return len(self._devices)

    def _compiled(self, function: Any, outputs: Any, donate: Tuple[int, ...] = ()) -> Any:
        """One program for all devices: each works on its shard of the batch, with what is its own of the state."""
        if not self._job.exchanges:
            return jax.jit(function, donate_argnums=donate)
        inputs = (self._update.state, exchange.EVERY, exchange.SHARD, exchange.SHARD)
        sharded = jax.shard_map(function, mesh=self._mesh, in_specs=inputs, out_specs=outputs, check_vma=False)
        return jax.jit(sharded, donate_argnums=donate)

    def _differentiate(
        self, own: exchange.State, fixed: Fixed, images: jax.Array, labels: jax.Array
    ) -> Tuple[Arrays, Arrays, Results, Arrays]:
        """Gradients, running statistics, results and layer outputs of this device; replicas average all they can."""

        def loss_of(trained: Arrays) -> Tuple[jax.Array, Tuple[Arrays, Arrays]]:
            weights = {**trained, **own.running, **fixed.frozen}
            values, running = forward(self._graph, weights, images, Pass(True, self._dtype, fixed.key, self._rounded))
            terms = [weight * cross_entropy(values[name], labels).mean() for name, weight in self._graph.losses.items()]
            return sum(terms[1:], terms[0]), (values, running)

        (loss, (values, running)), gradient = jax.value_and_grad(loss_of, has_aux=True)(own.trained)
        results: Results = (loss, self._correct_share(values, labels)) if self._job.count_correct else (loss,)
        if self._job.exchanges and self._update.results == exchange.EVERY:
            # All in one: XLA makes it a single exchange, and two may wait for each other for ever.
            gradient, results = jax.lax.pmean((gradient, results), exchange.AXIS)
        return gradient, running, results, values

    def _train(
        self, state: exchange.State, fixed: Fixed, images: jax.Array, labels: jax.Array
    ) -> Tuple[exchange.State, Results]:
        """One optimiser step; XLA leaves out the layer outputs, which nobody reads here."""
        own = self._update.own(state)
        gradient, running, results, _ = self._differentiate(own, fixed, images, labels)
        trained, velocity = self._updated(own.trained, own.velocity, gradient, fixed.rate)
        after = self._update.stacked(exchange.State(trained, velocity, running))
        return after, exchange.with_row(self._update.results, results)

    def _prepare(
        self, state: exchange.State, fixed: Fixed, images: jax.Array, labels: jax.Array
    ) -> Tuple[jax.Array, Arrays, Results]:
        """What a device does of a step whose optimiser is elsewhere."""
        gradient, running, results, _ = self._differentiate(self._update.own(state), fixed, images, labels)
        return exchange.with_row(exchange.SHARD, (exchange.packed(gradient), running, results))

    def _look(self, state: exchange.State, fixed: Fixed, images: jax.Array, labels: jax.Array) -> Tuple[Arrays, Arrays]:
        gradient, _, _, values = self._differentiate(self._update.own(state), fixed, images, labels)
        return exchange.with_row(self._update.results, gradient), values

    def _judge(self, state: exchange.State, fixed: Fixed, images: jax.Array, labels: jax.Array) -> jax.Array:
        """Logits with the running statistics."""
        own = self._update.own(state)
        weights = {**own.trained, **own.running, **fixed.frozen}
        outputs, _ = forward(self._graph, weights, images, Pass(False, self._dtype, None, self._rounded))
        return outputs[self._graph.prediction]

    def _updated(self, trained: Arrays, velocity: Arrays, gradient: Arrays, rate: jax.Array) -> Tuple[Arrays, Arrays]:
        """Weights and velocity after a step."""
        recipe = self._job.recipe
        for name, weight in trained.items():
            if recipe.weight_decay and self._parameters[name].role in recipe.decayed:
                gradient[name] = gradient[name] + recipe.weight_decay * weight
        if recipe.momentum:
            velocity = jax.tree.map(lambda v, g: recipe.momentum * v + g, velocity, gradient)
            ahead = jax.tree.map(lambda v, g: recipe.momentum * v + g, velocity, gradient)
            gradient = ahead if recipe.nesterov else velocity
        return jax.tree.map(lambda w, g: w - rate * g, trained, gradient), velocity

    def _correct_share(self, values: Arrays, labels: jax.Array) -> jax.Array:
        """Times the number of devices: the mean of all is the sum."""
        correct = (values[self._graph.prediction].argmax(-1) == labels).sum()
        return self._count * correct.astype(jnp.float32)

    def to_host(self, images: Array, labels: Array) -> Batch:
        host = jax.devices("cpu")[0]
        return jax.device_put((images, labels.astype(np.int32)), host)

    def to_device(self, batch: Batch) -> Batch:
        return jax.device_put(batch, NamedSharding(self._mesh, exchange.SHARD))

    def train_step(self, batch: Batch) -> None:
        if self._server is None:
            self._state, (loss, *correct) = self._step(self._state, self._fixed(), *batch)
        else:
            gradients, running, (loss, *correct) = self._step(self._state, self._fixed(), *batch)
            self._state = exchange.State(self._server.step(gradients), {}, running)
        self._losses.append(loss)
        self._correct += correct

    def _fixed(self) -> Fixed:
        if not self._random:
            return Fixed(self._frozen, None, self._rate)
        self._key, key = jax.random.split(self._key)
        return Fixed(self._frozen, key, self._rate)

    def set_learning_rate(self, rate: float) -> None:
        self._rate = jax.device_put(np.float32(rate), NamedSharding(self._mesh, exchange.EVERY))
        if self._server is not None:
            self._server.set_learning_rate(rate)

    def synchronize(self) -> None:
        jax.block_until_ready((self._state, self._losses))

    def losses(self) -> List[float]:
        return [float(np.array(loss).mean()) for loss in taken(self._losses)]

    def correct(self) -> List[int]:
        return [round(float(np.array(count).mean())) for count in taken(self._correct)]

    def merge_statistics(self) -> None:
        if not self._update.independent:
            self._state = self._state._replace(
                running=exchange.placed(exchange.SHARD, self._mesh, self._joined(self._state.running))
            )

    def _joined(self, rows: Arrays) -> Weights:
        """The mean of all devices, or what the first has where each is on its own."""
        first = self._update.independent
        return {name: value[0] if first else value.mean(0) for name, value in as_numpy(rows).items()}

    def predict(self, batch: Batch) -> Array:
        fixed = Fixed(self._frozen, None, self._rate)  # nothing is dropped
        return np.array(self._predict(self._state, fixed, *batch), dtype=np.float32)

    def outputs(self, batch: Batch) -> Weights:
        _, values = self._inspect(self._state, self._fixed(), *batch)
        return {name: np.array(value, dtype=np.float32) for name, value in values.items()}

    def gradients(self, batch: Batch) -> Weights:
        found, _ = self._inspect(self._state, self._fixed(), *batch)
        return self._joined(found) if self._update.results == exchange.SHARD else as_numpy(found)

    def read_weights(self) -> Weights:
        trained = self._joined(self._state.trained) if self._update.independent else self._state.trained
        arrays = {**trained, **self._joined(self._state.running), **self._frozen}
        return {name: np.array(arrays[name]) for name in self._parameters}

    def write_weights(self, weights: Weights) -> None:
        trained, running, frozen = (
            {name: weights[name] for name in self._graph.names(kind)} for kind in ("trainable", "running", "frozen")
        )
        velocity = {name: np.zeros_like(value) for name, value in trained.items() if self._job.recipe.momentum}
        if self._server is None:
            initial = exchange.State(trained, velocity, running)
            self._state = exchange.State(
                *(exchange.placed(spec, self._mesh, part) for spec, part in zip(self._update.state, initial))
            )
        else:
            self._state = exchange.State(
                self._server.start(trained, velocity), {}, exchange.placed(exchange.SHARD, self._mesh, running)
            )
        self._frozen = exchange.placed(exchange.EVERY, self._mesh, frozen)
        self._key = jax.random.key(self._job.seed)
        self.set_learning_rate(self._job.recipe.learning_rate)

    def peak_memory_bytes(self) -> Optional[List[int]]:
        known = [device.memory_stats() for device in self._devices]
        return [stats["peak_bytes_in_use"] for stats in known] if all(known) else None

    def close(self) -> None:
        jax.clear_caches()


def as_numpy(arrays: Arrays) -> Weights:
    return {name: np.array(value) for name, value in arrays.items()}


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Loss of each image."""
    logits = logits.astype(jnp.float32)
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
