"""What can be proved about a network: by these rules a change that is none is named and left out."""

from __future__ import annotations

from paceline_worker.graph import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dropout,
    Flatten,
    GlobalPool,
    Graph,
    MaxPool,
    Relu,
)

PASSING = (MaxPool, AveragePool, GlobalPool, Flatten, Dropout, Add, Concat)  # nothing negative comes of what is not


def never_negative(graph: Graph, name: str) -> bool:
    """Whether every value of a layer's output is zero or more."""
    node = graph.nodes[name]
    if isinstance(node.op, Relu):
        return True
    return isinstance(node.op, PASSING) and all(never_negative(graph, source) for source in node.inputs)


def normalised_at_once(graph: Graph, name: str) -> bool:
    """Whether a layer's output is read by batch normalisation alone, which takes any constant out again."""
    found = [node for node in graph.nodes.values() if name in node.inputs]
    return bool(found) and name not in graph.losses and all(isinstance(node.op, BatchNorm) for node in found)


def symmetric(graph: Graph, name: str) -> bool:
    """Whether padding is equal on opposite sides."""
    top, bottom, left, right = graph.nodes[name].op.padding
    return bool(top == bottom and left == right)


def one_pixel(graph: Graph, name: str) -> bool:
    """Whether a kernel has no direction."""
    op = graph.nodes[name].op
    return isinstance(op, Conv) and op.kernel == (1, 1)


def one_map(graph: Graph, name: str) -> bool:
    """Whether a map has one pixel or one channel, so that it is flattened alike in every order."""
    height, width, channels = graph.nodes[graph.nodes[name].inputs[0]].shape
    return height * width == 1 or channels == 1
