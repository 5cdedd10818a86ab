"""MXNet: a bound executor for each device, driven by its asynchronous engine."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any, Dict, List

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its imports are older than this Python
    import mxnet as mx
import numpy as np

from paceline_worker import graph as g
from paceline_worker.contract import Batch, taken
from paceline_worker.frameworks.mxnet import builder, exchange
from paceline_worker.mxnet1.backend import Arrays, MxnetBackend
from paceline_worker.mxnet1.monitor import recorded
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights, channels_last

AHEAD = 4  # steps between two looks at the engine's queue; its steps hold their batches, so it needs an end


@dataclass(frozen=True)
class Replica:
    """The network on one device."""

    executor: Any
    fed: Arrays  # images and labels; an executor reads the same arrays in every step
    weights: Arrays  # and running statistics
    gradients: Arrays

    def forward(self, images: Any, labels: Any, *, training: bool) -> None:
        images.copyto(self.fed[builder.IMAGES])
        labels.copyto(self.fed[builder.LABELS])
        self.executor.forward(is_train=training)

    def count_correct(self, labels: Any) -> Any:
        return (mx.nd.argmax(self.executor.outputs[1], axis=1) == labels).sum()


class FrameworkBackend(MxnetBackend):
    layout = builder.LAYOUT

    def __init__(self, job: Job, place: Place) -> None:
        super().__init__(job, place)
        self.unbiased = place.devices[0].startswith("cuda")  # as cuDNN keeps it; the processor's is biased

    def settings(self) -> Dict[str, Any]:
        return {
            "versions": {"mxnet": mx.__version__, "numpy": np.__version__},
            "threads": int(os.environ["OMP_NUM_THREADS"]),
            "layout": "NCHW",
            "exchange": exchange.mechanism(self._job),
            "onednn": mx.runtime.Features().is_enabled("MKLDNN"),
            "devices": [str(context) for context in self._contexts],
        }

    def build(self, graph: g.Graph, weights: Weights) -> None:
        self._describe(graph)
        self._layers = builder.layers(graph)
        self._replicas = [self._replica(context, share) for context, share in zip(self._contexts, self._place.shares)]
        self._gradients = [[replica.gradients[name] for replica in self._replicas] for name in self._trained]
        self._weights = [[replica.weights[name] for replica in self._replicas] for name in self._trained]
        self._losses: List[List[Any]] = []
        self._correct: List[List[Any]] = []
        self.write_weights(weights)

    def _replica(self, context: Any, share: int) -> Replica:
        # So that every image counts the same in the devices' mean.
        scale = 1.0 if self._job.update == "independent" else self._job.weight(share)
        symbol = builder.training(self._graph, self._layers, scale)
        height, width, channels = self._graph.input.shape
        shapes = {name: builder.native_shape(parameter) for name, parameter in self._parameters.items()}
        arrays = {name: mx.nd.zeros(shape, context) for name, shape in shapes.items()}
        running = {name: arrays.pop(name) for name in self._running}
        gradients = {name: mx.nd.zeros(shapes[name], context) for name in self._trained}
        fed = {
            builder.IMAGES: mx.nd.zeros((share, channels, height, width), context),
            builder.LABELS: mx.nd.zeros((share,), context),
        }
        wanted = {name: "write" if name in gradients else "null" for name in (*arrays, *fed)}
        executor = symbol.bind(context, {**arrays, **fed}, gradients, wanted, running)
        return Replica(executor, fed, {**arrays, **running}, gradients)

    def _new_optimizer(self) -> Any:
        recipe = self._job.recipe
        kind = exchange.Nesterov if recipe.nesterov and recipe.momentum else mx.optimizer.SGD
        optimizer = kind(
            learning_rate=recipe.learning_rate,
            momentum=recipe.momentum,
            wd=recipe.weight_decay,
            rescale_grad=1 / len(self._groups[0]),  # a store adds gradients up; we want their mean
        )
        roles = [self._parameters[name].role for name in self._trained]
        optimizer.set_wd_mult({index: float(role in recipe.decayed) for index, role in enumerate(roles)})
        return optimizer

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
        self._exchange.update()
        self._steps += 1
        self._losses.append([replica.executor.outputs[0].copy() for replica in self._replicas])
        if self._job.count_correct:
            self._correct.append([own.count_correct(labels) for own, (_, labels) in zip(self._replicas, batch)])
        if len(self._losses) % AHEAD == 0 and len(self._losses) > AHEAD:
            for loss in self._losses[-1 - AHEAD]:
                loss.wait_to_read()  # the steps since then keep the devices busy meanwhile

    def set_learning_rate(self, rate: float) -> None:
        self._exchange.set_learning_rate(rate)

    def losses(self) -> List[float]:
        parts = ([part.asscalar() for part in step] for step in taken(self._losses))
        return [float(np.average(step, weights=self._place.shares)) for step in parts]

    def correct(self) -> List[int]:
        return [int(sum(part.asscalar() for part in step)) for step in taken(self._correct)]

    def predict(self, batch: Batch) -> Array:
        mx.nd.waitall()  # the mode is the executor's: steps still in its queue would be done as if for inference
        for replica, part in zip(self._replicas, batch):
            replica.forward(*part, training=False)
        return np.concatenate([replica.executor.outputs[1].asnumpy() for replica in self._replicas])

    def outputs(self, batch: Batch) -> Weights:
        kept = self._kept()
        parts = []
        for replica, (images, labels) in zip(self._replicas, batch):
            with recorded(replica.executor) as found:
                replica.forward(images, labels, training=True)
            parts.append({**found, builder.IMAGES: images.asnumpy()})
        self._put(kept)
        return {
            name: channels_last(np.concatenate([part[layer.name] for part in parts]))
            for name, layer in self._layers.items()
        }

    def gradients(self, batch: Batch) -> Weights:
        kept = self._kept()
        self._differentiate(batch)
        self._put(kept)
        return {
            name: self._mean(name, [self._replicas[index].gradients[name].asnumpy() for index in self._groups[0]])
            for name in self._trained
        }

    def _array(self, name: str, device: int) -> Any:
        return self._replicas[device].weights[name]

    def write_weights(self, weights: Weights) -> None:
        self._first, self._steps = [weights] * len(self._replicas), 0
        self._put([self._native(weights)] * len(self._replicas))
        self._exchange = exchange.new_exchange(self._job, self._new_optimizer(), self._gradients, self._weights)
