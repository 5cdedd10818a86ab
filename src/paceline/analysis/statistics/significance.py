"""Whether two samples of runs differ, or chance alone could have made them look so."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.analysis.statistics.student_t import beyond, quantile

LEVEL = 0.05  # a difference that chance makes less often than this is believed
POWER = 0.8  # a difference is called detectable if it is found so often


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


def detectable(scatter: Scatter, runs: int, base_runs: int) -> float:
    """The smallest difference that so many runs with this scatter would show four times in five."""
    steps = quantile(LEVEL, scatter.freedom) + quantile(2 * (1 - POWER), scatter.freedom)
    medians_lose = math.sqrt(math.pi / 2)  # how much more a median scatters than a mean
    return steps * medians_lose * scatter.deviation * math.sqrt(1 / runs + 1 / base_runs)
