"""Whether two samples of runs differ, or chance alone could have made them look so."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

from paceline.analysis.statistics.student_t import beyond, quantile

LEVEL = 0.05  # a difference that chance makes less often than this is believed
POWER = 0.8  # a difference is called detectable if it is found so often
EXACT_PAIRS = 2500  # up to so many pairs of values all orders are counted; the approximation is good long before


def mann_whitney(values: Sequence[float], base: Sequence[float]) -> float:
    """Two-sided p-value: how often values from one and the same source would be as far apart in rank."""
    above = sum((value > other) + 0.5 * (value == other) for value in values for other in base)
    pairs = len(values) * len(base)
    smaller = min(above, pairs - above)
    ties = [count for count in Counter([*values, *base]).values() if count > 1]
    if ties or pairs > EXACT_PAIRS:
        return _by_normal(smaller, len(values), len(base), ties)
    ways = _orders(len(values), len(base))
    return min(1.0, 2 * sum(ways[: int(smaller) + 1]) / sum(ways))


def smallest_p(runs: int, base_runs: int) -> float:
    """What `mann_whitney` gives when every value lies above every other: no sample of this size can do better."""
    return min(1.0, 2 / math.comb(runs + base_runs, runs))


def runs_needed() -> int:
    """How many runs on each side are the fewest that can show a difference at all."""
    return next(runs for runs in range(1, 100) if smallest_p(runs, runs) < LEVEL)


@dataclass(frozen=True)
class Scatter:
    """How much runs of one and the same cell differ, seen on several cells: a few runs of one do not tell it."""

    deviation: float
    freedom: int  # how many runs it rests on beyond one of each cell

    @classmethod
    def of(cls, *samples: Sequence[float]) -> Scatter:
        """Pooled; each sample has two values or more."""
        freedom = sum(len(sample) - 1 for sample in samples)
        means = [statistics.fmean(sample) for sample in samples]
        squares = math.fsum(
            (value - mean) ** 2 for sample, mean in zip(samples, means, strict=True) for value in sample
        )
        return cls(math.sqrt(squares / freedom), freedom)

    def chance(self, values: Sequence[float], base: Sequence[float]) -> float:
        """Two-sided p-value of a t-test: how often equal means would look as far apart."""
        gap = abs(statistics.fmean(values) - statistics.fmean(base))
        if self.deviation == 0 or gap == 0:
            return 0.0 if gap else 1.0
        return beyond(gap / (self.deviation * math.sqrt(1 / len(values) + 1 / len(base))), self.freedom)


def detectable(values: Sequence[float], base: Sequence[float]) -> float | None:
    """The smallest relative difference that runs as many and as scattered as these would show four times in five.

    None where there are too few of them to show any.
    """
    runs, base_runs = len(values), len(base)
    if smallest_p(runs, base_runs) >= LEVEL or min(runs, base_runs) < 2 or min(*values, *base) <= 0:
        return None
    scatter = Scatter.of(*([math.log(value) for value in side] for side in (values, base)))
    steps = quantile(LEVEL, scatter.freedom) + quantile(2 * (1 - POWER), scatter.freedom)
    medians_lose = math.sqrt(math.pi / 2)  # how much more a median scatters than a mean
    return math.expm1(steps * medians_lose * scatter.deviation * math.sqrt(1 / runs + 1 / base_runs))


def _by_normal(smaller: float, runs: int, base_runs: int, ties: Sequence[int]) -> float:
    """The approximation for large samples, with the corrections for ties and for counting in whole steps."""
    both = runs + base_runs
    tied = sum(count**3 - count for count in ties) / (both * (both - 1))
    deviation = math.sqrt(runs * base_runs / 12 * (both + 1 - tied))
    if deviation == 0:
        return 1.0  # all values are equal
    away = max(0.0, runs * base_runs / 2 - smaller - 0.5)
    return 2 * NormalDist().cdf(-away / deviation)


@cache
def _orders(runs: int, base_runs: int) -> list[int]:
    """For each number of pairs in which the first side is above: in how many orders of all values it comes up."""
    pairs = runs * base_runs
    ways = [1] + [0] * pairs  # coefficients of the product of (1 - q^(base_runs + i)) / (1 - q^i) for i from 1 to runs
    for place in range(1, runs + 1):
        for power in range(pairs, base_runs + place - 1, -1):
            ways[power] -= ways[power - base_runs - place]
        for power in range(place, pairs + 1):
            ways[power] += ways[power - place]
    return ways
