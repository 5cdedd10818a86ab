"""From a suite to cells and runs: what will be measured, in which order, and what cannot be and why."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import msgspec

from paceline import datasets, environments
from paceline.datasets.known import known
from paceline.datasets.prepared import folder_of
from paceline.devices import DeviceSet, assign_cores, check_present, parse_devices
from paceline.errors import UserError, unknown
from paceline.frameworks import Framework, expand, find
from paceline.machine import Machine
from paceline.suite import DEFAULT_STEPS, Suite
from paceline.worker_code import code_hash
from paceline.workloads import fingerprint, known_workload
from paceline.workloads.definition import Workload
from paceline_worker.protocol import Job

UPDATES = ("replicated", "parameter_server", "independent")
FAKE_SOURCES = ("fake:device", "fake:host", "fake:python")
SOURCES = (*FAKE_SOURCES, *datasets.KNOWN)
LEARNING_RATE_RULES: dict[str, Callable[[float], float]] = {"none": lambda _: 1.0, "linear": float, "sqrt": math.sqrt}
PRECISIONS = ("float32", "bfloat16")
BLOCKS = 10  # readings of the clock in a run: enough to see jitter, too few to cost anything
PATIENCE_SECONDS = 300.0  # how long a rank waits for the others before it gives up


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One place in a table: every setting that makes its number comparable or not."""

    workload: str
    framework: str  # with its mode
    devices: str
    update: str
    data: str
    precision: str
    batch_size: int
    scaling: str  # what happens to the batch with more devices: "weak" it grows, "strong" it stays
    steps: int
    warmup: int
    learning_rate: float
    seed: int
    cores: tuple[tuple[int, ...], ...]
    oversubscribed: bool
    input: str = ""  # what is done to real images
    evaluate: str = "never"
    parameter_device: str = ""  # where a parameter server keeps its copy

    @property
    def device_set(self) -> DeviceSet:
        return parse_devices(self.devices)


@dataclass(frozen=True)
class Skip:
    cell: Cell
    reason: str


@dataclass(frozen=True)
class Run:
    """One execution of a cell; its key is the same whenever the same thing would be measured again."""

    cell: Cell
    repeat: int
    key: str
    timeout_seconds: float


@dataclass(frozen=True)
class Plan:
    suite: Suite
    cells: tuple[Cell, ...]  # also the skipped ones, in the order of the table
    skips: tuple[Skip, ...]
    runs: tuple[Run, ...]  # in the order of execution


def make_plan(suite: Suite, machine: Machine) -> Plan:
    """Expand the matrix. What the user got wrong is an error; what a framework cannot do is a skip."""
    cells = tuple(dict.fromkeys(_cells(suite, machine)))
    absent = {cell.framework: environments.hindrance(find(cell.framework).framework) for cell in cells}
    skips = tuple(Skip(cell, reason) for cell in cells if (reason := reason_to_skip(cell) or absent[cell.framework]))
    skipped = {skip.cell for skip in skips}
    rounds = [_round([c for c in cells if c not in skipped], repeat, suite, machine) for repeat in range(suite.repeats)]
    return Plan(suite, cells, skips, tuple(itertools.chain.from_iterable(rounds)))


def _cells(suite: Suite, machine: Machine) -> list[Cell]:
    sets = [parse_devices(text) for text in suite.devices]
    for devices in sets:
        check_present(devices, machine)
    inputs = [
        choice
        for workload, data in itertools.product(suite.workload, suite.data)
        for choice in _inputs(suite, known_workload(workload), data)
    ]
    matrix = itertools.product(inputs, suite.update, suite.precision, _batches(suite), expand(suite.framework), sets)
    return [
        _cell(
            suite,
            workload,
            (data, update, precision, given),
            batch,
            framework,
            devices,
            _cores_per_device(suite, devices, sets, machine),
            machine,
        )
        for (workload, data, given), update, precision, batch, framework, devices in matrix
    ]


def _inputs(suite: Suite, workload: Workload, data: str) -> list[tuple[str, str, str]]:
    """Workload, data source and what is done to the images: nothing if they are fake."""
    _known("data source", data, SOURCES)
    if data in FAKE_SOURCES or data != workload.dataset or not workload.pipelines:
        return [(workload.name, data, "")]
    chosen = suite.input or list(workload.pipelines)[:1]
    return [
        (workload.name, data, _known(f"input of {workload.name}", name, tuple(workload.pipelines))) for name in chosen
    ]


