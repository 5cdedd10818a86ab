"""Figures against their column: the same setting on more and more devices, and neighbouring settings."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from paceline.studies.audit import printed_rows as p
from paceline.studies.audit.rules.definition import Checks, FigureKey, TableCheck, figures
from paceline.studies.audit.rules.robust_statistics import spread, two_way

# True speeds may be somewhat above linear: a smaller part of the data fits a cache, or one device alone has to swap.
LINEAR = 1.4  # times as fast as so many more devices allow: beyond any of that
ABOVE_LINEAR = 1.05  # enough where neighbours of the same setting show another pattern
LIKE_NEIGHBOURS = 0.05  # spread of a grid whose settings scale alike
EXCEPTIONS = 2  # at most, in such a grid: two figures may have changed places
FAR_FROM_NEIGHBOURS = 5  # such spreads
LEAST_FROM_NEIGHBOURS = 0.10
MUCH = 1.5  # times as fast as its neighbours: more than any overhead of several devices explains
FEWEST = 3  # settings and numbers of devices that make a pattern
JUMP = 1.6  # times what the figures on both sides make by interpolation
SPEEDS = {p.IMAGES_PER_SECOND: 1, p.EPOCH_SECONDS: -1, p.SECONDS: -1}  # -1: less is faster
SMOOTH = (*SPEEDS, p.MEMORY, p.USER_SECONDS, p.SYSTEM_SECONDS)


@dataclass(frozen=True)
class TrendPoint:
    """A figure of a column on so many devices; several rows of the same kind count by their median."""

    count: int
    value: float
    rows: tuple[tuple[p.PrintedRow, p.PrintedNumber], ...]

    @property
    def text(self) -> str:
        return f"{self.rows[0][1].text} on {self.count}"

    def figures(self, quantity: str) -> tuple[FigureKey, ...]:
        return tuple((row.where, quantity) for row, _ in self.rows)


TrendColumn = list[TrendPoint]


def columns(table: p.PrintedTable, quantity: str) -> Iterator[tuple[str, TrendColumn]]:
    """Rows of one setting by their number of devices."""
    found: dict[tuple[str, ...], dict[int, list[tuple[p.PrintedRow, p.PrintedNumber]]]] = {}
    for row in table.rows:
        figure, devices = row.one(quantity), row.one(p.DEVICES)
        if row.setting is None or not figure or not devices or figure.value <= 0 or devices.value <= 0:
            continue
        epochs = row.one(p.EPOCHS) if quantity == p.SECONDS else None
        setting = (*row.setting, epochs.text if epochs else "")
        found.setdefault(setting, {}).setdefault(int(devices.value), []).append((row, figure))
    for setting, points in found.items():
        yield (
            " | ".join(setting),
            [
                TrendPoint(count, statistics.median(figure.value for _, figure in rows), tuple(rows))
                for count, rows in sorted(points.items())
            ],
        )


def linear(table: p.PrintedTable) -> Checks:
    """Twice as many devices are at most twice as fast, and somewhat more at best."""
    for quantity, sign in SPEEDS.items():
        for _, column in columns(table, quantity):
            for i in range(len(column) - 1):
                yield from _step(column, i, quantity, sign)


def _step(column: TrendColumn, i: int, quantity: str, sign: int) -> Checks:
    few, many = column[i : i + 2]
    gain = _gain(few, many, sign)
    at_twice = many if sign > 0 else few  # the one whose double would make the step too large
    if gain <= LINEAR < 2 * gain:
        yield TableCheck(many.rows[0][0].where, None, at_twice.figures(quantity))
    elif gain > LINEAR:
        wrong = _wrong_one(column, i, sign)
        text = (
            f"{quantity} of {few.text} and {many.text} devices: {gain * many.count / few.count:.3g} times as fast on "
            f"{many.count / few.count:g} times as many"
        )
        for row, _ in wrong.rows:
            yield TableCheck(row.where, text, figures(row, quantity))


def _gain(few: TrendPoint, many: TrendPoint, sign: int) -> float:
    """Of speed, for each device; 1 is linear."""
    faster = many.value / few.value if sign > 0 else few.value / many.value
    return faster * few.count / many.count


def _wrong_one(column: TrendColumn, i: int, sign: int) -> TrendPoint:
    """Of two figures, the one without which the rest is nearer to linear."""
    without_few = _gain(column[i - 1], column[i + 1], sign) if i else 1.0
    without_many = _gain(column[i], column[i + 2], sign) if i + 2 < len(column) else 1.0
    return column[i] if without_many > without_few else column[i + 1]


def neighbours(table: p.PrintedTable) -> Checks:
    """Settings that scale alike: a figure that does not, where its own column also speaks against it."""
    for quantity, sign in SPEEDS.items():
        by_setting = {setting: column for setting, column in columns(table, quantity) if len(column) >= FEWEST}
        counts = Counter(point.count for column in by_setting.values() for point in column)
        shared = {count for count, settings in counts.items() if settings >= FEWEST}
        points = {
            (setting, point.count): (column, i)
            for setting, column in by_setting.items()
            for i, point in enumerate(column)
            if point.count in shared
        }
        if len(shared) >= FEWEST:
            yield from _pattern(points, quantity, sign)


def _pattern(points: dict[tuple[str, int], tuple[TrendColumn, int]], quantity: str, sign: int) -> Checks:
    left = two_way({key: math.log(column[i].value) for key, (column, i) in points.items()})
    _, stray = spread(list(left.values()))
    if stray > LIKE_NEIGHBOURS:
        return
    far = max(FAR_FROM_NEIGHBOURS * stray, LEAST_FROM_NEIGHBOURS)
    if sum(abs(each) > far for each in left.values()) > EXCEPTIONS:
        return
    for key, (column, i) in points.items():
        right = column[i].value / math.exp(left[key])
        text = f"printed {column[i].rows[0][1].text}, but its neighbours make {right:.4g}"
        wrong = text if abs(left[key]) > far else None
        slow = left[key] * sign < 0
        counts = _speaks_against(column, i, sign, slow=slow) or (not slow and abs(left[key]) > math.log(MUCH))
        for row, _ in column[i].rows:
            yield TableCheck(row.where, wrong, figures(row, quantity), counts=counts)


def _speaks_against(column: TrendColumn, i: int, sign: int, *, slow: bool) -> bool:
    """A fast one is above linear from the one before; after a slow one, the next is."""
    if slow:
        return i + 1 < len(column) and _gain(column[i], column[i + 1], sign) > ABOVE_LINEAR
    return i > 0 and _gain(column[i - 1], column[i], sign) > ABOVE_LINEAR


def smooth(table: p.PrintedTable) -> Checks:
    """A figure far from the line between those of fewer and of more devices: nothing more than a note."""
    for quantity in SMOOTH:
        for _, column in columns(table, quantity):
            for before, point, after in zip(column, column[1:], column[2:], strict=False):
                yield from _on_the_line(before, point, after, quantity)


def _on_the_line(before: TrendPoint, point: TrendPoint, after: TrendPoint, quantity: str) -> Checks:
    right = _between(before, point.count, after)
    jump = point.value / right
    where = point.rows[0][0].where
    if 1 / JUMP <= jump <= JUMP:
        if 2 * jump > JUMP:
            yield TableCheck(where, None, point.figures(quantity))
        return
    text = f"printed {point.text}, but {before.text} and {after.text} devices make {right:.4g} between them"
    near = before.figures(quantity) + after.figures(quantity)
    yield TableCheck(where, text, point.figures(quantity), counts=False, against=near)


def _between(before: TrendPoint, count: int, after: TrendPoint) -> float:
    """On the straight line through both, all in logarithms."""
    part = math.log(count / before.count) / math.log(after.count / before.count)
    return math.exp((1 - part) * math.log(before.value) + part * math.log(after.value))
