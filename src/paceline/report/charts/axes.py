"""Axes: from the numbers of a panel to places in it, with round numbers along the way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paceline.report.charts.style import text_width

NEAR, HUGE = 1e-9, 1e200  # what arithmetic may add to a whole number, and what it can still work with
ROUND = ((math.sqrt(50), 10), (math.sqrt(10), 5), (math.sqrt(2), 2))


@dataclass(frozen=True)
class Axis:
    title: str  # one without stands for names: it has no strokes
    ends: tuple[float, float]
    ticks: Sequence[tuple[float, str]]
    logarithmic: bool = False
    padding: float = 0  # points between its ends and the first and last number
    grid: bool = True

    def place(self, value: float, length: float) -> float:
        """In points from its beginning."""
        low, high, number = map(math.log, (*self.ends, value)) if self.logarithmic else (*self.ends, value)
        return round(self.padding + (number - low) / (high - low) * (length - 2 * self.padding), 2)

    def labels(self, length: float) -> list[tuple[float, str]]:
        """With their places, without those that would be written over the one before."""
        found: list[tuple[float, str]] = []
        end = -math.inf
        for value, label in self.ticks:
            place, half = self.place(value, length), text_width(label) / 2
            if place - half > end:
                found.append((place, label))
                end = place + half
        return found

    @property
    def told(self) -> str:
        scale = "log" if self.logarithmic else "linear"
        low, high = (f"{end:,.12g}" for end in self.ends)
        return f"-axis titled '{self.title}' for a {scale} scale with values from {low} to {high}"


def amounts(title: str, values: Iterable[float], *, zero: bool = True, count: int = 6, percent: bool = False) -> Axis:
    """An axis for these numbers, with some `count` ticks, one of them at either end."""
    low, high = _bounds([*values, *([0.0] if zero else [])])
    step = _step((high - low) / count)
    places = [step * place for place in range(math.floor(low / step + NEAR), math.ceil(high / step - NEAR) + 1)]
    power = math.floor(math.log10(step) + NEAR)
    digits = f",.{max(0, -power - 2)}%" if percent else f",.{max(0, -power)}f"
    label = digits if abs(power) < 9 else ".3g"
    return Axis(title, (places[0], places[-1]), [(place, format(place, label)) for place in places])


def counts(title: str, numbers: Iterable[int], *, logarithmic: bool = False, grid: bool = True) -> Axis:
    """An axis with a tick for each of these numbers."""
    found = sorted(set(numbers))
    ticks = [(number, str(number)) for number in found]
    return Axis(title, (found[0], found[-1]), ticks, logarithmic=logarithmic, padding=12, grid=grid)


def names(called: Sequence[str]) -> Axis:
    """Downwards, a line for each."""
    return Axis("", (len(called) - 0.5, -0.5), list(enumerate(called)))


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """Apart, whatever a store of somebody else holds."""
    low, high = (max(-HUGE, min(found(values), HUGE)) for found in (min, max))
    if high - low > max(NEAR * max(abs(low), abs(high)), 1 / HUGE):
        return low, high
    return low - abs(low) / 10, high + (abs(high) / 10 if abs(high) > 1 / HUGE else 1)


def _step(rough: float) -> float:
    """1, 2 or 5, times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next((round_number for least, round_number in ROUND if rough / power >= least), 1)
