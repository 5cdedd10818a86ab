"""Every layer as a pair of short functions: what it gives, and what its output's gradient means for its inputs."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from paceline_worker import graph as g
from paceline_worker.weights import Array

Own = Dict[
    str, Array
]  # a layer's arrays; `forward` may leave what `backward` needs under names with a leading underscore
Forward = Callable[[Any, Own, List[Array], bool], Array]
Backward = Callable[[Any, Own, List[Array], Array, Array], Tuple[List[Array], Own]]  # …, output, its gradient


def windows(op: Any, images: Array, filler: float) -> Array:
    """All windows of the padded images: (image, row, column, channel, window row, window column)."""
    top, bottom, left, right = op.padding
    padded = np.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=filler)
    every = np.lib.stride_tricks.sliding_window_view(padded, op.kernel, axis=(1, 2))
    return every[:, :: op.stride[0], :: op.stride[1]]


def scatter(op: Any, images: Array, parts: Callable[[int, int], Array]) -> Array:
    """Add up what each place of the window, `parts(row, column)`, gives back to the image it was taken from."""
    top, bottom, left, right = op.padding
    count, height, width, channels = images.shape
    padded = np.zeros((count, height + top + bottom, width + left + right, channels))
    rows, columns = g.window(images.shape[1:], op.kernel, op.stride, op.padding)
    for row in range(op.kernel[0]):
        for column in range(op.kernel[1]):
            below = slice(row, row + rows * op.stride[0], op.stride[0])
            beside = slice(column, column + columns * op.stride[1], op.stride[1])
            padded[:, below, beside] += parts(row, column)
    return padded[:, top : top + height, left : left + width]


def conv(op: g.Conv, own: Own, inputs: List[Array], training: bool) -> Array:
    output = np.tensordot(windows(op, inputs[0], 0.0), own["kernel"], axes=([4, 5, 3], [0, 1, 2]))
    return output + own["bias"] if op.bias else output


def conv_back(op: g.Conv, own: Own, inputs: List[Array], output: Array, slope: Array) -> Tuple[List[Array], Own]:
    kernel = np.tensordot(windows(op, inputs[0], 0.0), slope, axes=([0, 1, 2], [0, 1, 2])).transpose(1, 2, 0, 3)
    images = scatter(op, inputs[0], lambda row, column: slope @ own["kernel"][row, column].T)
    return [images], {"kernel": kernel, **({"bias": slope.sum((0, 1, 2))} if op.bias else {})}


def dense(op: g.Dense, own: Own, inputs: List[Array], training: bool) -> Array:
    output = inputs[0] @ own["kernel"]
    return output + own["bias"] if op.bias else output


def dense_back(op: g.Dense, own: Own, inputs: List[Array], output: Array, slope: Array) -> Tuple[List[Array], Own]:
    return [slope @ own["kernel"].T], {
        "kernel": inputs[0].T @ slope,
        **({"bias": slope.sum(0)} if op.bias else {}),
    }


def batch_norm(op: g.BatchNorm, own: Own, inputs: List[Array], training: bool) -> Array:
    values, axes = inputs[0], tuple(range(inputs[0].ndim - 1))
    mean, variance = (values.mean(axes), values.var(axes)) if training else (own["mean"], own["variance"])
    if training:
        count = values.size // values.shape[-1]
        kept = variance * count / (count - 1) if op.unbiased_running_variance else variance
        own["mean"] = op.decay * own["mean"] + (1 - op.decay) * mean
        own["variance"] = op.decay * own["variance"] + (1 - op.decay) * kept
    own["_scale"] = 1 / np.sqrt(variance + op.epsilon)
    own["_normal"] = (values - mean) * own["_scale"]
    return own["_normal"] * own["gamma"] + own["beta"]


def batch_norm_back(
    op: g.BatchNorm, own: Own, inputs: List[Array], output: Array, slope: Array
) -> Tuple[List[Array], Own]:
    """Mean and variance depend on every value of the batch, hence the two subtractions."""
    axes, normal = tuple(range(slope.ndim - 1)), own["_normal"]
    scaled = slope * own["gamma"]
    centred = scaled - scaled.mean(axes) - normal * (scaled * normal).mean(axes)
    return [centred * own["_scale"]], {"gamma": (slope * normal).sum(axes), "beta": slope.sum(axes)}


def max_pool(op: g.MaxPool, own: Own, inputs: List[Array], training: bool) -> Array:
    return windows(op, inputs[0], -np.inf).max((4, 5))


def max_pool_back(op: g.MaxPool, own: Own, inputs: List[Array], output: Array, slope: Array) -> Tuple[List[Array], Own]:
    """The first largest value of a window gets all of it."""
    seen = windows(op, inputs[0], -np.inf)
    winner = seen.reshape(*seen.shape[:4], -1).argmax(-1)
    width = op.kernel[1]
    return [scatter(op, inputs[0], lambda row, column: slope * (winner == row * width + column))], {}


def pixels(op: g.AveragePool, images: Array) -> Array:
    """What each window's sum is divided by."""
    if op.count_padding:
        return np.array(float(math.prod(op.kernel)))
    return windows(op, np.ones_like(images[:1, :, :, :1]), 0.0).sum((4, 5))


