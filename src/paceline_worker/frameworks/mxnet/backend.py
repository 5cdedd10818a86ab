"""MXNet: a bound executor for each device, driven by its asynchronous engine; a key-value store joins the devices."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its imports are older than this Python
    import mxnet as mx
import numpy as np

from paceline_worker import graph as g
from paceline_worker.contract import Backend, Batch, Evaluation
from paceline_worker.frameworks.mxnet import builder
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights

CONTEXTS = {"cpu": mx.cpu, "cuda": mx.gpu}
AHEAD = 4  # steps between two looks at the engine's queue; its steps hold their batches, so it needs an end
Arrays = Dict[str, Any]  # NDArrays of one device


@dataclass(frozen=True)
class Replica:
    """The network on one device."""

    executor: Any
    fed: Arrays  # images and labels; an executor reads the same arrays in every step
    weights: Arrays
    gradients: Arrays
    running: Arrays

    @property
    def all_weights(self) -> Arrays:
        return {**self.weights, **self.running}

    def forward(self, images: Any, labels: Any, *, training: bool) -> None:
        images.copyto(self.fed[builder.IMAGES])
        labels.copyto(self.fed[builder.LABELS])
        self.executor.forward(is_train=training)


class FrameworkBackend(Backend):
    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        names = [name.split(":") for name in place.devices]
        self._contexts = [CONTEXTS[kind](int(index)) for kind, index in names]
        self._unbiased = names[0][0] == "cuda"  # the running variance that cuDNN keeps; the processor's is biased
        mx.random.seed(job.seed)  # for dropout; the weights come from outside
        for context in self._contexts:
            mx.nd.zeros((1,), context).wait_to_read()  # starts the device's threads

    def settings(self) -> Dict[str, Any]:
        return {
            "versions": {"mxnet": mx.__version__, "numpy": np.__version__},
            "threads": int(os.environ["OMP_NUM_THREADS"]),
            "layout": "NCHW",
            "exchange": "kvstore device" if len(self._contexts) > 1 else None,
            "onednn": mx.runtime.Features().is_enabled("MKLDNN"),
            "devices": [str(context) for context in self._contexts],
        }

    def build(self, graph: g.Graph, weights: Weights) -> None:
        self._graph, self._parameters = graph, graph.parameters()
        self._trained = [name for name, parameter in self._parameters.items() if parameter.kind == "trainable"]
        self._layers = builder.layers(graph)
        symbol = builder.training(graph, self._layers)
        self._replicas = [
            self._replica(symbol, context, share) for context, share in zip(self._contexts, self._place.shares)
        ]
        self._gradients = [[replica.gradients[name] for replica in self._replicas] for name in self._trained]
        self._weights = [[replica.weights[name] for replica in self._replicas] for name in self._trained]
        self._keys = list(range(len(self._trained)))
        self._losses: List[List[Any]] = []
        self.write_weights(weights)

    def _replica(self, symbol: Any, context: Any, share: int) -> Replica:
        height, width, channels = self._graph.input.shape
        shapes = {name: builder.native_shape(parameter) for name, parameter in self._parameters.items()}
        arrays = {name: mx.nd.zeros(shape, context) for name, shape in shapes.items()}
        running = {name: arrays.pop(name) for name, found in self._parameters.items() if found.kind == "running"}
        gradients = {name: mx.nd.zeros(shapes[name], context) for name in self._trained}
        fed = {
            builder.IMAGES: mx.nd.zeros((share, channels, height, width), context),
            builder.LABELS: mx.nd.zeros((share,), context),
        }
        wanted = {name: "write" if name in gradients else "null" for name in (*arrays, *fed)}
        executor = symbol.bind(context, {**arrays, **fed}, gradients, wanted, running)
        return Replica(executor, fed, arrays, gradients, running)

    def _new_optimizer(self) -> Any:
        recipe = self._job.recipe
        optimizer = mx.optimizer.SGD(
            learning_rate=recipe.learning_rate,
            momentum=recipe.momentum,
            wd=recipe.weight_decay,
            rescale_grad=1 / len(self._replicas),  # the store adds gradients up; we want their mean
        )
        roles = [self._parameters[name].role for name in self._trained]
        optimizer.set_wd_mult({index: float(role in recipe.decayed) for index, role in enumerate(roles)})
        return optimizer

    def _new_store(self) -> Any:
        """Adds up gradients on the devices, changes the weights once and gives them to all."""
        store = mx.kv.create("device")
        store.init(self._keys, [own[0] for own in self._weights])
        store.set_optimizer(self._new_optimizer())
        return store

    def to_host(self, images: Array, labels: Array) -> Batch:
        channels_first = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        return mx.nd.array(channels_first), mx.nd.array(labels, dtype=np.float32)  # labels are floats in MXNet

    def to_device(self, batch: Batch) -> Batch:
        images, labels = (builder.spread(array, self._place.shares, self._contexts) for array in batch)
        return list(zip(images, labels))

    def _differentiate(self, batch: Batch) -> None:
        for replica, part in zip(self._replicas, batch):
            replica.forward(*part, training=True)
            replica.executor.backward()

    def train_step(self, batch: Batch) -> None:
        self._differentiate(batch)
        self._update()
        self._steps += 1
        self._losses.append([replica.executor.outputs[0].copy() for replica in self._replicas])
        if len(self._losses) % AHEAD == 0 and len(self._losses) > AHEAD:
            self._losses[-1 - AHEAD][0].wait_to_read()  # the steps since then keep the devices busy meanwhile

    def _update(self) -> None:
        if self._store is None:
            self._updater(self._keys, [own[0] for own in self._gradients], [own[0] for own in self._weights])
        else:
            self._store.push(self._keys, self._gradients)
            self._store.pull(self._keys, self._weights)

    def synchronize(self) -> None:
        mx.nd.waitall()

    def losses(self) -> List[float]:
        losses, self._losses = self._losses, []
        return [float(np.mean([part.asscalar() for part in step])) for step in losses]

    def agree(self, ready: bool) -> bool:
        return ready

    def evaluate(self, batch: Batch) -> Evaluation:
        kept = self._kept()
        self._write({name: array for name, array in self.read_weights().items() if name in kept[0]})
        for replica, part in zip(self._replicas, batch):
            replica.forward(*part, training=False)
        logits = np.concatenate([replica.executor.outputs[1].asnumpy() for replica in self._replicas])
        self._restore(kept)
        labels = np.concatenate([part.asnumpy() for _, part in batch]).astype(np.int64)
        largest = logits.max(1)
        losses = np.log(np.exp(logits - largest[:, None]).sum(1)) + largest - logits[np.arange(len(labels)), labels]
        return Evaluation(len(labels), float(losses.sum()), int((logits.argmax(1) == labels).sum()))

    def outputs(self, batch: Batch) -> Weights:
        kept = self._kept()
        symbol = mx.sym.Group([mx.sym.identity(layer) for layer in self._layers.values()])
        parts = [self._layer_outputs(symbol, replica, images) for replica, (images, _) in zip(self._replicas, batch)]
        self._restore(kept)
        return {name: np.concatenate([part[index] for part in parts]) for index, name in enumerate(self._layers)}

    def _layer_outputs(self, symbol: Any, replica: Replica, images: Any) -> List[Array]:
        wanted = {name: "write" if name in replica.gradients else "null" for name in symbol.list_arguments()}
        arrays = {**replica.weights, builder.IMAGES: images}
        # Bound for training as the network is: without gradients MXNet would fuse layers as for inference.
        executor = symbol.bind(images.context, arrays, replica.gradients, wanted, replica.running)
        return [builder.channels_last(output.asnumpy()) for output in executor.forward(is_train=True)]

    def gradients(self, batch: Batch) -> Weights:
        kept = self._kept()
        self._differentiate(batch)
        self._restore(kept)
        return {
            name: self._mean(name, [replica.gradients[name].asnumpy() for replica in self._replicas])
            for name in self._trained
        }

    def _kept(self) -> List[Arrays]:
        """Running statistics of each device as they are: a pass in training moves them."""
        return [{name: array.copy() for name, array in replica.running.items()} for replica in self._replicas]

    def _restore(self, kept: List[Arrays]) -> None:
        for replica, own in zip(self._replicas, kept):
            for name, array in own.items():
                array.copyto(replica.running[name])

    def _mean(self, name: str, arrays: List[Array]) -> Array:
        return builder.to_neutral(self._parameters[name].role, np.mean(arrays, axis=0))

    def read_weights(self) -> Weights:
        return {
            name: self._mean(name, [self._read(name, index) for index in range(len(self._replicas))])
            for name in self._parameters
        }

    def _read(self, name: str, index: int) -> Array:
        """One device's array; its running variance is as biased as the graph wants it."""
        array = self._replicas[index].all_weights[name].asnumpy()
        layer = self._graph.nodes[name.rpartition(".")[0]]
        if self._parameters[name].role != "variance" or layer.op.unbiased_running_variance == self._unbiased:
            return array
        count = self._place.shares[index] * int(np.prod(layer.shape[:-1]))
        factor = (count - 1) / count if self._unbiased else count / (count - 1)
        start = self._first[name] * layer.op.decay**self._steps
        return start + factor * (array - start)

    def write_weights(self, weights: Weights) -> None:
        self._write(weights)
        self._first, self._steps = weights, 0
        self._updater = mx.optimizer.get_updater(self._new_optimizer())
        self._store = self._new_store() if len(self._replicas) > 1 else None

    def _write(self, weights: Weights) -> None:
        for name, array in weights.items():
            native = builder.from_neutral(self._parameters[name].role, array)
            for replica in self._replicas:
                # By a copy inside MXNet: NumPy cannot write to an array that oneDNN has brought into its own layout.
                mx.nd.array(native).copyto(replica.all_weights[name])

    def peak_memory_bytes(self) -> Optional[List[int]]:
        return None

    def close(self) -> None:
        mx.nd.waitall()
