"""How often 95 % intervals hold the true value: of so many runs, and of rounds that stop when they are narrow enough.

`python -m benchmarks.coverage` simulates it with the functions that make the tables, and exits with 1 if an interval of
three runs or more holds too seldom. `--trials 20000` takes about four minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.noise_shapes import SHAPES, Shape, true_median
from paceline.analysis.statistics.intervals import LEAST_TO_STOP, SEQUENTIAL_CONFIDENCE, Estimate, estimate

SEED = 1
LEAST = 0.93  # of the intervals must hold the true median
MOST_RUNS = 20
RUNS = range(2, MOST_RUNS + 1)
TARGETS = (0.02, 0.03, 0.05, 0.1, 0.2)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--trials", type=int, default=20_000)
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
    truth = true_median(shape, stream)
    return sum(holds(estimate(values), truth) for values in shape(stream, (trials, runs)).tolist()) / trials


def held_when_stopped(shape: Shape, target: float, trials: int) -> float:
    """Likewise, of the interval at which `--interval-target` ends the rounds, or of the last that the budget allows."""
    stream = np.random.default_rng((SEED, round(1000 * target)))
    truth = true_median(shape, stream)
    return (
        sum(holds(last_look(values, target), truth) for values in shape(stream, (trials, MOST_RUNS)).tolist()) / trials
    )


def last_look(values: Sequence[float], target: float) -> Estimate | None:
    """As a cell's runs come one by one."""
    looks = list(_looks(values, target))
    return looks[-1]


def _looks(values: Sequence[float], target: float) -> Iterator[Estimate | None]:
    for count in range(LEAST_TO_STOP, len(values) + 1):
        found = estimate(values[:count], confidence=SEQUENTIAL_CONFIDENCE)
        yield found
        if found and not found.wider_than(target):
            return


def holds(found: Estimate | None, truth: float) -> bool:
    return found is not None and found.low is not None and found.high is not None and found.low <= truth <= found.high


if __name__ == "__main__":
    sys.exit(main())
