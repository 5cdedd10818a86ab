"""Graph to Keras 2.2 on MXNet: native layers, channels first; two of its layers are put right with MXNet's own."""

from __future__ import annotations

import collections
import collections.abc
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Dict

from paceline_worker import graph as g
from paceline_worker.mxnet1 import pooling
from paceline_worker.weights import Layout

os.environ.setdefault("KERAS_HOME", str(Path(sys.prefix) / "keras"))  # not the settings of another Keras
collections.Iterable = collections.abc.Iterable  # type: ignore[attr-defined]  # Keras 2.2 is older than Python 3.10
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its imports are older than this Python too
    import keras
    import mxnet as mx
    from keras import layers as k
    from keras.backend import mxnet_backend

Tensor = Any
keras.backend.set_image_data_format("channels_first")  # channels last is seven times slower


@mxnet_backend.keras_mxnet_symbol
def norm_symbol(values: Tensor, own: Norm) -> Tensor:
    arrays = (own.gamma, own.beta, own.moving_mean, own.moving_variance)
    symbol = mx.sym.BatchNorm(
        values.symbol,
        *(array.symbol for array in arrays),
        eps=own.epsilon,
        momentum=own.momentum,
        axis=1,
        fix_gamma=not own.trained_gamma,
    )
    return mxnet_backend.KerasSymbol(symbol, neighbors=arrays)


class Norm(k.BatchNormalization):
    """Keras' own layer on MXNet says nothing about gamma, and MXNet's default is to hold it at one."""

    def __init__(self, op: g.BatchNorm, name: str) -> None:
        super().__init__(axis=1, momentum=op.decay, epsilon=op.epsilon, name=name)
        self.trained_gamma = op.trained_gamma

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        if not self.trained_gamma:
            self._trainable_weights.remove(self.gamma)
            self._non_trainable_weights.append(self.gamma)

    def call(self, inputs: Tensor, training: Any = None) -> Tensor:
        return norm_symbol(inputs, self)


@mxnet_backend.keras_mxnet_symbol
def pool_symbol(images: Tensor, op: Any) -> Tensor:
    return mxnet_backend.KerasSymbol(pooling.pool(op, images.symbol))


class PaddedPool(k.Layer):
    """A pool with the graph's padding: Keras knows only `same`, and on MXNet counts its padding in every average."""

    def __init__(self, op: Any, name: str) -> None:
        super().__init__(name=name)
        self.op = op

    def call(self, inputs: Tensor) -> Tensor:
        return pool_symbol(inputs, self.op)

    def compute_output_shape(self, input_shape: Any) -> Any:
        _, channels, height, width = input_shape
        rows, columns, _ = self.op.shape((height, width, channels))
        return (input_shape[0], channels, rows, columns)


def conv(op: g.Conv, name: str, source: g.Shape, images: Tensor) -> Tensor:
    top, bottom, left, right = op.padding
    padding = "same" if any(op.padding) and is_same(op, source) else "valid"
    if any(op.padding) and padding == "valid":
        images = k.ZeroPadding2D(((top, bottom), (left, right)))(images)
    return k.Conv2D(op.channels, op.kernel, strides=op.stride, padding=padding, use_bias=op.bias, name=name)(images)


def is_same(op: g.Conv, source: g.Shape) -> bool:
    """Whether Keras' `same` on MXNet, which puts the odd pixel before the image, pads as the graph does."""
    sizes = [-(-size // stride) for size, stride in zip(source, op.stride)]
    totals = [
        (out - 1) * stride + kernel - size for out, stride, kernel, size in zip(sizes, op.stride, op.kernel, source)
    ]
    before = [(total + 1) // 2 for total in totals]
    return min(totals) >= 0 and before == [op.padding[0], op.padding[2]] and (*sizes, op.channels) == op.shape(source)


def dropout(op: g.Dropout, name: str, source: g.Shape, values: Tensor) -> Tensor:
    # A layer that gives its input back is copied by Keras, and its copy on MXNet wants values, not symbols.
    return k.Dropout(op.rate, name=name)(values) if op.rate else values


def pool(native: Callable[..., Any]) -> Callable[..., Tensor]:
    def layer(op: Any, name: str, source: g.Shape, images: Tensor) -> Tensor:
        chosen = PaddedPool(op, name) if any(op.padding) else native(op.kernel, strides=op.stride, name=name)
        return chosen(images)

    return layer


LAYERS: Dict[type, Callable[..., Tensor]] = {
    g.Conv: conv,
    g.Dense: lambda op, name, source, values: k.Dense(op.features, use_bias=op.bias, name=name)(values),
    g.BatchNorm: lambda op, name, source, values: Norm(op, name)(values),
    g.Relu: lambda op, name, source, values: k.Activation("relu", name=name)(values),
    g.Tanh: lambda op, name, source, values: k.Activation("tanh", name=name)(values),
    g.Dropout: dropout,
    g.MaxPool: pool(k.MaxPooling2D),
    g.AveragePool: pool(k.AveragePooling2D),
    g.GlobalPool: lambda op, name, source, images: k.GlobalAveragePooling2D(name=name)(images),
    g.Flatten: lambda op, name, source, images: k.Flatten(data_format="channels_first", name=name)(images),
    g.Add: lambda op, name, source, *inputs: k.Add(name=name)(list(inputs)),
    g.Concat: lambda op, name, source, *inputs: k.Concatenate(axis=1, name=name)(list(inputs)),
    g.Input: lambda op, name, source: k.Input((op.size[2], *op.size[:2]), name=name),
}


def tensors(graph: g.Graph) -> Dict[str, Tensor]:
    """What every layer gives."""
    values: Dict[str, Tensor] = {}
    for node in graph.nodes.values():
        inputs = [values[name] for name in node.inputs]
        values[node.name] = LAYERS[type(node.op)](node.op, node.name, graph.source(node), *inputs)
    return values


@mxnet_backend.keras_mxnet_symbol
def cross_entropy(targets: Tensor, logits: Tensor) -> Tensor:
    """Loss of each image; Keras' own takes logarithms of clipped probabilities."""
    return mxnet_backend.KerasSymbol(0 - mx.sym.sum(targets.symbol * mx.sym.log_softmax(logits.symbol), axis=1))


@mxnet_backend.keras_mxnet_symbol
def count_correct(targets: Tensor, logits: Tensor) -> Tensor:
    """How many images of a device are right; Keras takes a mean of this one number."""
    right = mx.sym.broadcast_equal(mx.sym.argmax(targets.symbol, axis=1), mx.sym.argmax(logits.symbol, axis=1))
    return mxnet_backend.KerasSymbol(mx.sym.sum(right))


NAMES = {"mean": "moving_mean", "variance": "moving_variance"}
LAYOUT = Layout({"conv.kernel": (3, 2, 0, 1)})


def native_names(graph: g.Graph, model: Any) -> Dict[str, str]:
    """What MXNet calls each array."""
    found = {}
    for name in graph.parameters():
        layer, _, own = name.rpartition(".")
        found[name] = getattr(model.get_layer(layer), NAMES.get(own, own)).name
    return found
