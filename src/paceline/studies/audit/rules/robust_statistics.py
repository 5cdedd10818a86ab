"""Medians and their spread, which a wrong figure among right ones hardly moves."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

TO_SIGMA = 1.4826  # from the median absolute deviation to the standard deviation of normal values
FAR = 3.5  # such spreads from the median: Iglewicz and Hoaglin 1993, "How to Detect and Handle Outliers"


def spread(values: Sequence[float]) -> tuple[float, float]:
    """The median, and what the standard deviation would be without outliers."""
    middle = statistics.median(values)
    return middle, TO_SIGMA * statistics.median(abs(value - middle) for value in values)


def two_way(cells: dict[tuple[str, int], float], sweeps: int = 8) -> dict[tuple[str, int], float]:
    """What is left of a grid of logarithms without its rows' and columns' medians: Tukey's median polish."""
    left = dict(cells)
    for _ in range(sweeps):
        for side in (0, 1):
            lines: dict[object, list[tuple[str, int]]] = {}
            for key in left:
                lines.setdefault(key[side], []).append(key)
            for keys in lines.values():
                middle = statistics.median(left[key] for key in keys)
                left.update({key: left[key] - middle for key in keys})
    return left
