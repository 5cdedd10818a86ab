"""From the seconds per step of a cell's ablations to the parts of the time that it loses; arithmetic, nothing else."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import cast

import msgspec

from paceline.analysis.statistics.intervals import FACTORS, TERMS, Estimate, SymmetricScale, estimate

INPUT, EXCHANGE, CONTENTION, IMBALANCE, REST = "input", "exchange", "contention", "imbalance", "the rest"
SMALL = 0.10  # a smaller part of a step is no loss to speak of
EXCHANGE_AND_CONTENTION = f"{EXCHANGE} and {CONTENTION}"


class RoundTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per step of each ablation in one round."""

    whole: float
    without_input: float
    without_exchange: float | None  # None where the framework cannot leave the exchange out
    alone: tuple[float, ...]  # each device by itself, with its share of the batch
    base: float  # one device, as scaling is counted from; of unlike ones as if each were like their mean


class LostPart(msgspec.Struct, frozen=True, kw_only=True):
    """One cause, and what it takes of each step."""

    name: str
    seconds: Estimate
    of_step: float
    of_loss: float | None  # None where nothing is lost


class LostTime(msgspec.Struct, frozen=True, kw_only=True):
    """What a step takes beyond its part of what one device takes, and what that is made of."""

    step: Estimate  # seconds of the whole
    lost: Estimate  # seconds of it
    parts: tuple[LostPart, ...]
    largest: str | None  # None where it cannot be told
    speed_up: Estimate
    efficiency: Estimate

    @property
    def may_be_nothing(self) -> bool:
        """Whether the loss cannot be told from noise."""
        return bounds(self.lost)[0] <= 0

    @property
    def scales(self) -> bool:
        """Whether it surely is small too: a wide interval around zero tells nothing."""
        return self.may_be_nothing and bounds(self.lost)[1] <= SMALL * self.step.median


def typical(seconds: Sequence[float], counts: Sequence[int]) -> float:
    """Of a device as fast as the mean of all, where so many of each kind take so long: speeds add up, times do not."""
    return sum(counts) / sum(count / each for count, each in zip(counts, seconds, strict=True))


def lost_time(rounds: Sequence[RoundTimes], devices: int, scaling: str) -> LostTime:
    """Each part is a difference of runs of the same round: what slows down the machine for a while cancels out."""
    ideals = [times.base / (devices if scaling == "strong" else 1) for times in rounds]
    slowest, fastest = extremes(rounds)
    splits = [split(times, ideal, slowest, fastest) for times, ideal in zip(rounds, ideals, strict=True)]
    step = known([times.whole for times in rounds])
    lost = known([times.whole - ideal for times, ideal in zip(rounds, ideals, strict=True)], TERMS)
    parts = tuple(_part(name, known([each[name] for each in splits], TERMS), step, lost) for name in splits[0])
    ratios = [ideal / times.whole for times, ideal in zip(rounds, ideals, strict=True)]
    return LostTime(
        step=step,
        lost=lost,
        parts=parts,
        largest=largest(parts),
        speed_up=known([devices * ratio for ratio in ratios]),
        efficiency=known(ratios),
    )


def extremes(rounds: Sequence[RoundTimes]) -> tuple[int, int]:
    """The slowest and the fastest device over all rounds.

    They are chosen once: the slowest of each round minus its fastest is never negative, so that noise alone would look
    like imbalance.
    """
    medians = [statistics.median(device) for device in zip(*(times.alone for times in rounds), strict=True)]
    return medians.index(max(medians)), medians.index(min(medians))


def split(times: RoundTimes, ideal: float, slowest: int, fastest: int) -> dict[str, float]:
    """The seconds of each cause in one round; they add up to the whole minus the ideal."""
    last, first = times.alone[slowest], times.alone[fastest]
    if times.without_exchange is None:
        together = {EXCHANGE_AND_CONTENTION: times.without_input - last}
    else:
        together = {EXCHANGE: times.without_input - times.without_exchange, CONTENTION: times.without_exchange - last}
    return {INPUT: times.whole - times.without_input, **together, IMBALANCE: last - first, REST: first - ideal}


def _part(name: str, seconds: Estimate, step: Estimate, lost: Estimate) -> LostPart:
    of_loss = seconds.median / lost.median if lost.median > 0 else None
    return LostPart(name=name, seconds=seconds, of_step=seconds.median / step.median, of_loss=of_loss)


def largest(parts: Sequence[LostPart]) -> str | None:
    """The part that is surely there and surely larger than every other, if there is one."""
    first, *others = ranked(parts)
    low, _ = bounds(first.seconds)
    return first.name if low > 0 and all(bounds(other.seconds)[1] < low for other in others) else None


def ranked(parts: Sequence[LostPart]) -> list[LostPart]:
    return sorted(parts, key=lambda part: -part.seconds.median)


def bounds(value: Estimate) -> tuple[float, float]:
    """The interval; a single round has none, and the truth may be anywhere."""
    return (-math.inf, math.inf) if value.low is None or value.high is None else (value.low, value.high)


def known(values: list[float], scale: SymmetricScale = FACTORS) -> Estimate:
    return cast(Estimate, estimate(values, scale))  # there is at least one round
