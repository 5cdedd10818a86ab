"""Between which of the ordered values the true median lies, however they scatter."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache


def interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Where the true median of some values lies (Hettmansperger and Sheather); of up to five, their range."""
    ordered = sorted(values)
    outer, way = _place(len(ordered), confidence)
    low, high = (_on_the_way(side[outer], side[outer + 1], way) for side in (ordered, ordered[::-1]))
    return low, high


def difference_interval(values: Sequence[float], base: Sequence[float], confidence: float) -> tuple[float, float]:
    """Where the difference of two true medians lies: what each may be off, squared and added (Zou and Donner)."""
    (low, high), (base_low, base_high) = (interval(side, confidence) for side in (values, base))
    middle, base_middle = statistics.median(values), statistics.median(base)
    gap = middle - base_middle
    return (
        gap - math.hypot(middle - low, base_high - base_middle),
        gap + math.hypot(high - middle, base_middle - base_low),
    )


def held(count: int, outer: int) -> float:
    """How often the true median lies within so many values when so many are left out on either side."""
    return 1 - sum(math.comb(count, beyond) for beyond in range(outer + 1)) / (1 << (count - 1))


@cache
def _place(count: int, confidence: float) -> tuple[int, float]:
    """How many values to leave out on either side, and how far to go from there towards the next one inwards."""
    outer = max((left for left in range(count // 2) if held(count, left) >= confidence), default=0)
    more, less = held(count, outer), held(count, outer + 1)
    if more <= confidence:
        return outer, 0.0
    excess, rank = (more - confidence) / (more - less), outer + 1
    return outer, (count - rank) * excess / (rank + (count - 2 * rank) * excess)


def _on_the_way(start: float, end: float, part: float) -> float:
    return start + (end - start) * part
