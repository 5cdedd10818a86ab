"""What bfloat16 alone may change: eight bits of mantissa, rounded once by each layer that computes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from paceline_worker import graph as g

UNIT = 2.0**-8  # the most by which rounding to eight bits changes a number, relative to it
ROUNDINGS = 4  # of a layer: its weights, its inputs, its output and, on the way back, its slope
AMPLIFIED = 2.0  # batch normalisation takes away what the values have in common, and leaves what rounding did to them
EXACT = (g.Input, g.Relu, g.MaxPool, g.Concat, g.Flatten, g.Dropout)  # they choose and move values, and compute none

Values = NDArray[np.float64]


def noise(graph: g.Graph) -> float:
    """How far rounding takes what has gone through the whole network, relative to its norm.

    Each rounding adds at most a unit, of random sign; what is independent adds up as its squares do.
    """
    layers = tuple(type(node.op) for node in graph.nodes.values() if not isinstance(node.op, EXACT))
    return AMPLIFIED * UNIT * math.sqrt(ROUNDINGS * longest_way(graph, layers))


def summed(values: int) -> float:
    """How far a sum of so many values may be off, relative to its size, where it is rounded after each of them.

    So JAX sums the gradient of a convolution's bias, over all pixels of all images.
    """
    return AMPLIFIED * UNIT * math.sqrt(values)


def longest_way(graph: g.Graph, counted: tuple[type[g.Op], ...]) -> int:
    """The most layers of these kinds that lie between the images and a loss."""
    depths: dict[str, int] = {}
    for node in graph.nodes.values():
        own = isinstance(node.op, counted)
        depths[node.name] = own + max((depths[source] for source in node.inputs), default=0)
    return max(depths[name] for name in graph.losses)


def room(graph: g.Graph, layer: str, outputs: Mapping[str, Values], truth: Values) -> Values:
    """How far each value of a layer's output may be off if it is the truth, rounded.

    A layer rounds its result once. Sums of several values may be rounded after each of them, when they are as large as
    the sum of all without their signs; so may what a kernel gives, before its bias is added. Processors with
    instructions for bfloat16 do that, others add in float32.
    """
    op, sources = graph.nodes[layer].op, graph.nodes[layer].inputs
    inputs = [outputs[source] for source in sources if source in outputs]
    if isinstance(op, g.Add) and len(inputs) == len(sources):
        return (len(inputs) - 1) * half_unit(np.sum(np.abs(inputs), axis=0))
    if isinstance(op, g.AveragePool) and inputs:
        return math.prod(op.kernel) * half_unit(np.maximum(np.abs(truth), typical(inputs[0])))
    once = half_unit(np.maximum(np.abs(truth), np.abs(outputs[layer])))
    if isinstance(op, g.Conv | g.Dense) and op.bias:
        return once + half_unit(np.abs(truth) + typical(truth))  # no bias is larger than that
    return once


def typical(values: Values) -> float:
    """Their size, whatever their signs."""
    return float(np.sqrt(np.mean(np.square(values))))


def half_unit(sizes: Values) -> Values:
    """Half the distance to the next number of eight bits."""
    _, exponents = np.frexp(sizes)
    return np.asarray(np.ldexp(UNIT / 2, exponents), dtype=np.float64)
