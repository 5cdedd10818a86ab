"""Graph to Chainer: its functions, called anew in every pass, and the arrays that they work on, channels first."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import chainer
import numpy as np
from chainer import functions

from paceline_worker import graph as g
from paceline_worker.weights import Array, Weights

Own = dict[str, Any]  # a layer's arrays; those that are trained are chainer.Parameters
Values = dict[str, Any]  # what layers give, as chainer.Variables


def padded(op: Any, images: Any, filler: float) -> tuple[Any, tuple[int, int]]:
    """Images and the padding that is left to the layer: its own is equal on both sides, other is put around before."""
    top, bottom, left, right = op.padding
    if top == bottom and left == right:
        return images, (top, left)
    around = ((0, 0), (0, 0), (top, bottom), (left, right))
    return functions.pad(images, around, "constant", constant_values=filler), (0, 0)


def conv(op: g.Conv, own: Own, images: Any) -> Any:
    images, padding = padded(op, images, 0.0)
    return functions.convolution_2d(images, own["kernel"], own.get("bias"), op.stride, padding)


def max_pool(op: g.MaxPool, own: Own, images: Any) -> Any:
    images, padding = padded(op, images, -np.inf)
    return functions.max_pooling_2d(images, op.kernel, op.stride, padding, cover_all=False)


def average_pool(op: g.AveragePool, own: Own, images: Any) -> Any:
    images, padding = padded(op, images, 0.0)
    if padding != (op.padding[0], op.padding[2]) and not op.count_padding:
        raise NotImplementedError("Chainer cannot leave uneven padding out of an average pool's divisor.")
    filler = 0 if op.count_padding else None
    return functions.average_pooling_nd(images, op.kernel, op.stride, padding, filler)


def batch_norm(op: g.BatchNorm, own: Own, values: Any) -> Any:
    gamma, beta, mean, variance = (own[name] for name in ("gamma", "beta", "mean", "variance"))
    if not chainer.config.train:
        return functions.fixed_batch_normalization(values, gamma, beta, mean, variance, op.epsilon)
    kept = op.decay * variance
    running = {"running_mean": mean, "running_var": variance, "decay": op.decay}  # it changes both arrays in place
    output = functions.batch_normalization(values, gamma, beta, eps=op.epsilon, **running)
    if not op.unbiased_running_variance:  # Chainer's is, by a factor of n / (n - 1) for n values of each channel
        variance -= (variance - kept) * len(variance) / values.size
    return output


def flatten(op: g.Flatten, own: Own, images: Any) -> Any:
    channels_last = functions.transpose(images, (0, 2, 3, 1))
    return functions.reshape(channels_last, (len(images), -1))


LAYERS: dict[type, Callable[..., Any]] = {
    g.Conv: conv,
    g.Dense: lambda op, own, features: functions.linear(features, own["kernel"], own.get("bias")),
    g.BatchNorm: batch_norm,
    g.Relu: lambda op, own, values: functions.relu(values),
    g.Tanh: lambda op, own, values: functions.tanh(values),
    g.Dropout: lambda op, own, values: functions.dropout(values, op.rate),
    g.MaxPool: max_pool,
    g.AveragePool: average_pool,
    g.GlobalPool: lambda op, own, images: functions.mean(images, (2, 3)),
    g.Flatten: flatten,
    g.Add: lambda op, own, *inputs: functions.add(*inputs),
    g.Concat: lambda op, own, *inputs: functions.concat(inputs, axis=1),
    g.Input: lambda op, own, images: chainer.as_variable(images),
}


class Network(chainer.Link):
    """The network's arrays under their neutral names, and its forward pass."""

    def __init__(self, graph: g.Graph, weights: Weights) -> None:
        super().__init__()
        self.graph, self.roles = graph, {name: found.role for name, found in graph.parameters().items()}
        self.own: dict[str, Own] = {name: {} for name in graph.nodes}
        self.arrays: dict[str, Array] = {}  # all of them; Chainer changes each in place
        for name, parameter in graph.parameters().items():
            array = self.arrays[name] = from_neutral(parameter.role, weights[name])
            layer, _, short = name.rpartition(".")
            self.own[layer][short] = array
            if parameter.kind == "trainable":
                with self.init_scope():
                    self.own[layer][short] = chainer.Parameter(array)
                    setattr(self, name, self.own[layer][short])

    def forward(self, images: Any, wanted: Container[str]) -> Values:
        """What the wanted layers give; of the others only what a backward pass needs stays in memory."""
        last_readers = {source: node.name for node in self.graph.nodes.values() for source in node.inputs}
        values: Values = {}
        for node in self.graph.nodes.values():
            inputs = [values[name] for name in node.inputs] or [images]
            values[node.name] = LAYERS[type(node.op)](node.op, self.own[node.name], *inputs)
            for name in node.inputs:
                if last_readers[name] == node.name and name not in wanted:
                    values.pop(name, None)
        return values


TO_CHAINER = {"conv.kernel": (3, 2, 0, 1), "dense.kernel": (1, 0)}  # neutral axes in Chainer's order


def from_neutral(role: str, array: Array) -> Array:
    return np.array(array.transpose(TO_CHAINER[role]) if role in TO_CHAINER else array, order="C")


def to_neutral(role: str, array: Array) -> Array:
    return np.array(array.transpose(np.argsort(TO_CHAINER[role])) if role in TO_CHAINER else array)
