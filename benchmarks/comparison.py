"""From pairs of runs to ratios, intervals and verdicts; nothing is measured here."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.analysis.statistics.intervals import Estimate, estimate
from paceline.system.text.formatting import NOTHING, number


@dataclass(frozen=True)
class Speed:
    """What one run of either program came to."""

    images_per_second: float
    images_per_processor_second: float
    losses: tuple[float, ...]  # of the first steps


@dataclass(frozen=True)
class Case:
    """A cell of Paceline's and the yardstick beside it."""

    framework: str
    yardstick: str
    devices: int

    def __str__(self) -> str:
        return f"{self.framework} / {self.yardstick}, {self.devices} device{'s' * (self.devices > 1)}"


@dataclass(frozen=True)
class Pair:
    """Paceline's run and the hand-written one just before or after it."""

    case: Case
    ours: Speed
    handwritten: Speed


@dataclass(frozen=True)
class Target:
    """A promise, what was measured for it, and the side of the limit on which it is kept."""

    promise: str
    measured: Estimate | None
    limit: float
    at_least: bool = False


def paired_ratio(values: Sequence[float], base: Sequence[float]) -> Estimate | None:
    """Median of the rounds' own ratios: what slowed both runs of a round cancels out."""
    return estimate([value / other for value, other in zip(values, base, strict=True)])


def spread(values: Sequence[float]) -> float:
    """Largest minus smallest, as a part of the median."""
    return (max(values) - min(values)) / statistics.median(values)


def verdict(target: Target) -> str:
    """`met` or `not met` only where the whole interval says so; a single round has none."""
    found = target.measured
    if found is None or found.low is None or found.high is None:
        return "cannot tell"
    kept, broken = found.high < target.limit, found.low >= target.limit
    if target.at_least:
        kept, broken = found.low >= target.limit, found.high < target.limit
    return "met" if kept else "not met" if broken else "cannot tell"


def exit_code(targets: Sequence[Target]) -> int:
    """A noisy machine is no failure; a missed target is."""
    return int(any(verdict(target) == "not met" for target in targets))


def verdict_line(target: Target) -> str:
    words = "at least" if target.at_least else "less than"
    measured = with_interval(target.measured)
    return f"{verdict(target)}: {target.promise}, {words} {target.limit:g}; measured {measured}"


def with_interval(value: Estimate | None) -> str:
    """Ratios near 1 need more digits than the columns of Paceline's own tables."""
    if value is None:
        return NOTHING
    if value.low is None or value.high is None or value.low == value.high:
        return f"{value.median:.3f}"
    return f"{value.median:.3f} ({value.low:.3f}–{value.high:.3f})"


MEASURES = {"images/s": "images_per_second", "images/processor-s": "images_per_processor_second"}


def values_of(pairs: Sequence[Pair], case: Case, side: str, measure: str) -> list[float]:
    """One value for each round; `side` is ours or handwritten."""
    return [getattr(getattr(pair, side), MEASURES[measure]) for pair in pairs if pair.case == case]


def duel_ratio(turns: Sequence[tuple[float, float]]) -> float:
    """Speed of the first against the second in one process, from the seconds of each turn of both: the median turn."""
    return statistics.median(second / first for first, second in turns)


def ratio_of(pairs: Sequence[Pair], case: Case, measure: str) -> Estimate | None:
    ours, handwritten = (values_of(pairs, case, side, measure) for side in ("ours", "handwritten"))
    return paired_ratio(ours, handwritten)


def speed_row(pairs: Sequence[Pair], case: Case, measure: str) -> list[str]:
    """One line of the table: both speeds, their ratio, and how far the hand-written one spread."""
    ours, handwritten = (values_of(pairs, case, side, measure) for side in ("ours", "handwritten"))
    medians = [number(statistics.median(values)) for values in (ours, handwritten)]
    ratio = with_interval(paired_ratio(ours, handwritten))
    return [str(case), measure, *medians, ratio, f"{spread(handwritten):.1%}"]


def on_one_device(case: Case) -> Case:
    return replace(case, devices=1)


def speed_up(pairs: Sequence[Pair], case: Case, side: str) -> Estimate | None:
    """Images/s against those of one device in the same round."""
    several, one = (values_of(pairs, each, side, "images/s") for each in (case, on_one_device(case)))
    return paired_ratio(several, one)
