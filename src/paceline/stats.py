"""How sure a number is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import sub, truediv
from typing import Any

import msgspec
import numpy as np

from paceline import student

CONFIDENCE = 0.95
FEW = 9  # up to so many runs the bootstrap breaks its promise: of three it holds 75 of 100 medians, of seven 88
RESAMPLES = 9999
NOISY = 0.10  # an interval wider than this part of its median is marked

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Places = np.ndarray[tuple[int, ...], np.dtype[np.intp]]


class Estimate(msgspec.Struct, frozen=True):
    """The median of repeats with its interval; a single repeat has none."""

    median: float
    low: float | None = None
    high: float | None = None

    @property
    def width(self) -> float | None:
        """Of the interval, as a part of the median; None where there is none."""
        return None if self.low is None or self.high is None else (self.high - self.low) / self.median

    def wider_than(self, part: float) -> bool:
        """Whether the interval is wider than this part of the median."""
        return self.low is not None and self.high is not None and self.high - self.low > part * self.median


@dataclass(frozen=True)
class Scale:
    """On which runs scatter alike upwards and downwards, as Student's distribution wants them."""

    even: Callable[[float], float]
    back: Callable[[float], float]

    def evened(self, values: Sequence[float]) -> list[float]:
        return [self.even(value) for value in values]


LARGEST = 700.0  # of what has a power of e

# For what is above zero, such as seconds, speeds and their ratios; for differences; for parts of a whole.
FACTORS = Scale(math.log, lambda value: math.exp(min(value, LARGEST)))
TERMS = Scale(float, float)
PARTS = Scale(float, lambda value: min(1.0, max(0.0, value)))


def estimate(values: Sequence[float], scale: Scale = FACTORS) -> Estimate | None:
    """Median and interval over fresh processes."""
    if not values:
        return None
    median = statistics.median(values)
    if len(values) == 1:
        return Estimate(median)
    if len(values) > FEW:
        return Estimate(median, *_interval(_medians(values, seed=0)))
    fitting = _fitting(scale, values)
    return _between(median, student.mean_interval(fitting.evened(values), CONFIDENCE), fitting)


def quotient(values: Sequence[float], base: Sequence[float]) -> Estimate | None:
    """Median over median, where nobody asks how sure it is."""
    return Estimate(statistics.median(values) / statistics.median(base)) if values and base else None


def ratio(values: Sequence[float], base: Sequence[float]) -> Estimate | None:
    """Median over median of what is above zero."""
    return _compared(values, base, truediv, FACTORS)


def difference(values: Sequence[float], base: Sequence[float]) -> Estimate | None:
    """Median less median."""
    return _compared(values, base, sub, TERMS)


def _compared(
    values: Sequence[float], base: Sequence[float], held_against: Callable[[Any, Any], Any], scale: Scale
) -> Estimate | None:
    """The interval rests on the scatter of both sides."""
    if not values or not base:
        return None
    middle = held_against(statistics.median(values), statistics.median(base))
    if len(values) == 1 or len(base) == 1:
        return Estimate(middle)
    if min(len(values), len(base)) > FEW:
        return Estimate(middle, *_interval(held_against(_medians(values, seed=0), _medians(base, seed=1))))
    return _between(middle, student.difference_interval(scale.evened(values), scale.evened(base), CONFIDENCE), scale)


def _fitting(scale: Scale, values: Sequence[float]) -> Scale:
    """What is not above zero has no logarithm."""
    return TERMS if scale is FACTORS and min(values) <= 0 else scale


def _between(median: float, bounds: tuple[float, float], scale: Scale) -> Estimate:
    """The interval is one of the mean. Of runs that fall in two groups the median may lie outside, so it is widened."""
    low, high = (median, median) if bounds[0] == bounds[1] else map(scale.back, bounds)
    return Estimate(median, min(low, median), max(high, median))


def _interval(samples: Floats) -> tuple[float, float]:
    low, high = np.quantile(samples, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return float(low), float(high)


def _medians(values: Sequence[float], seed: int) -> Floats:
    """Of resamples with replacement; seeded, so that the same results give the same report."""
    ordered: Floats = np.sort(np.asarray(values, dtype=float))
    lower, upper = _middles(seed, len(values))
    return (ordered[lower] + ordered[upper]) / 2


@lru_cache(maxsize=32)
def _middles(seed: int, count: int) -> tuple[Places, Places]:
    """Which of so many ordered values stand in the middle of each resample, whatever the values are."""
    picks = np.sort(np.random.default_rng(seed).integers(0, count, (RESAMPLES, count)), axis=1)
    return picks[:, (count - 1) // 2].copy(), picks[:, count // 2].copy()
