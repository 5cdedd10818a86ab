"""From a suite to cells and runs: what will be measured, in which order, and what cannot be and why."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from paceline.catalog.datasets.known import known
from paceline.catalog.datasets.prepared import folder_of
from paceline.catalog.frameworks import Framework, find
from paceline.catalog.workloads import known_workload
from paceline.environments import virtual_environments
from paceline.plan.cell import Cell
from paceline.plan.cell_names import cell_names
from paceline.plan.devices import missing_gpus
from paceline.plan.matrix import FAKE_SOURCES, cells_of
from paceline.plan.pilots import ROUNDS, pilots
from paceline.plan.run_keys import run_key
from paceline.plan.settings import Suite
from paceline.plan.shares import MEASURED, given_shares
from paceline.system.limits import check_runs
from paceline.system.machine.hardware import Machine
from paceline_worker.protocol import Job

BLOCKS = 10  # readings of the clock in a run: enough to see jitter, too few to cost anything
PATIENCE_SECONDS = 300.0  # how long a rank waits for the others before it gives up


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
    runs: tuple[Run, ...]  # in the order of execution; those of no cell come first and serve to divide batches

    def names(self) -> dict[Cell, str]:
        """No two alike; those that only serve to divide batches do not make the others longer."""
        return cell_names(run.cell for run in self.runs) | cell_names(self.cells)


def make_plan(suite: Suite, machine: Machine) -> Plan:
    """Expand the matrix. What the user got wrong is an error; what a framework cannot do is a skip."""
    cells = tuple(dict.fromkeys(cells_of(suite, machine)))
    check_runs(len(cells) * suite.repeats)
    absent = {cell.framework: virtual_environments.hindrance(find(cell.framework).framework) for cell in cells}
    skips = tuple(
        Skip(cell, reason)
        for cell in cells
        if (reason := _without_devices(cell, machine) or reason_to_skip(cell) or absent[cell.framework])
    )
    skipped = {skip.cell for skip in skips}
    measured = [cell for cell in cells if cell not in skipped]
    first = list(dict.fromkeys(pilot for cell in measured for pilot in pilots(cell)))
    rounds = [_round(first, repeat, suite, machine) for repeat in range(ROUNDS)]
    rounds += [_round(measured, repeat, suite, machine) for repeat in range(suite.repeats)]
    runs = {run.key: run for runs in rounds for run in runs}  # a pilot may be a cell of the table, too
    return Plan(suite, cells, skips, tuple(runs.values()))


def _without_devices(cell: Cell, machine: Machine) -> str | None:
    missing = missing_gpus(cell.device_set, machine)
    return f"this machine has no cuda:{missing[0]}" if missing else None


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
    return lacking(framework, offers) or too_many_devices(framework, cell.device_set.count) or _unable(framework, cell)


def lacking(framework: Framework, offers: Mapping[str, Collection[str]]) -> str | None:
    """The first thing that is wanted and not among what is offered in its place."""
    for wanted, offered in offers.items():
        if wanted not in offered:
            return f"{framework.name} has no {wanted}, only {', '.join(offered)}"
    return None


def _unable(framework: Framework, cell: Cell) -> str | None:
    if cell.slow and framework.processes == "one":
        return f"all devices of {framework.name} are in one process, of which no part can be slowed down"
    return unable(framework, equally=_divided_equally(cell), wrapped=cell.wrapped)


def unable(framework: Framework, *, equally: bool, wrapped: bool) -> str | None:
    """What it cannot do with devices that are unlike, or alone."""
    if not equally and not framework.unequal_shares:
        return f"{framework.name} divides a batch equally"
    if wrapped and not framework.wrapper:
        return f"{framework.name} has no wrapper for one device"
    return None


def _divided_equally(cell: Cell) -> bool:
    """Given shares may come to equal ones; those still to be measured are not known."""
    return cell.shares != MEASURED and len(set(given_shares(cell.shares, cell.batch_size, cell.device_set))) == 1


def too_many_devices(framework: Framework, count: int) -> str | None:
    most = framework.max_devices
    if most is None or count <= most:
        return None
    return f"{framework.name} trains on at most {most} device{'s' if most > 1 else ''}"


def another_round(plan: Plan, cells: Collection[Cell], machine: Machine) -> Plan:
    """The plan with one more run of each of these cells, all in one round."""
    repeat = 1 + max(run.repeat for run in plan.runs if run.cell in plan.cells)
    more = _round([cell for cell in plan.cells if cell in cells], repeat, plan.suite, machine)
    return replace(plan, runs=(*plan.runs, *more))


def _round(cells: list[Cell], repeat: int, suite: Suite, machine: Machine) -> list[Run]:
    """Every cell once, in an order of its own, so that noise hits all alike."""
    shuffled = random.Random(f"{suite.seed}/{repeat}").sample(cells, len(cells))  # noqa: S311 - order, not secrets
    return [Run(cell, repeat, run_key(cell, repeat, machine), suite.timeout) for cell in shuffled]


def make_job(run: Run, shares: tuple[int, ...] = ()) -> Job:
    """The worker's job: the cell, with a seed of its own for each repeat, and shares if they were measured."""
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
        shares=shares or given_shares(cell.shares, cell.batch_size, devices),
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
        wrapped=cell.wrapped,
        slow=cell.slow,
        evaluate=cell.evaluate,
        count_correct=bool(cell.input),
        dataset=str(folder_of(known(cell.data))) if cell.input else "",
        pipeline=workload.pipelines[cell.input].to_json() if cell.input else {},
    )
