"""neon: one process per device, and steps driven layer by layer."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Dict, Iterable, List, Optional, Tuple

import neon
import numpy as np
from neon.backends import gen_backend
from neon.optimizers import GradientDescentMomentum

from paceline_worker import graph as g
from paceline_worker.contract import Backend, Batch
from paceline_worker.frameworks.neon import builder
from paceline_worker.frameworks.neon.exchange import exchange_of
from paceline_worker.frameworks.neon.network import Network
from paceline_worker.frameworks.neon.peers import Meeting, Peers
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights

BACKENDS = {"cpu": "cpu", "cuda": "gpu"}


class Group:
    """Some of the network's arrays, in the form in which neon's optimisers take layers."""

    def __init__(self, weights: List[Any], gradients: List[Any]) -> None:
        states: List[List[Any]] = [[] for _ in weights]  # the optimiser puts its momentum here
        self._rows = list(zip(zip(weights, gradients), states))

    def get_params(self) -> List[Any]:
        return self._rows

    def velocities(self) -> List[Any]:
        return [velocity for _, states in self._rows for velocity in states]


class FrameworkBackend(Backend):
    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        kind, index = place.devices[0].split(":")
        self._backend = gen_backend(
            backend=BACKENDS[kind],
            # For dropout; the weights come from outside. On a GPU it would also choose slower, deterministic kernels.
            rng_seed=job.seed + place.rank if kind == "cpu" else None,
            datatype=np.float32,
            batch_size=place.local_batch_size,
            device_id=int(index) if kind == "cuda" else 0,
        )
        self._mark = self._backend.init_mark()
        self._peers = Peers(place.rank, place.size, Meeting.read(os.environ), job.patience_seconds)
        self._exchange = exchange_of(job)(job, place, self._peers)

    def settings(self) -> Dict[str, Any]:
        return {
            "versions": {"neon": neon.__version__, "numpy": np.__version__},
            "threads": int(os.environ["OPENBLAS_NUM_THREADS"]),
            "layout": "CHWN",
            "exchange": self._exchange.mechanism,
            "transport": "TCP" if self._job.exchanges else None,
            "backend": type(self._backend).__name__,
            "devices": list(self._place.devices),
        }

    def build(self, graph: g.Graph, weights: Weights) -> None:
        self._graph, self._parameters = graph, graph.parameters()
        self._network = Network(self._backend, graph)
        self._exchange.prepare(partial(builder.laid_out, self._backend, self._network.steps))
        self._arrays = builder.held(self._network.steps, gradients=False)
        self._gradients = builder.held(self._network.steps, gradients=True)
        self._trained = [name for name, parameter in self._parameters.items() if parameter.kind == "trainable"]
        self._running = [name for name, parameter in self._parameters.items() if parameter.kind == "running"]
        self._losses: List[Any] = []
        self._correct: List[Any] = []
        self._right = self._backend.iobuf(1)  # one for each image that the network gets right
        self.write_weights(weights)

    def to_host(self, images: Array, labels: Array) -> Batch:
        """Features first, images last; labels one-hot."""
        features = np.ascontiguousarray(images.transpose(3, 1, 2, 0).reshape(-1, len(images)))
        wanted = np.zeros((self._job.classes, len(labels)), np.float32)
        wanted[labels, np.arange(len(labels))] = 1
        return features, wanted

    def to_device(self, batch: Batch) -> Batch:
        images, labels = batch
        return self._backend.array(images), self._backend.array(labels)

    def train_step(self, batch: Batch) -> None:
        self._losses.append(self._differentiate(batch))
        if self._job.count_correct:
            self._correct.append(self._count(batch[1]))
        self._exchange.step(self._optimize)
        self._steps += 1

    def _optimize(self) -> None:
        """In neon's optimisers sums over a batch become means; the batch may be that of all devices."""
        self._backend.bsz = self._exchange.images
        for optimizer, group in self._optimizers:
            optimizer.optimize([group], epoch=0)
        self._backend.bsz = self._place.local_batch_size

    def _differentiate(self, batch: Batch) -> Any:
        images, labels = batch
        self._network.forward(images, training=True)
        return self._network.backward(labels)

    def _count(self, labels: Any) -> Any:
        backend, logits = self._backend, self._network.values[self._graph.prediction]
        count = backend.zeros((1, 1))
        self._right[:] = backend.equal(backend.argmax(logits, axis=0), backend.argmax(labels, axis=0))
        count[:] = backend.sum(self._right, axis=1)
        return count

    def set_learning_rate(self, rate: float) -> None:
        """The rate is a factor of neon's momentum, so that has to change with it."""
        for optimizer, group in self._optimizers:
            for velocity in group.velocities() if rate != optimizer.learning_rate else ():
                velocity[:] = velocity * (rate / optimizer.learning_rate)
            optimizer.learning_rate = rate

    def _new_optimizers(self) -> List[Any]:
        """One for what is decayed and one for the rest: neon can tell layers apart, but not the arrays of one."""
        recipe, found = self._job.recipe, []
        for decayed in (True, False):
            names = [name for name in self._trained if (self._parameters[name].role in recipe.decayed) == decayed]
            group = Group([self._arrays[name] for name in names], [self._gradients[name] for name in names])
            decay = recipe.weight_decay if decayed else 0.0
            optimizer = GradientDescentMomentum(
                recipe.learning_rate, recipe.momentum, wdecay=decay, nesterov=recipe.nesterov
            )
            found.append((optimizer, group))
        return found

    def synchronize(self) -> None:
        self._backend.record_mark(self._mark)
        self._backend.synchronize_mark(self._mark)

    def losses(self) -> List[float]:
        losses, self._losses = self._losses, []
        return [float(loss.get()[0, 0]) for loss in losses]

    def correct(self) -> List[int]:
        correct, self._correct = self._correct, []
        return [int(count.get()[0, 0]) for count in correct]

    def agree(self, ready: bool) -> bool:
        return self._peers.all_ready(ready)

    def merge_statistics(self) -> None:
        if self._exchange.mechanism:
            merged = self._exchange.averaged(self._own(self._running))
            self._write({name: self._biased(name, array) for name, array in merged.items()})

    def predict(self, batch: Batch) -> Array:
        kept = self._kept()
        self._write(self._own(self._running))
        self._network.forward(batch[0], training=False)
        self._restore(kept)
        return self._network.values[self._graph.prediction].get().T

    def outputs(self, batch: Batch) -> Weights:
        kept, nodes = self._kept(), self._graph.nodes
        seen = {self._graph.input.name: batch[0].get()}

        def watch(name: str, output: Any) -> None:
            seen[name] = output.get()

        self._network.forward(batch[0], training=True, watch=watch)
        self._restore(kept)
        return {name: builder.images_first(node.shape, seen[name]) for name, node in nodes.items()}

    def gradients(self, batch: Batch) -> Weights:
        kept = self._kept()
        self._differentiate(batch)
        self._exchange.add_up_gradients()
        self._restore(kept)
        images = self._exchange.images  # neon's sums become means in its optimiser only
        return {
            name: builder.to_neutral(self._parameters[name], self._gradients[name].get() / images)
            for name in self._trained
        }

    def _kept(self) -> Weights:
        """Running statistics as they are: a pass in training moves them."""
        return {name: self._arrays[name].get() for name in self._running}

    def _restore(self, kept: Weights) -> None:
        for name, array in kept.items():
            self._arrays[name].set(array)

    def read_weights(self) -> Weights:
        return {**self._own(self._parameters), **self._exchange.averaged(self._own(self._running))}

    def _own(self, names: Iterable[str]) -> Weights:
        """This device's, with the running variance unbiased where the graph wants it so; neon's is not."""
        return {name: self._unbiased(name) for name in names}

    def _unbiased(self, name: str) -> Array:
        array = builder.to_neutral(self._parameters[name], self._arrays[name].get())
        first, factor = self._correction(name)
        return array if factor == 1 else first + factor * (array - first)

    def _biased(self, name: str, array: Array) -> Array:
        """The other way round."""
        first, factor = self._correction(name)
        return array if factor == 1 else first + (array - first) / factor

    def _correction(self, name: str) -> Tuple[Array, float]:
        """What is left of the first running variance, and the factor that makes all that came to it unbiased."""
        layer = self._graph.nodes[name.rpartition(".")[0]]
        if self._parameters[name].role != "variance" or not layer.op.unbiased_running_variance:
            return 0.0, 1.0
        count = self._place.local_batch_size * int(np.prod(layer.shape[:-1]))
        return self._first[name] * layer.op.decay**self._steps, count / (count - 1)

    def write_weights(self, weights: Weights) -> None:
        self._write(weights)
        self._first, self._steps = weights, 0
        self._network.forget()
        self._optimizers = self._new_optimizers()

    def _write(self, weights: Weights) -> None:
        for name, array in weights.items():
            self._arrays[name].set(builder.from_neutral(self._parameters[name].role, array))

    def peak_memory_bytes(self) -> Optional[List[int]]:
        return None

    def close(self) -> None:
        self.synchronize()
        self._peers.close()
