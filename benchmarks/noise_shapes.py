"""How runs of one cell may scatter: the shapes of noise on which intervals are tried."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Shape = Callable[[np.random.Generator, tuple[int, int]], Floats]


def even(stream: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.exp(0.03 * stream.normal(size=shape))


def sometimes_disturbed(stream: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.exp(0.02 * stream.normal(size=shape)) / np.where(stream.random(shape) < 0.1, 1.3, 1.0)


def often_disturbed(stream: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.exp(0.02 * stream.normal(size=shape)) / np.where(stream.random(shape) < 0.3, 1.3, 1.0)


def only_ever_slower(stream: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return 1 / (1 + 0.05 * stream.exponential(size=shape))


SHAPES: dict[str, Shape] = {
    "even": even,
    "a tenth disturbed": sometimes_disturbed,
    "three tenths disturbed": often_disturbed,
    "only ever slower": only_ever_slower,
}


@cache
def true_median(shape: Shape) -> float:
    return float(np.median(shape(np.random.default_rng(0), (2000, 2000))))
