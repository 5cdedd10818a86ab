"""How sure a number is."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec
import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 9999
NOISY = 0.10  # an interval wider than this part of its median is marked


class Estimate(msgspec.Struct, frozen=True):
    """The median of repeats with its interval; a single repeat has none."""

    median: float
    low: float | None = None
    high: float | None = None

    def wider_than(self, part: float) -> bool:
        """Whether the interval is wider than this part of the median."""
        return self.low is not None and self.high is not None and self.high - self.low > part * self.median


def estimate(values: Sequence[float]) -> Estimate | None:
    """Median and bootstrap interval over fresh processes."""
    if not values:
        return None
    median = statistics.median(values)
    if len(values) == 1:
        return Estimate(median)
    low, high = np.quantile(_medians(values, seed=0), _tails())
    return Estimate(median, float(low), float(high))


def ratio(values: Sequence[float], base: Sequence[float]) -> Estimate | None:
    """Median over median, with an interval from resampling both."""
    if not values or not base:
        return None
    middle = statistics.median(values) / statistics.median(base)
    if len(values) == 1 or len(base) == 1:
        return Estimate(middle)
    low, high = np.quantile(_medians(values, seed=0) / _medians(base, seed=1), _tails())
    return Estimate(middle, float(low), float(high))


def difference(values: Sequence[float], base: Sequence[float]) -> Estimate | None:
    """Median less median, with an interval from resampling both."""
    if not values or not base:
        return None
    middle = statistics.median(values) - statistics.median(base)
    if len(values) == 1 or len(base) == 1:
        return Estimate(middle)
    low, high = np.quantile(_medians(values, seed=0) - _medians(base, seed=1), _tails())
    return Estimate(middle, float(low), float(high))


def _medians(values: Sequence[float], seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Medians of resamples with replacement; seeded, so that the same results give the same report."""
    picks = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    medians: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = np.median(
        np.asarray(values, dtype=float)[picks], axis=1
    )
    return medians


def _tails() -> tuple[float, float]:
    return (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
