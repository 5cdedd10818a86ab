"""What guessing gets right of the test images, and from where on an accuracy says more."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from paceline.catalog.workloads import all_workloads
from paceline.catalog.workloads.definition import Workload
from paceline.system.errors import UserError

STEP = 0.05  # a target that was not given is a multiple of this


def chance(workload: Workload) -> float:
    """Test sets here have as many images of each class."""
    return 1 / workload.classes


def floor_of(accuracy: float) -> float:
    """The highest multiple of STEP that it has reached."""
    return round(math.floor(accuracy / STEP + 1e-9) * STEP, 2)


def least_target(by_chance: float) -> float:
    """The first multiple of STEP above guessing: what ends below was not trained long enough."""
    return round(floor_of(by_chance) + STEP, 2)


def check_target(target: float, workload: Workload) -> None:
    """Refuse an accuracy that needs no training."""
    by_chance = chance(workload)
    if target <= by_chance:
        raise UserError(
            f"The target {target:g} is no more than guessing on {workload.name}, which gets one of {workload.classes} "
            f"classes right in {by_chance:g} of cases; give a higher one, such as {least_target(by_chance):g}."
        )


def above_chance(accuracies: Sequence[float], by_chance: float | None) -> bool | None:
    """Whether a cell was trained long enough to tell, by the median of its runs; None if that is not known."""
    return statistics.median(accuracies) >= least_target(by_chance) if accuracies and by_chance else None


def guessing(workload: str, accuracies: Sequence[float]) -> str:
    """Why these are no results; empty if they are, or if nobody knows the workload."""
    known = all_workloads().get(workload)
    return little_better(chance(known)) if known and above_chance(accuracies, chance(known)) is False else ""


def little_better(by_chance: float) -> str:
    """Why an accuracy near that of guessing is no result."""
    return f"a test accuracy below {least_target(by_chance):g} tells little: guessing gets {by_chance:g}"
