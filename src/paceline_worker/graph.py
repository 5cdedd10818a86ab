"""The neutral graph: which layers a network has, what they compute and what they hold.

Shapes leave out the batch and put channels last: `(height, width, channels)` or `(features,)`. Weights have one neutral
layout too: convolution kernels are (height, width, in, out), dense kernels (in, out), and `Flatten` runs in that same
(height, width, channels) order. A builder translates; it never guesses.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Tuple

Shape = Tuple[int, ...]
Padding = Tuple[
    int, int, int, int
]  # top, bottom, left, right: frameworks differ on the odd pixel's side, so all are said


@dataclass(frozen=True)
class Init:
    """How a kernel starts: a rule of `weights.RULES` and its one number."""

    rule: str
    scale: float = 1.0


@dataclass(frozen=True)
class Parameter:
    """One array a layer holds; `role` decides about weight decay, `kind` who changes it."""

    name: str
    shape: Shape
    role: str  # conv.kernel, dense.kernel, bias, gamma, beta, mean or variance
    kind: str  # trainable (by the optimiser), frozen (by nobody), running (by batch normalisation)
    init: Init


class Op:
    """What every layer answers: the shape it gives, the arrays it holds and the multiplications it takes."""

    inputs: ClassVar[int] = 1  # how many it takes; 0 is none, -1 any number

    def shape(self, *inputs: Shape) -> Shape:
        return inputs[0]

    def parameters(self, source: Shape) -> list[Parameter]:
        return []

    def macs(self, source: Shape) -> int:
        """Multiply-accumulates of one image's forward pass; only convolutions and dense layers count."""
        return 0


@dataclass(frozen=True)
class Input(Op):
    size: Shape
    inputs: ClassVar[int] = 0

    def shape(self, *inputs: Shape) -> Shape:
        return self.size


@dataclass(frozen=True)
class Conv(Op):
    channels: int
    kernel: Shape  # (height, width)
    stride: Shape = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    bias: bool = False
    init: Init = Init("he_normal_fan_in")

    def shape(self, *inputs: Shape) -> Shape:
        return (*window(inputs[0], self.kernel, self.stride, self.padding), self.channels)

    def parameters(self, source: Shape) -> list[Parameter]:
        kernel = (*self.kernel, source[-1], self.channels)
        return [Parameter("kernel", kernel, "conv.kernel", "trainable", self.init), *biases(self.bias, self.channels)]

    def macs(self, source: Shape) -> int:
        height, width, channels = self.shape(source)
        return int(height * width * channels * math.prod(self.kernel) * source[-1])


@dataclass(frozen=True)
class Dense(Op):
    features: int
    bias: bool = True
    init: Init = Init("he_normal_fan_in")

    def shape(self, *inputs: Shape) -> Shape:
        if len(inputs[0]) != 1:
            raise ValueError(f"Dense takes a flat input, not {inputs[0]}; put Flatten or GlobalPool before it.")
        return (self.features,)

    def parameters(self, source: Shape) -> list[Parameter]:
        kernel = Parameter("kernel", (source[0], self.features), "dense.kernel", "trainable", self.init)
        return [kernel, *biases(self.bias, self.features)]

    def macs(self, source: Shape) -> int:
        return int(source[0] * self.features)


@dataclass(frozen=True)
class BatchNorm(Op):
    """Normalise each channel with the biased variance of the batch; keep running values for evaluation."""

    epsilon: float
    decay: float  # running = decay * running + (1 - decay) * batch
    trained_gamma: bool = True  # otherwise gamma stays 1
    unbiased_running_variance: bool = True  # the running variance takes n / (n - 1) times that of the batch
    first_running_variance: float = 1.0

    def parameters(self, source: Shape) -> list[Parameter]:
        rows = [
            ("gamma", "trainable" if self.trained_gamma else "frozen", 1.0),
            ("beta", "trainable", 0.0),
            ("mean", "running", 0.0),
            ("variance", "running", self.first_running_variance),
        ]
        return [Parameter(name, source[-1:], name, kind, Init("constant", start)) for name, kind, start in rows]


@dataclass(frozen=True)
class Relu(Op):
    pass


@dataclass(frozen=True)
class Tanh(Op):
    pass


@dataclass(frozen=True)
class Dropout(Op):
    rate: float


@dataclass(frozen=True)
class MaxPool(Op):
    """Padding never wins: it counts as minus infinity."""

    kernel: Shape
    stride: Shape
    padding: Padding = (0, 0, 0, 0)

    def shape(self, *inputs: Shape) -> Shape:
        return (*window(inputs[0], self.kernel, self.stride, self.padding), inputs[0][-1])


@dataclass(frozen=True)
class AveragePool(Op):
    kernel: Shape
    stride: Shape
    padding: Padding = (0, 0, 0, 0)
    count_padding: bool = True  # divide by the window's size everywhere, or by the pixels that are inside the image

    def shape(self, *inputs: Shape) -> Shape:
        return (*window(inputs[0], self.kernel, self.stride, self.padding), inputs[0][-1])


