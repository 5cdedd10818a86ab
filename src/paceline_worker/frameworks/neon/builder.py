"""Graph to neon: native layers in the order they run, channels first with the images last, and small ones it lacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
from neon import transforms
from neon.initializers import Constant
from neon.layers import Activation, BatchNorm, Bias, Convolution, Dropout, Linear, Pooling, SkipNode
from neon.layers.layer import Convolution_bias, Layer

from paceline_worker import graph as g
from paceline_worker.weights import Array

Tensor = Any
LOWEST = -3.4e38  # below all that a network computes
EMPTY = Constant(0.0)  # neon insists on initialising; the weights are written later


class Pad(Layer):
    """Puts a frame around each map, of any width on each side; neon's own padding is equal on opposite sides."""

    def __init__(self, padding: g.Padding, filler: float) -> None:
        super().__init__()
        self.padding, self.filler = padding, filler

    def configure(self, in_shape: g.Shape) -> Layer:
        super().configure(in_shape)
        top, bottom, left, right = self.padding
        channels, height, width = in_shape
        self.out_shape = (channels, height + top + bottom, width + left + right)
        return self

    def allocate(self, shared_outputs: Tensor = None) -> None:
        super().allocate(shared_outputs)
        self.outputs.fill(self.filler)

    def rows(self, small: Tensor, large: Tensor) -> Iterator[Tuple[Tensor, Tensor]]:
        """Each row of the maps with its place in the frame: slices in two dimensions, as GPUs can copy only those."""
        top, _, left, _ = self.padding
        channels, height, width = self.in_shape
        inner, outer, start = width * self.be.bsz, self.out_shape[2] * self.be.bsz, left * self.be.bsz
        small, large = small.reshape((channels, -1)), large.reshape((channels, -1))
        for row in range(height):
            place = (top + row) * outer + start
            yield small[:, row * inner : (row + 1) * inner], large[:, place : place + inner]

    def fprop(self, inputs: Tensor, inference: bool = False) -> Tensor:
        for inside, framed in self.rows(inputs, self.outputs):
            framed[:] = inside
        return self.outputs

    def bprop(self, error: Tensor) -> Tensor:
        for inside, framed in self.rows(self.deltas, error):
            inside[:] = framed
        return self.deltas


class ChannelsLast(Layer):
    """Flattens as the graph does, channels last."""

    def configure(self, in_shape: g.Shape) -> Layer:
        super().configure(in_shape)
        self.pixels = int(np.prod(in_shape[1:]))
        self.out_shape = (in_shape[0] * self.pixels, 1)
        return self

    def fprop(self, inputs: Tensor, inference: bool = False) -> Tensor:
        self.swap(inputs, self.outputs, self.in_shape[0], self.pixels)
        return self.outputs

    def bprop(self, error: Tensor) -> Tensor:
        self.swap(error, self.deltas, self.pixels, self.in_shape[0])
        return self.deltas

    def swap(self, source: Tensor, target: Tensor, first: int, second: int) -> None:
        size = self.be.bsz
        self.be.copy_transpose(source.reshape((first, second, size)), target.reshape((second, first, size)), (1, 0, 2))


class Inverted(Dropout):
    """Dropout that scales up in training; neon's scales down in evaluation, unless it imitates Caffe in all layers."""

    def __init__(self, keep: float) -> None:
        super().__init__(keep)
        self.caffe_mode, self._train_scaling = True, 1 / keep


class Sum(Layer):
    """Adds its inputs; the network hands its error on to each."""

    def configure(self, in_shapes: List[g.Shape]) -> Layer:
        super().configure(in_shapes)
        self.out_shape = in_shapes[0]
        return self

    def fprop(self, inputs: List[Tensor], inference: bool = False) -> Tensor:
        self.outputs[:] = reduce(add, inputs)
        return self.outputs

    def parts(self, error: Tensor) -> List[Tensor]:
        return [error] * len(self.in_shape)


