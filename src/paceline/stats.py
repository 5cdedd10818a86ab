"""How sure a number is."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 9999
NOISY = 0.10  # an interval wider than this part of its median is marked
ENOUGH_RUNS = 5  # so many come near to what an interval promises, see `range_confidence`

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


def estimate(values: Sequence[float]) -> Estimate | None:
    """Median and bootstrap interval over fresh processes."""
    if not values:
        return None
    median = statistics.median(values)
    if len(values) == 1:
        return Estimate(median)
    return Estimate(median, *_interval(_medians(values, seed=0)))


def range_confidence(runs: int) -> float:
    """How often the range of so many runs holds their true median: always but when all lie on one side of it.

    Up to `ENOUGH_RUNS` the bootstrap's interval is the range, so it can promise no more than this.
    """
    return 1 - 2.0 ** (1 - runs)


def quotient(values: Sequence[float], base: Sequence[float]) -> Estimate | None:
    """Median over median, where nobody asks how sure it is."""
    return Estimate(statistics.median(values) / statistics.median(base)) if values and base else None


def ratio(values: Sequence[float], base: Sequence[float]) -> Estimate | None:
    """Median over median, with an interval from resampling both."""
    middle = quotient(values, base)
    if middle is None or len(values) == 1 or len(base) == 1:
        return middle
    return Estimate(middle.median, *_interval(_medians(values, seed=0) / _medians(base, seed=1)))


def difference(values: Sequence[float], base: Sequence[float]) -> Estimate | None:
    """Median less median, with an interval from resampling both."""
    if not values or not base:
        return None
    middle = statistics.median(values) - statistics.median(base)
    if len(values) == 1 or len(base) == 1:
        return Estimate(middle)
    return Estimate(middle, *_interval(_medians(values, seed=0) - _medians(base, seed=1)))


def _interval(samples: Floats) -> tuple[float, float]:
    """Where the tails begin, as np.quantile has it, which takes three times as long; the samples change their order."""
    places = [tail * (len(samples) - 1) for tail in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)]
    samples.partition([neighbour for place in places for neighbour in (int(place), int(place) + 1)])
    low, high = (_between_neighbours(samples, place) for place in places)
    return low, high


def _between_neighbours(samples: Floats, place: float) -> float:
    """From the nearer one, so that rounding never leads beyond it."""
    low, high = map(float, samples[int(place) : int(place) + 2])
    part = place % 1
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def _medians(values: Sequence[float], seed: int) -> Floats:
    """Medians of resamples with replacement; seeded, so that the same results give the same report."""
    order = np.argsort(values, kind="stable")
    ordered = np.asarray(values, dtype=float)[order]
    lower, upper = _middles(seed, tuple(order.tolist()))
    return ordered[lower] if lower is upper else (ordered[lower] + ordered[upper]) / 2


@lru_cache(maxsize=512)  # five values have 120 orders, so that hundreds of cells share them
def _middles(seed: int, order: tuple[int, ...]) -> tuple[Places, Places]:
    """Which of the ordered values stand in the middle of each resample: they depend on the order of values alone."""
    count = len(order)
    places = np.argsort(order)[_picks(seed, count)]
    places.sort(axis=1)
    lower = places[:, (count - 1) // 2].copy()
    return lower, lower if count % 2 else places[:, count // 2].copy()


@lru_cache(maxsize=32)
def _picks(seed: int, count: int) -> Places:
    return np.random.default_rng(seed).integers(0, count, (RESAMPLES, count))
