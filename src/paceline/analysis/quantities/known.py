"""Every quantity that is known, with its definition: search here for what a number means and where it goes.

The values themselves are worked out in one place: `store/index/schema.sql` for what training says, `store/resources.py`
for what samples say.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint

from paceline.analysis.quantities.definition import (
    ESTIMATE,
    LESS,
    MEBIBYTE,
    MEDIAN,
    MORE,
    OF_EACH,
    OF_RUNS,
    Quantity,
)
from paceline.analysis.quantities.doubts import guesses, taken_not_needed
from paceline.analysis.quantities.field_names import FIELDS
from paceline.analysis.statistics.yardsticks import DIFFERENCE
from paceline.catalog import plugins
from paceline.system.errors import unknown

OF_COMMANDS = "trainings: only `paceline time` measures it"
OF_TRAINING = "commands that do not print it: `paceline time` sees them from outside"


def part(value: float) -> str:
    return f"{value:.3f}"


def three_digits(value: float) -> str:
    return f"{value:.3g}"


def percent(value: float) -> str:
    return f"{value:.1%}"


def unless_half_never_did(values: Sequence[float], runs: int) -> float | None:
    """The median over runs of which some may never have got there."""
    reached = [*values, *[math.inf] * (runs - len(values))]
    middle = statistics.median(reached) if reached else math.inf
    return middle if math.isfinite(middle) else None


SPEED = Quantity(
    name="images_per_second",
    label="images/s",
    unit="images/s",
    meaning="images ÷ seconds of training alone: the sums over all measured steps, the slowest process sets the time; "
    "start-up, warm-up and evaluation are not in it",
    better=MORE,
    absent=OF_TRAINING,
    finding="fastest",
    superlative="fastest",
    question="Fastest",
    replayed="images/s",
    forms={"images_per_second": ESTIMATE, "images_per_second_of_runs": OF_RUNS},
)
SECONDS = Quantity(
    name="training_seconds",
    label="seconds",
    unit="s",
    meaning="of training; of a command from start to end",
    better=LESS,
    replayed="s",
    forms={"seconds": MEDIAN},
)
USER_SECONDS = Quantity(
    name="user_seconds",
    label="user seconds",
    unit="s",
    meaning="processor time of all processes of a command, in their own code",
    better=LESS,
    absent=OF_COMMANDS,
    replayed="user s",
)
SYSTEM_SECONDS = Quantity(
    name="system_seconds",
    label="system seconds",
    unit="s",
    meaning="likewise in the kernel",
    better=LESS,
    absent=OF_COMMANDS,
    replayed="sys s",
)
FIRST_STEP = Quantity(
    name="first_step_seconds",
    label="first step",
    unit="s",
    meaning="of the first step, compilation included",
    better=LESS,
    absent=OF_TRAINING,
    replayed="first step s",
    forms={"first_step_seconds": MEDIAN},
)
PROCESSOR_SPEED = Quantity(
    name="images_per_processor_second",
    label="images/CPU-s",
    unit="images/CPU-s",
    meaning="images ÷ processor seconds of all ranks",
    better=MORE,
    absent=OF_TRAINING,
    forms={"images_per_processor_second": MEDIAN},
)
WAITING = Quantity(
    name="waiting",
    label="waiting",
    meaning="part of the training time in which real images were not ready",
    better=LESS,
    yardstick=DIFFERENCE,
    text=percent,
    absent="fake data, which needs no preparing",
    applies=lambda cell: bool(cell.input),
    forms={"waiting": MEDIAN},
)
MEMORY = Quantity(
    name="memory",
    label="memory",
    unit="MiB",
    meaning="peak minus idle while training",
    better=LESS,
    stored="memory_bytes",
    per_unit=MEBIBYTE,
    absent="runs that were too short for a sample of their GPU, or whose driver does not tell",
    doubt=taken_not_needed,
    finding="memory",
    superlative="least memory",
    question="Least memory",
    replayed="MiB",
    forms={"peak_memory_mib": OF_EACH, "memory_mib_of_runs": OF_RUNS},
)
IDLE_MEMORY = Quantity(
    name="idle_bytes",
    label="idle memory",
    unit="MiB",
    meaning="of a process when its framework has started; of a GPU before anything was started",
    per_unit=MEBIBYTE,
    forms={"idle_memory_mib": OF_EACH},
)
STARTED_MEMORY = Quantity(
    name="started_bytes",
    label="memory at the start",
    unit="MiB",
    meaning="of each GPU before anything is built, minus idle",
    per_unit=MEBIBYTE,
    absent="CPU devices",
    forms={"started_memory_mib": OF_EACH},
)
ALLOCATOR_MEMORY = Quantity(
    name="allocator_bytes",
    label="memory by the framework",
    unit="MiB",
    meaning="peak of each device by the framework's own count",
    per_unit=MEBIBYTE,
    absent="frameworks that do not tell",
    forms={"allocator_memory_mib": OF_EACH},
)
TRAIN_ACCURACY = Quantity(
    name="train_accuracy",
    label="training accuracy",
    meaning="of the last epoch, while it was trained",
    better=MORE,
    yardstick=DIFFERENCE,
    text=part,
    absent="fake data, whose labels are random",
    forms={"train_accuracy": ESTIMATE},
)
TEST_ACCURACY = Quantity(
    name="test_accuracy",
    label="accuracy",
    meaning="on all test images after the last epoch",
    better=MORE,
    yardstick=DIFFERENCE,
    text=part,
    absent="runs without evaluation",
    doubt=guesses,
    both_doubtful=True,
    finding="accuracy",
    superlative="highest test accuracy",
    question="Best test accuracy",
    replayed="test accuracy",
    forms={"test_accuracy": ESTIMATE, "test_accuracy_of_runs": OF_RUNS},
)
EVALUATION_SECONDS = Quantity(
    name="evaluation_seconds",
    label="evaluation",
    unit="s",
    meaning="all evaluations together, no part of `seconds`",
    better=LESS,
    absent="runs without evaluation",
    forms={"evaluation_seconds": MEDIAN},
)
SECONDS_TO_TARGET = Quantity(
    name="seconds_to_target",
    label="seconds to the target",
    unit="s",
    meaning="of training until the test accuracy of `--target`; `null` if half of the runs or more never got there",
    better=LESS,
    absent="runs without evaluation, and tables without `--target`",
    middle=unless_half_never_did,
    forms={"seconds_to_target": MEDIAN},
)
IMAGES_TO_TARGET = Quantity(
    name="images_to_target",
    label="images to the target",
    unit="images",
    meaning="likewise the images",
    better=LESS,
    absent="runs without evaluation, and tables without `--target`",
    middle=unless_half_never_did,
    forms={"images_to_target": MEDIAN},
)


PACKAGE_ENERGY = Quantity(
    name="package_joules_per_image",
    label="processor J/image",
    unit="J/image",
    meaning="what the processors' packages of the whole machine used in training (RAPL) ÷ images",
    better=LESS,
    text=three_digits,
    absent="systems without RAPL, or where only root may read it",
    of_run=lambda run: run.per_image("package_joules"),
    forms={"package_joules_per_image": ESTIMATE},
)
GPU_ENERGY = Quantity(
    name="gpu_joules_per_image",
    label="GPU J/image",
    unit="J/image",
    meaning="what its GPUs used in training (NVML) ÷ images",
    better=LESS,
    text=three_digits,
    absent="CPU devices, and cards before Volta",
    of_run=lambda run: run.per_image("gpu_joules"),
    forms={"gpu_joules_per_image": ESTIMATE},
)
WHERE_KNOWN = (PACKAGE_ENERGY, GPU_ENERGY)  # in tables where some row has a value

BUILT_IN = (
    *(SPEED, SECONDS, USER_SECONDS, SYSTEM_SECONDS, FIRST_STEP, PROCESSOR_SPEED, WAITING),
    *(MEMORY, IDLE_MEMORY, STARTED_MEMORY, ALLOCATOR_MEMORY),
    *(TRAIN_ACCURACY, TEST_ACCURACY, EVALUATION_SECONDS, SECONDS_TO_TARGET, IMAGES_TO_TARGET),
    *WHERE_KNOWN,
)


def all_quantities() -> tuple[Quantity, ...]:
    return (*BUILT_IN, *brought())


@cache
def brought() -> tuple[Quantity, ...]:
    """What plug-ins add."""
    return tuple(plugins.load(plugins.QUANTITIES, set(), _from_plugin).values())


def _from_plugin(point: EntryPoint) -> Quantity:
    quantity = point.load()
    if not isinstance(quantity, Quantity) or quantity.name != point.name:
        raise ValueError(f"{point.value} is no Quantity called {point.name!r}")
    known = {name for each in BUILT_IN for name in (each.name, each.label, *each.forms)} | set(FIELDS)
    if taken := known & {quantity.name, quantity.label, *quantity.forms}:
        raise ValueError(f"{min(taken)!r} is taken")
    if quantity.finding and not quantity.superlative:
        raise ValueError("what names the best row in findings needs a superlative")
    return quantity if quantity.forms else replace(quantity, forms={quantity.name: ESTIMATE})


def comparable(label: str) -> Quantity:
    """The one that is meant by a label, or by a name, of which more or less is better."""
    known = {name: each for each in all_quantities() if each.comparable for name in (each.name, each.label)}
    if label not in known:
        raise unknown("metric", label, metrics())
    return known[label]


def metrics() -> list[str]:
    return [each.label for each in all_quantities() if each.comparable]
