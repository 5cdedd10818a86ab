"""How sure a number is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import sub, truediv

import msgspec

from paceline.analysis.statistics import order_statistics, student_t

CONFIDENCE = 0.95
# Where runs are added until the interval is narrow enough, they stop soonest where they happen to lie close together.
# An interval that holds the median in 98 of 100 cases at each look still does in 93 to 97 at the look that ends it, if
# the first is taken of five runs: `python -m benchmarks.coverage`.
SEQUENTIAL_CONFIDENCE = 0.98
LEAST_TO_STOP = 5
FEW = 4  # up to so many runs even their range holds the true median too seldom: in 50, 75 and 88 of 100 cases
NOISY = 0.10  # an interval wider than this part of its median is marked


def confidence_of(*, sequential: bool) -> float:
    """What an interval is asked for, so that 95 of 100 hold the true value."""
    return SEQUENTIAL_CONFIDENCE if sequential else CONFIDENCE


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
class SymmetricScale:
    """On which runs scatter alike upwards and downwards, as Student's distribution wants them."""

    even: Callable[[float], float]
    back: Callable[[float], float]
    holds: Callable[[float], bool]  # what can be on it
    ends: Callable[[float], tuple[float, float]]  # beyond which no interval around this median goes

    def evened(self, values: Sequence[float]) -> list[float]:
        return [self.even(value) for value in values]

    def fitting(self, values: Sequence[float]) -> SymmetricScale:
        """This one, unless a value cannot be on it."""
        return self if all(map(self.holds, values)) else TERMS


LARGEST = 700.0  # of what has a power of e
FURTHEST = 10.0  # Of two runs an interval may be millions wide, but no speed is in doubt by more than this factor.


def _is_part(value: float) -> bool:
    return 0 <= value <= 1


# For what is above zero, such as seconds, speeds and their ratios.
FACTORS = SymmetricScale(
    math.log,
    lambda value: math.exp(min(value, LARGEST)),
    lambda value: value > 0,
    lambda median: (median / FURTHEST, median * FURTHEST),
)
TERMS = SymmetricScale(float, float, lambda _: True, lambda _: (-math.inf, math.inf))  # for differences
PARTS = SymmetricScale(float, float, _is_part, lambda _: (0.0, 1.0))  # of a whole, such as accuracies
PART_DIFFERENCES = SymmetricScale(float, float, _is_part, lambda _: (-1.0, 1.0))  # for differences of parts


def estimate(
    values: Sequence[float], scale: SymmetricScale = FACTORS, confidence: float = CONFIDENCE
) -> Estimate | None:
    """Median and interval over fresh processes."""
    if not values:
        return None
    median = statistics.median(values)
    if len(values) == 1:
        return Estimate(median)
    fitting = scale.fitting(values)
    method = student_t if len(values) <= FEW else order_statistics
    return _between(median, method.interval(fitting.evened(values), confidence), fitting)


def ratio(values: Sequence[float], base: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """Median over median of what is above zero."""
    return _compared(values, base, truediv, FACTORS, confidence)


def difference(
    values: Sequence[float], base: Sequence[float], scale: SymmetricScale = TERMS, confidence: float = CONFIDENCE
) -> Estimate | None:
    """Median less median."""
    return _compared(values, base, sub, scale.fitting([*values, *base]), confidence)


def _compared(
    values: Sequence[float],
    base: Sequence[float],
    held_against: Callable[[float, float], float],
    scale: SymmetricScale,
    confidence: float,
) -> Estimate | None:
    """The interval rests on the scatter of both sides."""
    if not values or not base:
        return None
    middle = held_against(statistics.median(values), statistics.median(base))
    if len(values) == 1 or len(base) == 1:
        return Estimate(middle)
    method = student_t if min(len(values), len(base)) <= FEW else order_statistics
    return _between(middle, method.difference_interval(scale.evened(values), scale.evened(base), confidence), scale)


def _between(median: float, bounds: tuple[float, float], scale: SymmetricScale) -> Estimate:
    """Student's interval is one of the mean: where the median lies outside, it is widened."""
    if bounds[0] == bounds[1]:
        return Estimate(median, median, median)
    (low, high), (least, most) = map(scale.back, bounds), scale.ends(median)
    return Estimate(median, min(max(low, least), median), max(min(high, most), median))
