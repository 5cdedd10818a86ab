"""Student's distribution: how far off a mean may be that rests on few values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache

import numpy as np


def beyond(distance: float, freedom: float) -> float:
    """How much of Student's distribution lies further out than this, on both sides."""
    start = math.atan(distance / math.sqrt(freedom))  # with t = sqrt(freedom) tan(angle) the density is a power of cos
    return _area(start, freedom) / _whole_area(freedom)


@cache
def quantile(tails: float, freedom: float) -> float:
    """The distance beyond which so much of Student's distribution lies, on both sides together."""
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle, freedom) > tails else (low, middle)
    return low


def interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Where the true mean of two values or more lies."""
    return _around(statistics.fmean(values), [values], confidence)


def difference_interval(values: Sequence[float], base: Sequence[float], confidence: float) -> tuple[float, float]:
    """Where the difference of two true means lies, however unlike their scatter is (Welch)."""
    return _around(statistics.fmean(values) - statistics.fmean(base), [values, base], confidence)


def _around(middle: float, samples: Sequence[Sequence[float]], confidence: float) -> tuple[float, float]:
    errors = [statistics.variance(sample) / len(sample) for sample in samples]
    error = math.fsum(errors)
    if error == 0:
        return middle, middle
    # Welch and Satterthwaite's degrees of freedom, rounded down so that the interval is rather too wide.
    freedom = error**2 / math.fsum(each**2 / (len(one) - 1) for each, one in zip(errors, samples, strict=True))
    reach = quantile(1 - confidence, math.floor(freedom + 1e-9)) * math.sqrt(error)
    return middle - reach, middle + reach


@cache
def _whole_area(freedom: float) -> float:
    return _area(0.0, freedom)


def _area(start: float, freedom: float) -> float:
    angles = np.linspace(start, math.pi / 2, 4001)
    return float(np.trapezoid(np.clip(np.cos(angles), 0.0, None) ** (freedom - 1), angles))
