"""What the rows of a table say, each finding only if the runs support it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from paceline.analysis.rows.chance_accuracy import little_better
from paceline.analysis.rows.labels import placed, where
from paceline.analysis.rows.row import Row
from paceline.analysis.rows.scaling import OneDeviceRows, next_fewer, training
from paceline.analysis.statistics.intervals import (
    FACTORS,
    PART_DIFFERENCES,
    PARTS,
    Estimate,
    SymmetricScale,
    difference,
    ratio,
)
from paceline.analysis.statistics.significance import LEVEL, Scatter

Values = Sequence[float]


class ComparedWith(msgspec.Struct, frozen=True):
    """One cell compared with another."""

    name: str  # the other: a framework, or a device set
    value: Estimate  # this one divided by the other, or less the other
    clear: bool  # whether they can be told apart


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    kind: str  # fastest, memory, accuracy, slower, above linear, failed, skipped, one run, apart, untrained
    where: str = ""  # the device set
    who: tuple[str, ...] = ()
    against: tuple[ComparedWith, ...] = ()  # the nearest first
    reason: str = ""
    cells: tuple[str, ...]  # what it rests on


@dataclass(frozen=True)
class Yardstick:
    """How two samples are held against each other."""

    compare: Callable[[Values, Values, float], Estimate | None]  # at a confidence
    equal: float  # what it gives for equal ones
    scale: SymmetricScale  # on which small and large values scatter alike


@dataclass(frozen=True)
class RowComparer:
    """Tells cells of one table apart."""

    yardstick: Yardstick
    scatter: Scatter
    tests: int  # that are made in the table: the more of them, the stricter each (Bonferroni)
    confidence: float  # asked of each interval

    @classmethod
    def of(cls, quantity: Quantity, rows: Sequence[Row], tests: int) -> RowComparer:
        yardstick, samples = quantity.yardstick, map(quantity.values, rows)
        scatter = Scatter.of(*map(yardstick.scale.evened, samples))
        return cls(yardstick, scatter, tests, max(row.confidence for row in rows))

    def against(self, name: str, values: Values, base: Values) -> ComparedWith:
        """Clear if the interval says so, and chance would hardly do it however many are compared."""
        found = self.yardstick.compare(values, base, self.confidence)
        if found is None or found.low is None or found.high is None:
            raise ValueError("a comparison needs two runs on each side")
        differs = not found.low <= self.yardstick.equal <= found.high
        return ComparedWith(name, found, differs and self._chance(values, base) < LEVEL / self.tests)

    def _chance(self, values: Values, base: Values) -> float:
        """By the scatter of these two, which few runs hardly tell, or by a larger one of all; two tests count twice."""
        even, even_base = (self.yardstick.scale.evened(each) for each in (values, base))
        own = Scatter.of(even, even_base)
        scatters = [own, self.scatter] if self.scatter.deviation > own.deviation else [own]
        return len(scatters) * min(scatter.chance(even, even_base) for scatter in scatters)


RATIO = Yardstick(ratio, 1.0, FACTORS)
DIFFERENCE = Yardstick(
    lambda values, base, confidence: difference(values, base, PART_DIFFERENCES, confidence), 0.0, PARTS
)


@dataclass(frozen=True)
class Quantity:
    kind: str
    values: Callable[[Row], Values]
    better: int  # 1: more of it, -1: less
    yardstick: Yardstick

    def measured(self, row: Row) -> bool:
        """Nothing failed, and nothing has no ratio."""
        values = self.values(row)
        return bool(values) and row.status != "failed" and (self.yardstick is DIFFERENCE or min(values) > 0)

    def usable(self, row: Row) -> bool:
        """Measured twice or more, so that it can be compared."""
        return len(self.values(row)) > 1 and self.measured(row)


def _memory(row: Row) -> Values:
    return () if "preallocated" in row.marks else row.memory_mib_of_runs  # else it tells what was taken, not needed


def _accuracies(row: Row) -> Values:
    return () if row.above_chance is False else row.test_accuracy_of_runs  # guesses are no results


SPEED = Quantity("fastest", lambda row: row.images_per_second_of_runs, 1, RATIO)
ACCURACY = Quantity("accuracy", _accuracies, 1, DIFFERENCE)
MEMORY = Quantity("memory", _memory, -1, RATIO)


def findings(rows: Sequence[Row]) -> list[Finding]:
    """What matters in one table, in the order in which it should be said."""
    if any(row.command for row in rows):
        return []  # it is not known whether two commands train the same thing
    called = RowNames(placed(rows), placed(rows, frameworks=False))
    return [
        *_single_runs(rows, called),
        *_not_interleaved(rows, called),
        *_leaders(rows, SPEED, called),
        *_without_result(rows, called),
        *_scaling(rows, called),
        *_untrained(rows, called),
        *_leaders(rows, ACCURACY, called),
        *_leaders(rows, MEMORY, called),
    ]


@dataclass(frozen=True)
class RowNames:
    """How the rows of a table are called, no two alike."""

    place: Callable[[Row], str]
    shared: Callable[[Row], str]  # the place of all frameworks that are compared with one another

    def name(self, row: Row) -> str:
        return f"{row.cell.framework} {self.place(row)}"


def _alike(rows: Sequence[Row], quantity: Quantity) -> list[list[Row]]:
    """Rows that differ in their framework alone, where there are several; of one framework the newest."""
    groups: dict[object, dict[str, Row]] = {}
    for row in filter(quantity.usable, rows):
        settings = (where(row), row.cell.slow, row.cell.batch_size, row.cell.learning_rate, row.machine, row.cell.seed)
        groups.setdefault(settings, {}).setdefault(row.cell.framework, row)
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def _leaders(rows: Sequence[Row], quantity: Quantity, called: RowNames) -> Iterator[Finding]:
    """For each device set the best against all others."""
    groups = _alike(rows, quantity)
    if not groups:
        return
    pairs = sum(math.comb(len(group), 2) for group in groups)  # which is best was not known before: all were compared
    judge = RowComparer.of(quantity, [row for group in groups for row in group], pairs)
    for group in groups:
        ordered = sorted(group, key=lambda row: -quantity.better * statistics.median(quantity.values(row)))
        best, *others = ordered
        against = [judge.against(row.cell.framework, quantity.values(best), quantity.values(row)) for row in others]
        yield Finding(
            kind=quantity.kind,
            where=called.shared(best),
            who=(best.cell.framework,),
            against=tuple(against),
            cells=tuple(map(called.name, ordered)),
        )


def _scaling(rows: Sequence[Row], called: RowNames) -> list[Finding]:
    """Where more devices are slower than fewer of them, and where they are faster than their number."""
    families: dict[object, dict[str, Row]] = {}
    for row in filter(SPEED.usable, rows):
        if not (row.cell.wrapped or row.cell.slow or len(set(row.shares)) > 1):
            families.setdefault(training(row, wrapped=False), {}).setdefault(row.cell.devices, row)
    kept = [row for family in families.values() for row in family.values()]
    steps = [
        (fewer, more)
        for family in families.values()
        for more in sorted(family.values(), key=lambda row: row.device_count)
        for fewer in next_fewer(more, family.values())
    ]
    if not steps:
        return []
    bases = OneDeviceRows(kept)
    whole = [(found[0].row, row) for row in kept if row.device_count > 1 and len(found := bases.of(row)) == 1]
    judge = RowComparer.of(SPEED, kept, len(steps) + len(whole))
    slower = [_against_fewer("slower", (fewer, more), judge, called) for fewer, more in steps]
    above = [_against_fewer("above linear", (one, more), judge, called) for one, more in whole]
    return [finding for finding in slower + above if finding]


def _against_fewer(kind: str, pair: tuple[Row, Row], judge: RowComparer, called: RowNames) -> Finding | None:
    """Set against the fewer devices as they are, or against what they would be with perfect scaling."""
    fewer, more = pair
    perfect = more.device_count / fewer.device_count if kind == "above linear" else 1.0
    values, base = more.images_per_second_of_runs, fewer.images_per_second_of_runs
    expected = [perfect * value for value in base]
    above = statistics.median(values) > statistics.median(expected)
    if above != (kind == "above linear") or not judge.against(called.shared(fewer), values, expected).clear:
        return None
    plain = judge.against(called.shared(fewer), values, base)
    return Finding(
        kind=kind,
        where=called.shared(more),
        who=(more.cell.framework,),
        against=(ComparedWith(plain.name, plain.value, clear=True),),
        cells=(called.name(more), called.name(fewer)),
    )


def _without_result(rows: Sequence[Row], called: RowNames) -> Iterator[Finding]:
    """What failed or was skipped, those with one cause together."""
    causes: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.status in ("failed", "skipped"):
            causes.setdefault((row.status, row.reason or "unknown"), []).append(called.name(row))
    for (status, reason), names in sorted(causes.items(), key=lambda cause: cause[0][0]):
        yield Finding(kind=status, who=tuple(names), reason=reason, cells=tuple(names))


def _untrained(rows: Sequence[Row], called: RowNames) -> Iterator[Finding]:
    """Whose test accuracy is little better than guessing, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.above_chance is False:
            reasons.setdefault(little_better(row.chance or 0.0), []).append(called.name(row))
    for reason, names in reasons.items():
        yield Finding(kind="untrained", who=tuple(names), reason=reason, cells=tuple(names))


def _single_runs(rows: Sequence[Row], called: RowNames) -> Iterator[Finding]:
    """Nothing can be told about what ran once."""
    ran = [row for row in rows if row.images_per_second_of_runs]
    once = [called.name(row) for row in ran if len(row.images_per_second_of_runs) == 1]
    if once and len(ran) > 1:
        yield Finding(kind="one run", who=() if len(once) == len(ran) else tuple(once), cells=tuple(once))


def _not_interleaved(rows: Sequence[Row], called: RowNames) -> Iterator[Finding]:
    """Cells of one device set that a change of the machine could have made different."""
    for group in _alike(rows, SPEED):
        if not interleaved(group):
            yield Finding(kind="apart", where=called.shared(group[0]), cells=tuple(map(called.name, group)))


def interleaved(rows: Sequence[Row]) -> bool:
    """Whether none of them was done before another began; the ids of runs sort by time."""
    return max(min(row.runs) for row in rows) <= min(max(row.runs) for row in rows)
