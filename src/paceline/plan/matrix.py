"""From a suite to its cells: every combination of what it names, with all settings worked out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from paceline.catalog import datasets
from paceline.catalog.frameworks import expand, find
from paceline.catalog.workloads import known_workload
from paceline.catalog.workloads.definition import Workload
from paceline.plan.cell import Cell
from paceline.plan.devices import DeviceSet, assign_cores, check_present, wanted_devices
from paceline.plan.settings import DEFAULT_STEPS, Precision, RateRule, Suite, Update
from paceline.plan.shares import EQUAL, MEASURED, check_shares, fitting, given_shares, parse_slow, slow_factors
from paceline.system.errors import UserError, unknown
from paceline.system.limits import STEPS, check_cells
from paceline.system.machine.hardware import Machine

UPDATES: tuple[str, ...] = get_args(Update)
FAKE_SOURCES = ("fake:device", "fake:host", "fake:python")
SOURCES = (*FAKE_SOURCES, *datasets.KNOWN)
LEARNING_RATE_RULES: dict[RateRule, Callable[[float], float]] = {
    "none": lambda _: 1.0,
    "linear": float,
    "sqrt": math.sqrt,
}
PRECISIONS: tuple[str, ...] = get_args(Precision)
WRAPPED = {"plain": (False,), "wrapped": (True,), "both": (False, True)}


@dataclass(frozen=True)
class DeviceUse:
    """A device set and how it is used."""

    devices: DeviceSet
    shares: str
    slow: tuple[float, ...]
    wrapped: bool
    cores: tuple[tuple[int, ...], ...]
    oversubscribed: bool
    otherwise: bool  # the same devices have fixed shares in another cell

    def has_place_for(self, batch_size: int) -> bool:
        """Equal shares give way to fixed ones where the batch has no equal parts."""
        return not (self.otherwise and self.shares == EQUAL and batch_size % self.devices.count)


@dataclass(frozen=True)
class TrainingLength:
    """How long a workload is trained, and with which batches."""

    workload: Workload
    batch: tuple[str, int | None]  # how it is given, and its size; None is the workload's own
    epochs: float | None
    rate: float | None

    def batch_size(self, devices: DeviceSet) -> int:
        scaling, size = self.batch
        return (size or self.workload.batch_size) * (devices.count if scaling == "weak" else 1)


def cells_of(suite: Suite, machine: Machine) -> list[Cell]:
    """In the order of the table; what the user got wrong is an error."""
    cells: list[Cell] = []
    parts = suite.parts or (suite,)
    _check_shares(parts)
    for part in parts:
        cells += _matrix(part, machine, len(cells))
    return cells


def _check_shares(parts: Sequence[Suite]) -> None:
    """Each value must fit a device set of a part that has it; a suite may be cut down to single devices by a flag."""
    meant: dict[str, dict[str, DeviceSet]] = {}
    for part in parts:
        sets = {text: wanted_devices(text) for text in part.devices}
        cut_down = part.name and all(devices.count == 1 for devices in sets.values())
        for text in () if cut_down else part.shares:
            meant.setdefault(text, {}).update(sets)
    for text, sets in meant.items():
        check_shares(text, list(sets.values()))


def _matrix(suite: Suite, machine: Machine, before: int) -> list[Cell]:
    """Those of one part, after so many of the parts before it."""
    check_cells(len(suite.workload) * len(suite.data))
    check_cells(len(suite.devices) * len(suite.shares))
    uses = list(_uses(suite, machine))
    inputs = [
        choice
        for workload, data in itertools.product(suite.workload, suite.data)
        for choice in _inputs(suite, known_workload(workload), data)
    ]
    ways = (_batches(suite), suite.epochs or (None,), suite.lr or (None,))
    check_cells(math.prod(map(len, ways)))
    how = list(itertools.product(*ways))
    choices = (inputs, suite.update, suite.precision, how, expand(suite.framework), uses)
    check_cells(before + math.prod(map(len, choices)))
    return [
        _cell(suite, (data, given, update, precision), training, framework, use)
        for (workload, data, given), update, precision, how, framework, use in itertools.product(*choices)
        for training in (TrainingLength(known_workload(workload), *how),)
        if use.has_place_for(training.batch_size(use.devices))
    ]


def _uses(suite: Suite, machine: Machine) -> Iterator[DeviceUse]:
    sets = [wanted_devices(text) for text in suite.devices]
    slow = parse_slow(suite.slow, sets)
    for devices in sets:
        if not suite.name:  # a suite is for many machines, of which some have fewer GPUs: those cells are skipped
            check_present(devices, machine)
        cores = _cores_per_device(suite, devices, sets, machine)
        listed = fitting(suite.shares, devices)
        for shares, wrapped in itertools.product(listed, WRAPPED[suite.single] if devices.count == 1 else (False,)):
            yield DeviceUse(
                devices=devices,
                shares=shares,
                slow=slow_factors(slow, devices),
                wrapped=wrapped,
                cores=assign_cores(devices, cores, machine.cores),
                oversubscribed=devices.kind == "cpu" and devices.count * cores > machine.allowed_cores,
                otherwise=not {EQUAL, MEASURED}.issuperset(listed),
            )


def _cores_per_device(suite: Suite, devices: DeviceSet, sets: list[DeviceSet], machine: Machine) -> int:
    """As told, or so that the largest CPU set of the plan fits and the smaller ones have no more cores per device."""
    rivals = [other.count for other in sets if other.kind == "cpu"] if devices.kind == "cpu" else [devices.count]
    return suite.cores_per_device or max(1, machine.whole_cores // max(rivals))


def _inputs(suite: Suite, workload: Workload, data: str) -> list[tuple[str, str, str]]:
    """Workload, data source and what is done to the images: nothing if they are fake."""
    _known("data source", data, SOURCES)
    if data in FAKE_SOURCES or data != workload.dataset or not workload.pipelines:
        return [(workload.name, data, "")]
    chosen = suite.input or list(workload.pipelines)[:1]
    return [
        (workload.name, data, _known(f"input of {workload.name}", name, tuple(workload.pipelines))) for name in chosen
    ]


def _batches(suite: Suite) -> list[tuple[str, int | None]]:
    """How the batch is given, and its size; None is the workload's own."""
    per_device: list[tuple[str, int | None]] = [("weak", size) for size in suite.batch_per_device]
    in_all: list[tuple[str, int | None]] = [("strong", size) for size in suite.batch_size]
    return per_device or in_all or [("strong", None)]


