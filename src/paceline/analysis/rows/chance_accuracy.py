"""What guessing gets right of the test images, and from where on an accuracy says more."""

from __future__ import annotations

import math

from paceline.analysis.rows.row import Row
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


def little_better(row: Row) -> str:
    """Why an accuracy near that of guessing is no result."""
    by_chance = row.chance or 0.0
    return f"a test accuracy below {least_target(by_chance):g} tells little: guessing gets {by_chance:g}"
