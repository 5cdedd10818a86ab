"""What became of a cell, by one rule, and how many there are of each, for tables, reports and lists of plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from paceline.analysis.statistics.intervals import LEAST_TO_STOP, NOISY, Estimate, confidence_of

OK, NOISY_CELL, FAILED, SKIPPED, NOT_RUN = ORDER = ("ok", "noisy", "failed", "skipped", "not run")


@dataclass(frozen=True)
class IntervalTarget:
    """How wide the interval of a cell may be."""

    target: float | None = None  # what its plan asked for

    @property
    def widest(self) -> float:
        """As a part of the median."""
        return NOISY if self.target is None else self.target

    @property
    def confidence(self) -> float:
        """What an interval is asked for, so that 95 of 100 hold the true value also where rounds were added."""
        return confidence_of(sequential=self.target is not None)

    def needs_more(self, runs: int) -> bool:
        """Whether there are too few runs to stop at, however close together they lie."""
        return self.target is not None and runs < LEAST_TO_STOP

    def is_broken_by(self, judged: Estimate, runs: int) -> bool:
        return self.needs_more(runs) or judged.wider_than(self.widest)


@dataclass(frozen=True)
class RunCounts:
    """How many runs a plan wants of a cell, and what there is of them."""

    wanted: int
    done: int
    failed: int


def status_of(runs: RunCounts, judged: Estimate | None, limit: IntervalTarget, *, skipped: bool) -> str:
    """By how sure the images/s are; of a command, its seconds."""
    if skipped:
        return SKIPPED
    if runs.failed:
        return FAILED
    if runs.done < runs.wanted:
        return NOT_RUN
    return NOISY_CELL if judged and limit.is_broken_by(judged, runs.done) else OK


def counted(statuses: Iterable[str]) -> dict[str, int]:
    """How many cells there are of each status, for those that occur."""
    found = Counter(statuses)
    return {status: found[status] for status in ORDER if found[status]}