def _cell(
    suite: Suite,
    choices: tuple[str, str, str, str],
    training: TrainingLength,
    framework: str,
    use: DeviceUse,
) -> Cell:
    data, given, update, precision = choices
    batch_size = training.batch_size(use.devices)
    check_batch(batch_size, use)
    evaluate = suite.evaluate or ("epoch" if training.epochs else "never")
    return Cell(
        workload=training.workload.name,
        framework=find(framework).name,
        devices=use.devices.name,
        update=update,
        data=data,
        precision=precision,
        batch_size=batch_size,
        scaling=training.batch[0],
        steps=_steps(suite, training, given, batch_size),
        warmup=suite.warmup,
        learning_rate=_rate(suite, training, batch_size),
        seed=suite.seed,
        cores=use.cores,
        oversubscribed=use.oversubscribed,
        input=given,
        evaluate=evaluate if given else "never",
        parameter_device=suite.parameter_device if update == "parameter_server" else "",
        shares=use.shares,
        slow=use.slow,
        wrapped=use.wrapped,
    )


def _known(what: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise unknown(what, value, choices)
    return value


def check_batch(batch_size: int, use: DeviceUse) -> None:
    """Refuse a batch that does not go into the shares; those still to be measured are taken for equal."""
    if use.shares == EQUAL:
        check_split(batch_size, use.devices)
    given_shares(use.shares, batch_size, use.devices)


def check_split(batch_size: int, devices: DeviceSet) -> None:
    if batch_size % devices.count:
        fitting = batch_size + devices.count - batch_size % devices.count
        raise UserError(
            f"A batch of {batch_size} cannot be split over {devices.count} devices ({devices.name}); "
            f"use a multiple of {devices.count}, such as {fitting}."
        )


def _rate(suite: Suite, training: TrainingLength, batch_size: int) -> float:
    workload = training.workload
    follow = LEARNING_RATE_RULES[suite.lr_rule]
    return (training.rate or workload.recipe.learning_rate) * follow(batch_size / workload.batch_size)


def _steps(suite: Suite, training: TrainingLength, given: str, batch_size: int) -> int:
    epochs, given_steps = training.epochs, suite.steps or DEFAULT_STEPS
    steps = given_steps if epochs is None else training.workload.steps(epochs, batch_size, given)
    STEPS.check("The number of steps", steps)
    if suite.warmup >= steps:
        raise UserError(
            f"warmup {suite.warmup} must be less than the {steps} steps; use --warmup {steps - 1} or more steps."
        )
    return steps
