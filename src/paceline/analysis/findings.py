"""What the rows of a table say, each finding only if the runs support it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from paceline.analysis.quantities.chance_accuracy import little_better
from paceline.analysis.quantities.definition import Quantity
from paceline.analysis.quantities.known import MEMORY, SPEED, TEST_ACCURACY, brought
from paceline.analysis.rows.labels import placed, where
from paceline.analysis.rows.row import Row
from paceline.analysis.rows.scaling import OneDeviceRows, next_fewer, training
from paceline.analysis.statistics.intervals import Estimate
from paceline.analysis.statistics.significance import Scatter
from paceline.analysis.statistics.yardsticks import Values, Yardstick, judge


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
class RowComparer:
    """Tells cells of one table apart."""

    yardstick: Yardstick
    scatter: Scatter
    tests: int  # that are made in the table: the more of them, the stricter each
    confidence: float  # asked of each interval

    @classmethod
    def of(cls, measure: Measure, rows: Sequence[Row], tests: int) -> RowComparer:
        scatter = measure.yardstick.scatter(map(measure.values, rows))
        return cls(measure.yardstick, scatter, tests, max(row.confidence for row in rows))

    def against(self, name: str, values: Values, base: Values) -> ComparedWith:
        found = judge(self.yardstick, values, base, self.confidence, scatter=self.scatter, tests=self.tests)
        if found.value is None or found.chance is None:
            raise ValueError("a comparison needs two runs on each side")
        return ComparedWith(name, found.value, found.clear)


@dataclass(frozen=True)
class Measure:
    """What rows are ranked by."""

    values: Callable[[Row], Values]
    better: int  # MORE or LESS
    yardstick: Yardstick

    @classmethod
    def of(cls, quantity: Quantity) -> Measure:
        """A quantity, where there is no doubt about it."""
        return cls(
            lambda row: () if row.doubt(quantity) else row.of_runs(quantity), quantity.better, quantity.yardstick
        )

    def measured(self, row: Row) -> bool:
        """Whether the row succeeded and its values can be compared."""
        return row.status != "failed" and self.yardstick.applies(self.values(row))

    def usable(self, row: Row) -> bool:
        """Measured twice or more, so that it can be compared."""
        return len(self.values(row)) > 1 and self.measured(row)

    def ranked(self, rows: Iterable[Row]) -> list[Row]:
        """The best first."""
        return sorted(rows, key=lambda row: -self.better * statistics.median(self.values(row)))


BY_SPEED = Measure.of(SPEED)


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
        *(found for each in (TEST_ACCURACY, MEMORY, *brought()) for found in _leaders(rows, each, called)),
    ]


@dataclass(frozen=True)
class RowNames:
    """How the rows of a table are called, no two alike."""

    place: Callable[[Row], str]
    shared: Callable[[Row], str]  # the place of all frameworks that are compared with one another

    def name(self, row: Row) -> str:
        return f"{row.cell.framework} {self.place(row)}"


def _alike(rows: Sequence[Row], measure: Measure) -> list[list[Row]]:
    """Rows that differ in their framework alone, where there are several; of one framework the newest."""
    groups: dict[object, dict[str, Row]] = {}
    for row in filter(measure.usable, rows):
        settings = (where(row), row.cell.slow, row.cell.batch_size, row.cell.learning_rate, row.machine, row.cell.seed)
        groups.setdefault(settings, {}).setdefault(row.cell.framework, row)
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def _leaders(rows: Sequence[Row], quantity: Quantity, called: RowNames) -> Iterator[Finding]:
    """For each device set the best against all others."""
    measure = Measure.of(quantity)
    groups = _alike(rows, measure) if quantity.finding else []
    if not groups:
        return
    pairs = sum(math.comb(len(group), 2) for group in groups)  # which is best was not known before: all were compared
    judges = RowComparer.of(measure, [row for group in groups for row in group], pairs)
    for group in groups:
        best, *others = ordered = measure.ranked(group)
        against = [judges.against(row.cell.framework, measure.values(best), measure.values(row)) for row in others]
        yield Finding(
            kind=quantity.finding,
            where=called.shared(best),
            who=(best.cell.framework,),
            against=tuple(against),
            cells=tuple(map(called.name, ordered)),
        )


def _scaling(rows: Sequence[Row], called: RowNames) -> list[Finding]:
    """Where more devices are slower than fewer of them, and where they are faster than their number."""
    families: dict[object, dict[str, Row]] = {}
    for row in filter(BY_SPEED.usable, rows):
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
    judges = RowComparer.of(BY_SPEED, kept, len(steps) + len(whole))
    slower = [_against_fewer("slower", (fewer, more), judges, called) for fewer, more in steps]
    above = [_against_fewer("above linear", (one, more), judges, called) for one, more in whole]
    return [finding for finding in slower + above if finding]


def _against_fewer(kind: str, pair: tuple[Row, Row], judges: RowComparer, called: RowNames) -> Finding | None:
    """Set against the fewer devices as they are, or against what they would be with perfect scaling."""
    fewer, more = pair
    perfect = more.device_count / fewer.device_count if kind == "above linear" else 1.0
    values, base = more.of_runs(SPEED), fewer.of_runs(SPEED)
    expected = [perfect * value for value in base]
    above = statistics.median(values) > statistics.median(expected)
    if above != (kind == "above linear") or not judges.against(called.shared(fewer), values, expected).clear:
        return None
    plain = judges.against(called.shared(fewer), values, base)
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
    ran = [row for row in rows if row.of_runs(SPEED)]
    once = [called.name(row) for row in ran if len(row.of_runs(SPEED)) == 1]
    if once and len(ran) > 1:
        yield Finding(kind="one run", who=() if len(once) == len(ran) else tuple(once), cells=tuple(once))


def _not_interleaved(rows: Sequence[Row], called: RowNames) -> Iterator[Finding]:
    """Cells of one device set that a change of the machine could have made different."""
    for group in _alike(rows, BY_SPEED):
        if not interleaved(group):
            yield Finding(kind="apart", where=called.shared(group[0]), cells=tuple(map(called.name, group)))


def interleaved(rows: Sequence[Row]) -> bool:
    """Whether none of them was done before another began; the ids of runs sort by time."""
    return max(min(row.runs) for row in rows) <= min(max(row.runs) for row in rows)
