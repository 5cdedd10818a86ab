"""How two samples of runs are compared: as a ratio or a difference, and whether chance could have made it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from paceline.analysis.statistics.intervals import (
    FACTORS,
    PART_DIFFERENCES,
    PARTS,
    Estimate,
    SymmetricScale,
    difference,
    ratio,
)
from paceline.analysis.statistics.significance import LEVEL, Scatter, detectable

Values = Sequence[float]
NO_RATIO = "not above zero, so there is no ratio"
SINGLE_RUN = "a single run has no interval"


@dataclass(frozen=True)
class Yardstick:
    """How two samples are held against each other."""

    compare: Callable[[Values, Values, float], Estimate | None]  # at a confidence
    equal: float  # what it gives for equal ones
    sign: str  # between the two in a heading
    scale: SymmetricScale  # of the values, on which small and large ones scatter alike
    uneven: Callable[[float], float]  # a gap on that scale as a difference that people read
    from_zero: bool  # whether zero can be compared, too

    def evened(self, values: Values) -> list[float]:
        return self.scale.evened(values)

    def applies(self, values: Values) -> bool:
        """Whether these can be compared: nothing has no ratio."""
        return bool(values) and (self.from_zero or min(values) > 0)

    def scatter(self, samples: Iterable[Values]) -> Scatter:
        """Of samples with two values or more each."""
        return Scatter.of(*map(self.evened, samples))

    def detectable(self, values: Values, base: Values) -> float | None:
        """The smallest difference that such runs would show; None where they are too few, or cannot be compared."""
        if min(len(values), len(base)) < 2 or not (self.applies(values) and self.applies(base)):
            return None
        return self.uneven(detectable(self.scatter([values, base]), len(values), len(base)))


RATIO = Yardstick(ratio, 1.0, "/", FACTORS, math.expm1, from_zero=False)
DIFFERENCE = Yardstick(
    lambda values, base, confidence: difference(values, base, PART_DIFFERENCES, confidence),
    0.0,
    "−",
    PARTS,
    float,
    from_zero=True,
)


@dataclass(frozen=True)
class Judgement:
    """One sample against another."""

    value: Estimate | None  # the first divided by the other, or less the other
    why_not: str  # why they cannot be told apart; empty if they can
    chance: Callable[[], float] | None = None  # worked out only where it is asked for: it takes longest

    @property
    def p(self) -> float | None:
        """How often chance alone would make them look so far apart."""
        return self.chance() if self.chance else None

    @property
    def clear(self) -> bool:
        return not self.why_not


def judge(
    yardstick: Yardstick,
    values: Values,
    base: Values,
    confidence: float,
    *,
    scatter: Scatter | None = None,
    tests: int = 1,
) -> Judgement:
    """Clear only if the interval leaves out equality, and chance would hardly do it in so many tests (Bonferroni).

    This is the one rule for it: findings, answers, comparisons and replays all come here. `scatter` is that of more
    cells than these two, where there are such.
    """
    if not (yardstick.applies(values) and yardstick.applies(base)):
        return Judgement(None, NO_RATIO)
    value = yardstick.compare(values, base, confidence)
    if value is None or value.low is None or value.high is None:
        return Judgement(value, SINGLE_RUN)
    chance = cache(partial(_chance, yardstick, values, base, scatter))
    if value.low <= yardstick.equal <= value.high:
        return Judgement(value, f"the interval includes {yardstick.equal:g}", chance)
    return Judgement(value, "" if chance() < LEVEL / tests else f"p = {chance():.2f}", chance)


def _chance(yardstick: Yardstick, values: Values, base: Values, scatter: Scatter | None) -> float:
    """By the scatter of these two, which few runs hardly tell, or by a larger one of all; two tests count twice."""
    even, even_base = yardstick.evened(values), yardstick.evened(base)
    own = Scatter.of(even, even_base)
    scatters = [own, scatter] if scatter and scatter.deviation > own.deviation else [own]
    return min(1.0, len(scatters) * min(each.chance(even, even_base) for each in scatters))
