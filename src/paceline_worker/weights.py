"""Initial weights: made once, here, from the seed, and given to every framework."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Tuple

import numpy as np

from paceline_worker.graph import Graph, Parameter, Shape

Array = Any  # numpy.ndarray; not spelled out, because its generic form differs between the NumPys of the frameworks
Weights = Dict[str, Array]


def initial_weights(graph: Graph, seed: int) -> Weights:
    """Every array of the network in float32; each has a stream of its own, so adding a layer changes no other."""
    return {name: initial(name, parameter, seed) for name, parameter in graph.parameters().items()}


def initial(name: str, parameter: Parameter, seed: int) -> Array:
    # RandomState, not Generator: its stream is frozen, so NumPy 1.23 and 2.4 make the same weights.
    stream = np.random.RandomState([seed, zlib.crc32(name.encode())])
    rule = RULES[parameter.init.rule]
    return np.asarray(rule(stream, parameter.shape, parameter.init.scale), dtype=np.float32)


def fan_in(shape: Shape) -> int:
    return int(math.prod(shape[:-1]))


def fan_out(shape: Shape) -> int:
    return int(math.prod(shape[:-2]) * shape[-1])


def truncated_normal(stream: Any, shape: Shape, deviation: float) -> Array:
    """Normal values, drawn again until they lie within two deviations."""
    values = stream.standard_normal(shape)
    far = np.abs(values) > 2
    while far.any():
        values[far] = stream.standard_normal(int(far.sum()))
        far = np.abs(values) > 2
    return values * deviation


def glorot_uniform(stream: Any, shape: Shape, scale: float) -> Array:
    limit = scale * math.sqrt(6 / (fan_in(shape) + fan_out(shape)))
    return stream.uniform(-limit, limit, shape)


RULES: Dict[str, Callable[[Any, Shape, float], Array]] = {
    "constant": lambda stream, shape, scale: np.full(shape, scale),
    "uniform": lambda stream, shape, scale: stream.uniform(-scale, scale, shape),
    "normal": lambda stream, shape, scale: stream.standard_normal(shape) * scale,
    "he_normal_fan_in": lambda stream, shape, scale: (
        stream.standard_normal(shape) * scale * math.sqrt(2 / fan_in(shape))
    ),
    "he_normal_fan_out": lambda stream, shape, scale: (
        stream.standard_normal(shape) * scale * math.sqrt(2 / fan_out(shape))
    ),
    "glorot_uniform": glorot_uniform,
    "truncated_normal": truncated_normal,
}


@dataclass(frozen=True)
class Layout:
    """The order in which a framework has the axes of its kernels, by role; all else it has as it is here."""

    axes: Dict[str, Tuple[int, ...]]

    def from_neutral(self, role: str, array: Array) -> Array:
        return np.ascontiguousarray(array.transpose(self.axes[role]) if role in self.axes else array)

    def to_neutral(self, role: str, array: Array) -> Array:
        return array.transpose(np.argsort(self.axes[role])) if role in self.axes else array


def channels_last(array: Array) -> Array:
    """Maps that a framework has channels first; flat features stay as they are."""
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