def _cores_per_device(suite: Suite, devices: DeviceSet, sets: list[DeviceSet], machine: Machine) -> int:
    """As told, or so that the largest CPU set of the plan fits and the smaller ones have no more cores per device."""
    rivals = [other.count for other in sets if other.kind == "cpu"] if devices.kind == "cpu" else [devices.count]
    return suite.cores_per_device or max(1, len(machine.cores) // max(rivals))


def _batches(suite: Suite) -> list[tuple[str, int | None]]:
    """How the batch is given, and its size; None is the workload's own."""
    per_device: list[tuple[str, int | None]] = [("weak", size) for size in suite.batch_per_device]
    in_all: list[tuple[str, int | None]] = [("strong", size) for size in suite.batch_size]
    return per_device or in_all or [("strong", None)]


def _cell(  # noqa: PLR0913, PLR0917 - the axes of the matrix
    suite: Suite,
    workload_name: str,
    choices: tuple[str, str, str, str],
    batch: tuple[str, int | None],
    framework: str,
    devices: DeviceSet,
    cores_per_device: int,
    machine: Machine,
) -> Cell:
    data, update, precision, given = choices
    workload = known_workload(workload_name)
    scaling, size = batch
    batch_size = (size or workload.batch_size) * (devices.count if scaling == "weak" else 1)
    check_split(batch_size, devices)
    steps = _steps(suite, workload, given, batch_size)
    evaluate = suite.evaluate or ("epoch" if suite.epochs else "never")
    if suite.warmup >= steps:
        raise UserError(
            f"warmup {suite.warmup} must be less than the {steps} steps; use --warmup {steps - 1} or more steps."
        )
    return Cell(
        workload=workload.name,
        framework=find(framework).name,
        devices=devices.name,
        update=_known("update", update, UPDATES),
        data=data,
        precision=_known("precision", precision, PRECISIONS),
        batch_size=batch_size,
        scaling=scaling,
        steps=steps,
        warmup=suite.warmup,
        learning_rate=_rate(suite, workload, batch_size),
        seed=suite.seed,
        cores=assign_cores(devices, cores_per_device, machine.cores),
        oversubscribed=devices.kind == "cpu" and devices.count * cores_per_device > len(machine.cores),
        input=given,
        evaluate=evaluate if given else "never",
        parameter_device=suite.parameter_device if update == "parameter_server" else "",
    )


def _known(what: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise unknown(what, value, choices)
    return value


def check_split(batch_size: int, devices: DeviceSet) -> None:
    if batch_size % devices.count:
        fitting = batch_size + devices.count - batch_size % devices.count
        raise UserError(
            f"A batch of {batch_size} cannot be split over {devices.count} devices ({devices.name}); "
            f"use a multiple of {devices.count}, such as {fitting}."
        )


def _rate(suite: Suite, workload: Workload, batch_size: int) -> float:
    return (suite.lr or workload.recipe.learning_rate) * LEARNING_RATE_RULES[suite.lr_rule](
        batch_size / workload.batch_size
    )


def _steps(suite: Suite, workload: Workload, given: str, batch_size: int) -> int:
    """As told, or so many that every image is seen often enough; some recipes fill up the last batch of an epoch."""
    if suite.epochs is None:
        return suite.steps or DEFAULT_STEPS
    batches = workload.images_per_epoch / batch_size
    filled_up = given and workload.pipelines[given].ending == "complete"
    return max(1, math.ceil(suite.epochs * (math.ceil(batches) if filled_up else batches)))


def reason_to_skip(cell: Cell) -> str | None:
    """Why the framework cannot do this cell, by its own framework.toml."""
    framework = find(cell.framework).framework
    if cell.data not in FAKE_SOURCES and not cell.input:
        return f"{cell.workload} is not made for images of {cell.data}"
    offers = {
        cell.device_set.kind: framework.devices,
        cell.update: framework.updates,
        cell.data if cell.data in FAKE_SOURCES else "fake:python": framework.data,  # real images are fed in likewise
        cell.precision: framework.precisions,
    }
    missing = [(wanted, offered) for wanted, offered in offers.items() if wanted not in offered]
    for wanted, offered in missing:
        return f"{framework.name} has no {wanted}, only {', '.join(offered)}"
    return too_many_devices(framework, cell.device_set.count)


def too_many_devices(framework: Framework, count: int) -> str | None:
    most = framework.max_devices
    if most is None or count <= most:
        return None
    return f"{framework.name} trains on at most {most} device{'s' if most > 1 else ''}"


def another_round(plan: Plan, cells: Collection[Cell], machine: Machine) -> Plan:
    """The plan with one more run of each of these cells, all in one round."""
    repeat = 1 + max(run.repeat for run in plan.runs)
    more = _round([cell for cell in plan.cells if cell in cells], repeat, plan.suite, machine)
    return replace(plan, runs=(*plan.runs, *more))


def _round(cells: list[Cell], repeat: int, suite: Suite, machine: Machine) -> list[Run]:
    """Every cell once, in an order of its own, so that noise hits all alike."""
    shuffled = random.Random(f"{suite.seed}/{repeat}").sample(cells, len(cells))  # noqa: S311 - order, not secrets
    return [Run(cell, repeat, run_key(cell, repeat, machine), suite.timeout) for cell in shuffled]


def run_key(cell: Cell, repeat: int, machine: Machine) -> str:
    """Names what is measured: cell, repeat, network, recipe, the framework and its pins, machine and measuring code."""
    framework = find(cell.framework).framework
    brought = environments.brought(framework)
    what = (msgspec.to_builtins(cell), repeat, fingerprint(cell.workload))
    by_what = (msgspec.to_builtins(framework), brought and brought.fingerprint, code_hash(framework.name), machine.id)
    facts = (what, by_what)
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()[:16]


def make_job(run: Run) -> Job:
    """What the worker is told: the cell, with a seed of its own for each repeat."""
    cell = run.cell
    workload, devices, contestant = known_workload(cell.workload), cell.device_set, find(cell.framework)
    return Job(
        framework=contestant.framework.name,
        mode=contestant.mode,
        graph=workload.graph().to_json(),
        classes=workload.classes,
        recipe=replace(workload.recipe, learning_rate=cell.learning_rate),
        devices=devices.devices,
        cores=cell.cores,
        shares=(cell.batch_size // devices.count,) * devices.count,
        update=cell.update,
        data=cell.data,
        precision=cell.precision,
        seed=(cell.seed + run.repeat) % 2**32,  # NumPy takes no more
        steps=cell.steps,
        warmup=cell.warmup,
        block_steps=max(1, math.ceil(cell.steps / BLOCKS)),
        patience_seconds=min(run.timeout_seconds, PATIENCE_SECONDS),
        epoch_images=workload.images_per_epoch,
        parameter_device=cell.parameter_device or "cpu",
        evaluate=cell.evaluate,
        count_correct=bool(cell.input),
        dataset=str(folder_of(known(cell.data))) if cell.input else "",
        pipeline=workload.pipelines[cell.input].to_json() if cell.input else {},
    )