def average_pool(op: g.AveragePool, own: Own, inputs: List[Array], training: bool) -> Array:
    return windows(op, inputs[0], 0.0).sum((4, 5)) / pixels(op, inputs[0])


def average_back(
    op: g.AveragePool, own: Own, inputs: List[Array], output: Array, slope: Array
) -> Tuple[List[Array], Own]:
    shared = slope / pixels(op, inputs[0])
    return [scatter(op, inputs[0], lambda row, column: shared)], {}


def global_back(op: Any, own: Own, inputs: List[Array], output: Array, slope: Array) -> Tuple[List[Array], Own]:
    height, width = inputs[0].shape[1:3]
    return [np.broadcast_to(slope[:, None, None], inputs[0].shape) / (height * width)], {}


def concat_back(op: Any, own: Own, inputs: List[Array], output: Array, slope: Array) -> Tuple[List[Array], Own]:
    ends = np.cumsum([source.shape[-1] for source in inputs])[:-1]
    return list(np.split(slope, ends, axis=-1)), {}


def dropout(op: g.Dropout, own: Own, inputs: List[Array], training: bool) -> Array:
    if training and op.rate:
        raise NotImplementedError("Dropout is random, so there is nothing that two frameworks could agree on.")
    return inputs[0]


def simple(local: Callable[[Array, Array], Array]) -> Backward:
    """The backward function of a layer without parameters, from the local slope of (input, output)."""
    return lambda op, own, inputs, output, slope: ([slope * local(inputs[0], output)], {})


LAYERS: Dict[type, Tuple[Forward, Backward]] = {
    g.Conv: (conv, conv_back),
    g.Dense: (dense, dense_back),
    g.BatchNorm: (batch_norm, batch_norm_back),
    g.Relu: (lambda op, own, inputs, training: np.maximum(inputs[0], 0), simple(lambda x, y: y > 0)),
    g.Tanh: (lambda op, own, inputs, training: np.tanh(inputs[0]), simple(lambda x, y: 1 - y * y)),
    g.Dropout: (dropout, simple(lambda x, y: np.ones(()))),
    g.MaxPool: (max_pool, max_pool_back),
    g.AveragePool: (average_pool, average_back),
    g.GlobalPool: (lambda op, own, inputs, training: inputs[0].mean((1, 2)), global_back),
    g.Flatten: (
        lambda op, own, inputs, training: inputs[0].reshape(len(inputs[0]), -1),
        lambda op, own, inputs, output, slope: ([slope.reshape(inputs[0].shape)], {}),
    ),
    g.Add: (
        lambda op, own, inputs, training: np.sum(inputs, axis=0),
        lambda op, own, inputs, output, slope: ([slope] * len(inputs), {}),
    ),
    g.Concat: (lambda op, own, inputs, training: np.concatenate(inputs, axis=-1), concat_back),
    g.Input: (lambda op, own, inputs, training: inputs[0], lambda op, own, inputs, output, slope: ([slope], {})),
}


def in_bfloat16(values: Array) -> Array:
    """The nearest numbers with eight bits of mantissa; of two that are equally near, the even one."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def multiplying_bfloat16(forward: Forward, backward: Backward) -> Tuple[Forward, Backward]:
    """A layer with a kernel as mixed precision has it: weights are kept as they are, and rounded to be multiplied."""

    def rounded(arrays: Own) -> Own:
        return {name: in_bfloat16(array) for name, array in arrays.items()}

    def forth(op: Any, own: Own, inputs: List[Array], training: bool) -> Array:
        return forward(op, rounded(own), [in_bfloat16(array) for array in inputs], training)

    def back(op: Any, own: Own, inputs: List[Array], output: Array, slope: Array) -> Tuple[List[Array], Own]:
        return backward(op, rounded(own), [in_bfloat16(array) for array in inputs], output, slope)

    return forth, back


MULTIPLYING = (g.Conv, g.Dense)
LAYERS_IN: Dict[str, Dict[type, Tuple[Forward, Backward]]] = {
    "float32": LAYERS,
    "bfloat16": {**LAYERS, **{layer: multiplying_bfloat16(*LAYERS[layer]) for layer in MULTIPLYING}},
}