@dataclass(frozen=True)
class GlobalPool(Op):
    """Average of each channel over the whole map."""

    def shape(self, *inputs: Shape) -> Shape:
        return inputs[0][-1:]


@dataclass(frozen=True)
class Flatten(Op):
    def shape(self, *inputs: Shape) -> Shape:
        return (math.prod(inputs[0]),)


@dataclass(frozen=True)
class Add(Op):
    inputs: ClassVar[int] = -1

    def shape(self, *inputs: Shape) -> Shape:
        if len(set(inputs)) != 1:
            raise ValueError(f"Add needs inputs of one shape, not {', '.join(map(str, inputs))}.")
        return inputs[0]


@dataclass(frozen=True)
class Concat(Op):
    """Join on channels, in the order of the inputs."""

    inputs: ClassVar[int] = -1

    def shape(self, *inputs: Shape) -> Shape:
        if len({shape[:-1] for shape in inputs}) != 1:
            raise ValueError(f"Concat needs maps of one size, not {', '.join(map(str, inputs))}.")
        return (*inputs[0][:-1], sum(shape[-1] for shape in inputs))


OPS: dict[str, Any] = {op.__name__: op for op in Op.__subclasses__()}


@dataclass(frozen=True)
class Node:
    name: str
    op: Any  # one of OPS
    inputs: Tuple[str, ...]
    shape: Shape


class Graph:
    """Nodes in the order they are computed, and the outputs that the loss is taken from."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.losses: dict[str, float] = {}  # node of logits -> its weight in the loss; the first is the prediction

    def add(self, name: str, op: Any, *inputs: str) -> str:
        """Append a layer and give its name, so that calls can be chained; a wrong shape fails here."""
        if name in self.nodes:
            raise ValueError(f"There is a layer named {name!r} already.")
        if op.inputs >= 0 and len(inputs) != op.inputs:
            raise ValueError(f"{type(op).__name__} takes {op.inputs} inputs, {name!r} gives it {len(inputs)}.")
        for source in inputs:
            if source not in self.nodes:
                raise ValueError(f"{name!r} takes {source!r}, which is no layer before it.")
        shape = op.shape(*(self.nodes[source].shape for source in inputs))
        self.nodes[name] = Node(name, op, inputs, shape)
        return name

    def lose(self, logits: str, weight: float = 1.0) -> Graph:
        """Take softmax cross-entropy from `logits`, averaged over the batch, with this weight in the sum."""
        self.losses[logits] = weight
        return self

    @property
    def prediction(self) -> str:
        return next(iter(self.losses))

    @property
    def input(self) -> Node:
        return next(node for node in self.nodes.values() if isinstance(node.op, Input))

    def source(self, node: Node) -> Shape:
        """Shape of the node's first input."""
        return self.nodes[node.inputs[0]].shape if node.inputs else ()

    def parameters(self) -> dict[str, Parameter]:
        """Every array of the network as `layer.name`, in the order of the layers."""
        return {
            f"{node.name}.{parameter.name}": parameter
            for node in self.nodes.values()
            for parameter in node.op.parameters(self.source(node))
        }

    def names(self, kind: str) -> list[str]:
        """Of all arrays of one kind."""
        return [name for name, parameter in self.parameters().items() if parameter.kind == kind]

    def to_json(self) -> dict[str, Any]:
        nodes = [
            {"name": node.name, "op": type(node.op).__name__, "inputs": list(node.inputs), **asdict(node.op)}
            for node in self.nodes.values()
        ]
        return {"nodes": nodes, "losses": self.losses}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Graph:
        graph = cls()
        for node in value["nodes"]:
            op = OPS[node["op"]]
            settings = {field.name: thaw(node[field.name]) for field in fields(op) if field.name in node}
            graph.add(node["name"], op(**settings), *node["inputs"])
        graph.losses = dict(value["losses"])
        return graph


def thaw(value: Any) -> Any:
    """Give a JSON value the type that the op's field has."""
    if isinstance(value, list):
        return tuple(value)
    return Init(**value) if isinstance(value, dict) else value


def biases(wanted: bool, count: int) -> list[Parameter]:
    return [Parameter("bias", (count,), "bias", "trainable", Init("constant", 0.0))] if wanted else []


def window(source: Shape, kernel: Shape, stride: Shape, padding: Padding) -> Shape:
    """Height and width after sliding a window; a last part that does not fill it is dropped."""
    height, width, _ = source
    top, bottom, left, right = padding
    out = ((height + top + bottom - kernel[0]) // stride[0] + 1, (width + left + right - kernel[1]) // stride[1] + 1)
    if min(out) < 1:
        raise ValueError(f"A window of {kernel} does not fit into {source} with padding {padding}.")
    return out


def same_padding(source: Shape, kernel: Shape, stride: Shape) -> Padding:
    """TensorFlow's SAME rule: as many outputs as strides begin inside the map; the odd pixel goes behind."""
    rows, columns = (
        max((-(-size // step) - 1) * step + wide - size, 0) for size, wide, step in zip(source, kernel, stride)
    )
    return rows // 2, rows - rows // 2, columns // 2, columns - columns // 2
