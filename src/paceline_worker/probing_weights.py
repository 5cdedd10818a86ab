"""Weights on which a probe looks at a network, so that nothing hides behind a zero, a one or a large number."""

from __future__ import annotations

import math
import zlib
from typing import Dict, List, NamedTuple, Optional

import numpy as np

from paceline_worker.graph import BatchNorm, Conv, Dense, Graph
from paceline_worker.weights import Array, Weights, initial_weights

# How far arrays that start as a constant are moved: a decay of a bias of zero, or a factor of one, could not be seen.
MOVED = {"bias": 0.3, "beta": 0.3, "gamma": 0.4, "mean": 0.3, "variance": 0.5}
GLARE = 64.0  # how much brighter images make gradients large where no batch normalisation takes that away
PIXEL_DEVIATION = 1 / math.sqrt(3)  # of fake images, which are even between -1 and 1


def probing_weights(graph: Graph, seed: int) -> Weights:
    """The initial weights, with every constant but a frozen one moved a little at random."""
    weights = initial_weights(graph, seed)
    for name, parameter in graph.parameters().items():
        if parameter.role in MOVED and parameter.kind != "frozen":
            weights[name] = _moved(name, weights[name], MOVED[parameter.role], seed)
    return weights


def _moved(name: str, values: Array, by: float, seed: int) -> Array:
    stream = np.random.RandomState([seed, zlib.crc32(b"moved " + name.encode())])
    if name.endswith(".variance"):
        values = np.ones_like(values)  # some start from zero, and a variance cannot be less
    return np.asarray(values + stream.uniform(-by, by, values.shape), dtype=np.float32)


class Strained(NamedTuple):
    """Weights and a factor for the images with which batch normalisation is given values as small as its epsilon."""

    weights: Weights
    brightness: float


def strained(graph: Graph, weights: Weights) -> Strained:
    """Make small what batch normalisation takes: then its epsilon matters, and gradients are large.

    Without batch normalisation brighter images make them so.
    """
    changed = dict(weights)
    for node in graph.nodes.values():
        norm = _norm_behind(graph, node.name)
        if norm is None or not isinstance(node.op, (Conv, Dense)):
            continue
        kernel = weights[f"{node.name}.kernel"]
        usual = math.sqrt(float(np.mean(np.square(kernel, dtype=np.float64))) * kernel.size / kernel.shape[-1])
        for name in (f"{node.name}.kernel", f"{node.name}.bias"):
            if name in weights:
                changed[name] = weights[name] * np.float32(_factor(norm, usual))
    norm = _norm_behind(graph, graph.input.name)
    if norm is not None:
        return Strained(changed, _factor(norm, PIXEL_DEVIATION))
    normalised = any(isinstance(node.op, BatchNorm) for node in graph.nodes.values())
    return Strained(changed, 1.0 if normalised else GLARE)


def _factor(norm: BatchNorm, deviation: float) -> float:
    """What brings this deviation near to the root of epsilon; a power of two rounds nothing."""
    return 2.0 ** round(math.log2(math.sqrt(norm.epsilon) / deviation))


def _norm_behind(graph: Graph, name: str) -> Optional[BatchNorm]:
    """The first batch normalisation that takes what this layer gives, before another kernel."""
    readers: Dict[str, List[str]] = {}
    for node in graph.nodes.values():
        for source in node.inputs:
            readers.setdefault(source, []).append(node.name)
    reached = [name]
    for current in reached:
        for reader in readers.get(current, []):
            op = graph.nodes[reader].op
            if isinstance(op, BatchNorm):
                return op
            if not isinstance(op, (Conv, Dense)) and reader not in reached:
                reached.append(reader)
    return None