class Join(Layer):
    """Puts its inputs below each other, which joins channels; the network hands the parts of its error on."""

    def configure(self, in_shapes: List[g.Shape]) -> Layer:
        super().configure(in_shapes)
        self.out_shape = (sum(shape[0] for shape in in_shapes), *in_shapes[0][1:])
        return self

    def fprop(self, inputs: List[Tensor], inference: bool = False) -> Tensor:
        for part, source in zip(self.parts(self.outputs), inputs):
            part[:] = source
        return self.outputs

    def parts(self, whole: Tensor) -> List[Tensor]:
        sizes = [int(np.prod(shape)) for shape in self.in_shape]
        return [whole[int(end) - size : int(end)] for size, end in zip(sizes, np.cumsum(sizes))]


JOINING = (Sum, Join)  # layers with several inputs
Layers = List[Layer]  # run one after another


def padded(op: Any, filler: float) -> Tuple[Layers, Dict[str, int]]:
    """A layer that pads before, where neon's own padding cannot, and the padding that is left to the layer itself."""
    top, bottom, left, right = op.padding
    if top == bottom and left == right:
        return [], {"pad_h": top, "pad_w": left}
    return [Pad(op.padding, filler)], {"pad_h": 0, "pad_w": 0}


def strides(op: Any) -> Dict[str, int]:
    return {"str_h": op.stride[0], "str_w": op.stride[1]}


def conv(op: g.Conv) -> Layers:
    before, padding = padded(op, 0.0)
    shape = (*op.kernel, op.channels)
    if op.bias:
        return [*before, Convolution_bias(shape, strides(op), padding, init=EMPTY, bias=EMPTY)]
    return [*before, Convolution(shape, strides(op), padding, init=EMPTY)]


def max_pool(op: g.MaxPool) -> Layers:
    before, padding = padded(op, LOWEST)
    return [*before, Pooling(op.kernel, op="max", strides=strides(op), padding=padding)]


def average_pool(op: g.AveragePool) -> Layers:
    """Neon divides by the pixels inside the image; a frame of zeros makes all of them inside."""
    before, padding = padded(op, 0.0)
    if before and not op.count_padding:
        raise NotImplementedError("neon cannot leave uneven padding out of an average pool's divisor.")
    if any(op.padding) and op.count_padding:
        before, padding = [Pad(op.padding, 0.0)], {}
    return [*before, Pooling(op.kernel, op="avg", strides=strides(op), padding=padding)]


LAYERS: Dict[type, Callable[[Any], Layers]] = {
    g.Conv: conv,
    g.Dense: lambda op: [Linear(op.features, EMPTY), *([Bias(EMPTY)] if op.bias else [])],
    g.BatchNorm: lambda op: [BatchNorm(rho=op.decay, eps=op.epsilon)],
    g.Relu: lambda op: [Activation(transforms.Rectlin())],
    g.Tanh: lambda op: [Activation(transforms.Tanh())],
    g.Dropout: lambda op: [Inverted(1 - op.rate)],
    g.MaxPool: max_pool,
    g.AveragePool: average_pool,
    g.GlobalPool: lambda op: [Pooling("all", op="avg")],
    g.Flatten: lambda op: [ChannelsLast()],
    g.Add: lambda op: [Sum()],
    g.Concat: lambda op: [Join()],
    g.Input: lambda op: [],
}

# These overwrite their input. That is safe where nobody else reads it: no other layer, and not the one that made it, in
# its backward pass.
OVERWRITING = (g.Relu, g.Tanh, g.Dropout)
OVERWRITABLE = (g.Conv, g.Dense, g.BatchNorm, g.MaxPool, g.AveragePool, g.GlobalPool, g.Add, g.Concat)


@dataclass(frozen=True)
class Step:
    """One neon layer and what it reads; the last one of a node bears the node's name."""

    name: str
    node: str
    layer: Layer
    sources: Tuple[str, ...]


