"""How often 95 % intervals hold the true value: of so many runs, and of rounds that stop when they are narrow enough.

`python -m benchmarks.coverage` simulates it with the intervals of the tables, computed for all trials at once. It exits
with 1 if an interval of three runs or more holds too seldom.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
from numpy.typing import NDArray

from benchmarks.noise_shapes import SHAPES, Floats, Shape, true_median
from paceline.analysis.statistics import order_statistics, student_t
from paceline.analysis.statistics.intervals import CONFIDENCE, FEW, FURTHEST, LEAST_TO_STOP, SEQUENTIAL_CONFIDENCE

SEED = 1
TRIALS = 50_000
LEAST = 0.93  # of the intervals must hold the true median
MOST_RUNS = 20
RUNS = range(2, MOST_RUNS + 1)
TARGETS = (0.02, 0.03, 0.05, 0.1, 0.2)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    trials = parser.parse_args().trials
    lowest = 1.0
    for name, shape in SHAPES.items():
        fixed = {runs: held_by_fixed(shape, runs, trials) for runs in RUNS}
        stopped = {target: held_when_stopped(shape, target, trials) for target in TARGETS}
        print(f"{name}: runs " + ", ".join(f"{runs}: {100 * part:.1f} %" for runs, part in fixed.items()))
        print(f"{name}: target " + ", ".join(f"{target:g}: {100 * part:.1f} %" for target, part in stopped.items()))
        lowest = min(lowest, *(part for runs, part in fixed.items() if runs > 2), *stopped.values())
    print(f"lowest of three runs and more: {100 * lowest:.1f} %, at least {100 * LEAST:.0f} % wanted")
    return int(lowest < LEAST)


def held_by_fixed(shape: Shape, runs: int, trials: int) -> float:
    """Part of the intervals of so many runs that hold the true median."""
    stream = np.random.default_rng((SEED, runs))
    truth = true_median(shape)
    return float(np.mean(holds(intervals(shape(stream, (trials, runs)), CONFIDENCE), truth)))


def held_when_stopped(shape: Shape, target: float, trials: int) -> float:
    """Likewise, of the interval at which `--interval-target` ends the rounds, or of the last that the budget allows."""
    stream = np.random.default_rng((SEED, round(1000 * target)))
    values, truth = shape(stream, (trials, MOST_RUNS)), true_median(shape)
    held, going_on = np.zeros(trials, bool), np.arange(trials)
    for count in range(LEAST_TO_STOP, MOST_RUNS + 1):  # as a cell's runs come one by one
        known = values[going_on, :count]
        low, high = intervals(known, SEQUENTIAL_CONFIDENCE)
        held[going_on] = holds((low, high), truth)
        going_on = going_on[high - low > target * np.median(known, axis=1)]
    return float(np.mean(held))


def intervals(values: Floats, confidence: float) -> tuple[Floats, Floats]:
    """What `estimate` makes of each row, of two runs or more above zero; a test holds them against each other."""
    count, logarithms, medians = values.shape[1], np.log(values), np.median(values, axis=1)
    if count <= FEW:
        reach = student_t.quantile(1 - confidence, count - 1) * logarithms.std(axis=1, ddof=1) / math.sqrt(count)
        low, high = logarithms.mean(axis=1) - reach, logarithms.mean(axis=1) + reach
    else:
        place, _ = order_statistics.interval(range(count), confidence)  # among the ordered values, and between two
        low, high = (_at(place, side) for side in _ordered_from_both_sides(logarithms))
    return (
        np.clip(np.exp(low), medians / FURTHEST, medians),
        np.clip(np.exp(high), medians, medians * FURTHEST),
    )


def _ordered_from_both_sides(values: Floats) -> tuple[Floats, Floats]:
    ordered = np.sort(values, axis=1)
    return ordered, ordered[:, ::-1]


def _at(place: float, ordered: Floats) -> Floats:
    whole = math.floor(place)
    return ordered[:, whole] + (place - whole) * (ordered[:, whole + 1] - ordered[:, whole])


def holds(found: tuple[Floats, Floats], truth: float) -> NDArray[np.bool_]:
    low, high = found
    return (low <= truth) & (truth <= high)


if __name__ == "__main__":
    sys.exit(main())