def steps(graph: g.Graph) -> List[Step]:
    """All layers of the network in the order they run, configured and allocated."""
    readers = Counter([source for node in graph.nodes.values() for source in node.inputs] + list(graph.losses))
    shapes = {graph.input.name: channels_first(graph.input.shape)}
    found: List[Step] = []
    for node in graph.nodes.values():
        layers, sources = LAYERS[type(node.op)](node.op), node.inputs
        source = graph.nodes[sources[0]] if sources else node
        if isinstance(node.op, OVERWRITING) and (readers[source.name] > 1 or not isinstance(source.op, OVERWRITABLE)):
            layers = [SkipNode(), *layers]  # which copies
        for layer in layers:
            name = node.name if layer is layers[-1] else f"{node.name}/{len(found)}"
            incoming = [shapes[name] for name in sources]
            layer.configure(incoming if isinstance(layer, JOINING) else incoming[0])
            layer.allocate()
            shapes[name] = layer.out_shape
            found.append(Step(name, node.name, layer, sources))
            sources = (name,)
    return found


# Where a layer keeps what the graph calls so: the array and its gradient.
HELD: Dict[type, Dict[str, Tuple[str, str]]] = {
    Convolution: {"kernel": ("W", "dW")},
    Convolution_bias: {"kernel": ("W", "dW"), "bias": ("weight_bias", "grad_bias")},
    Linear: {"kernel": ("W", "dW")},
    Bias: {"bias": ("W", "dW")},
    BatchNorm: {
        "gamma": ("gamma", "grad_gamma"),
        "beta": ("beta", "grad_beta"),
        "mean": ("gmean", ""),
        "variance": ("gvar", ""),
    },
}


def held(steps: List[Step], *, gradients: bool) -> Dict[str, Tensor]:
    """The arrays of all layers by their neutral names, or the gradients of those that have one."""
    return {
        f"{step.node}.{name}": getattr(step.layer, attributes[gradients])
        for step in steps
        for name, attributes in HELD.get(type(step.layer), {}).items()
        if attributes[gradients]
    }


ALIGNED = 32  # numbers, which are 128 bytes: kernels are made for tensors that begin there


def laid_out(backend: Any, steps: List[Step], gradients: bool) -> Tensor:
    """One long tensor, of which the gradients of all layers are parts from now on, or the weights that have one."""
    places = [
        (step.layer, attributes[gradients])
        for step in steps
        for attributes in HELD.get(type(step.layer), {}).values()
        if attributes[True]
    ]
    rooms = [-(-getattr(*place).size // ALIGNED) * ALIGNED for place in places]
    long = backend.zeros((sum(rooms), 1))
    for (layer, attribute), end, room in zip(places, np.cumsum(rooms), rooms):
        shape, start = getattr(layer, attribute).shape, int(end) - room
        part = long[start : start + int(np.prod(shape))].reshape(shape)
        setattr(layer, attribute, part)
    return long


def from_neutral(role: str, array: Array) -> Array:
    """As neon's tensors have it: two dimensions."""
    if role == "conv.kernel":
        array = array.transpose(2, 0, 1, 3).reshape(-1, array.shape[-1])
    elif role == "dense.kernel":
        array = array.T
    return np.ascontiguousarray(array.reshape(len(array), -1), dtype=np.float32)


def to_neutral(parameter: g.Parameter, array: Array) -> Array:
    if parameter.role == "conv.kernel":
        height, width, channels, filters = parameter.shape
        return array.reshape(channels, height, width, filters).transpose(1, 2, 0, 3)
    return array.T if parameter.role == "dense.kernel" else array.reshape(parameter.shape)


def channels_first(shape: g.Shape) -> g.Shape:
    return (shape[-1], *shape[:-1]) if len(shape) > 1 else (*shape, 1)


def images_first(shape: g.Shape, array: Array) -> Array:
    """A tensor of neon in the graph's order: image, height, width, channel."""
    if len(shape) == 1:
        return array.T
    return array.reshape(*channels_first(shape), -1).transpose(3, 1, 2, 0)
