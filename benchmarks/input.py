"""What real images cost: how fast they are made on one core, and how much slower training on them is than on fake ones.

`python -m benchmarks.input` exits with 1 if a target is missed; a noisy machine makes it "cannot tell", not missed.
Images are made in this process, with its own Python and NumPy; training runs in the frameworks' environments.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.comparison import (
    MEASURES,
    Speed,
    Target,
    duel_ratio,
    exit_code,
    paired_ratio,
    spread,
    verdict_line,
    with_interval,
)
from benchmarks.contestants import Meter, run_ours, turns_of
from benchmarks.overhead import show_table
from paceline.analysis.statistics.intervals import estimate
from paceline.catalog import datasets
from paceline.catalog.workloads import WORKLOADS
from paceline.plan.planning import Plan, Run, make_plan
from paceline.plan.suite import make_suite
from paceline.run.session import RunTools
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.machine.hardware import this_machine
from paceline.system.machine_lock import alone
from paceline.system.text.formatting import number
from paceline_worker.input.batches import TrainingBatches
from paceline_worker.input.dataset import Dataset

DATA, FAKE = "cifar10", "fake:python"
CONSUMED, TRAINED = "cifar10-conv", "cifar10-resnet50"  # the fastest network to feed, and the one of the 3 per cent
INPUTS = (  # workload and what it does to its images
    (CONSUMED, "scaled"),
    *((TRAINED, f"level{level}") for level in range(4)),
    ("cifar10-resnet50-keras", "shifted"),
    ("cifar10-inception-v3", "enlarged"),
)
FEED_LIMIT = 5.0  # times what the fastest framework consumes
REAL_LIMIT = 0.97  # of the speed on fake images
WARMUP = 5  # steps, and batches of a pipeline
DUEL_STEPS = 6  # of a turn: many against the few batches that are made in advance
SEED = 1
TIMEOUT_SECONDS = 900.0  # for one run

Input = tuple[str, str]


@dataclass(frozen=True)
class Trained:
    """One of Paceline's runs and what it came to."""

    repeat: int
    workload: str
    framework: str
    data: str
    speed: Speed


def main() -> int:
    options = arguments()
    try:
        dataset = Dataset.open(datasets.ensure(DATA, print).folder)
        runs = planned_runs(options)
        with alone(), tempfile.TemporaryDirectory() as folder:
            duels = duel_targets(runs, options.turns)
            if options.duels_only:
                return verdicts(duels)
            made, trained = measure(runs, dataset, options.seconds, Store(Path(folder)))
    except UserError as error:
        print(f"input: {error}", file=sys.stderr)
        return 1
    show_made(made)
    show_trained(trained)
    return verdicts([*duels, feed_target(made[INPUTS[0]], trained), *real_targets(trained)])


def verdicts(targets: Sequence[Target]) -> int:
    for target in targets:
        print(verdict_line(target))
    return exit_code(targets)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.input", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0, help="for which each pipeline makes images in a round")
    parser.add_argument("--steps", type=int, default=30, help=f"measured steps of a run, more than {WARMUP}")
    parser.add_argument("--framework", default="torch,mxnet", help=f"consumers of {CONSUMED}")
    parser.add_argument("--real-framework", default="torch,jax", help=f"trainers of {TRAINED} on fake and real images")
    parser.add_argument("--turns", type=int, default=4, help="of real and fake images in the one process of a round")
    parser.add_argument("--duels-only", action="store_true", help="leave out the longer runs in fresh processes")
    return parser.parse_args()


def duel_targets(runs: Sequence[Run], turns: int) -> list[Target]:
    """Real and fake images turn by turn in one process: the comparison that noise spares. One ratio for each round."""
    ratios: dict[str, list[float]] = {}
    trained = [run for run in runs if run.cell.workload == TRAINED]
    for one, other in zip(trained[::2], trained[1::2], strict=True):
        ratios.setdefault(one.cell.framework, []).append(duel(one, other, turns))
    promise = f"{TRAINED} on {{}}, turn by turn: images/s, real / fake images"
    return [Target(promise.format(name), estimate(found), REAL_LIMIT, at_least=True) for name, found in ratios.items()]


def duel(one: Run, other: Run, turns: int) -> float:
    """Speed on real images against that on fake ones, in the order in which the plan has shuffled them."""
    words = [str(turns), str(DUEL_STEPS)]
    taken = turns_of([one, other], "benchmarks.input_duel", words, print)
    return duel_ratio(taken if one.cell.data == DATA else [(real, fake) for fake, real in taken])


def planned_runs(options: argparse.Namespace) -> list[Run]:
    consuming = planned(options, CONSUMED, options.framework, ["fake:device"])
    training = planned(options, TRAINED, options.real_framework, [FAKE, DATA])
    return in_turn([*consuming.runs, *training.runs])


def planned(options: argparse.Namespace, workload: str, frameworks: str, data: list[str]) -> Plan:
    settings = {
        "workload": workload,
        "framework": frameworks.split(","),
        "devices": "1xcpu",
        "data": data,
        "steps": options.steps,
        "warmup": WARMUP,
        "cores_per_device": 1,
        "repeats": options.rounds,
        "timeout": TIMEOUT_SECONDS,
    }
    return plan_without_skips(settings)


def plan_without_skips(settings: Mapping[str, Any]) -> Plan:
    """Every cell is needed for a comparison."""
    plan = make_plan(make_suite(settings, "the command line"), this_machine())
    for skip in plan.skips:
        raise UserError(f"{skip.cell.framework} cannot take part: {skip.reason}.")
    return plan


def in_turn(runs: Sequence[Run]) -> list[Run]:
    """Round by round; the runs that are compared are neighbours, in the order in which the plan has shuffled them."""
    return sorted(runs, key=lambda run: (run.repeat, run.cell.workload, run.cell.framework))


def measure(
    runs: Sequence[Run], dataset: Dataset, seconds: float, store: Store
) -> tuple[dict[Input, list[float]], list[Trained]]:
    """The images/s of each pipeline and all runs, one of each in every round."""
    made: dict[Input, list[float]] = {name: [] for name in INPUTS}
    trained = []
    with Meter(Console(stderr=True), list(runs), store.seconds_of) as meter:
        tools = RunTools(store, this_machine(), meter)
        for repeat in sorted({run.repeat for run in runs}):
            for name, speeds in made.items():
                with bound_to(runs[0].cell.cores[0][0]):  # where the runs are
                    speeds.append(images_per_second(batches_of(name, dataset), seconds))
            trained += [train(run, tools, meter) for run in runs if run.repeat == repeat]
    return made, trained


def train(run: Run, tools: RunTools, meter: Meter) -> Trained:
    speed = run_ours(run, tools, meter)
    return Trained(run.repeat, run.cell.workload, run.cell.framework, run.cell.data, speed)


@contextlib.contextmanager
def bound_to(core: int) -> Iterator[None]:
    """This process on one core; what it starts afterwards is free again."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def batches_of(name: Input, dataset: Dataset) -> TrainingBatches:
    """As one device gets them."""
    workload = WORKLOADS[name[0]]
    whole = slice(0, workload.batch_size)
    return TrainingBatches(dataset, workload.pipelines[name[1]], workload.batch_size, whole, SEED)


def images_per_second(batches: Iterable[tuple[Any, Any]], seconds: float) -> float:
    """Whole batches, for at least so long."""
    endless = iter(batches)
    for _ in range(WARMUP):
        next(endless)
    images, passed, start = 0, 0.0, time.perf_counter()
    while passed < seconds:
        _, labels = next(endless)
        images, passed = images + len(labels), time.perf_counter() - start
    return images / passed


def fastest(trained: Sequence[Trained]) -> list[float]:
    """What the fastest consumer of each round takes in, in images/s."""
    consumers = [each for each in trained if each.workload == CONSUMED]
    rounds = sorted({each.repeat for each in consumers})
    return [max(each.speed.images_per_second for each in consumers if each.repeat == repeat) for repeat in rounds]


def values_of(trained: Sequence[Trained], framework: str, data: str, measure: str) -> list[float]:
    """One value for each round."""
    chosen = [each for each in trained if (each.workload, each.framework, each.data) == (TRAINED, framework, data)]
    return [getattr(each.speed, MEASURES[measure]) for each in sorted(chosen, key=lambda each: each.repeat)]


def feed_target(made: Sequence[float], trained: Sequence[Trained]) -> Target:
    promise = f"{CONSUMED}: images/s made on one core / consumed by the fastest framework"
    return Target(promise, paired_ratio(made, fastest(trained)), FEED_LIMIT, at_least=True)


def trainers(trained: Sequence[Trained]) -> list[str]:
    return sorted({each.framework for each in trained if each.workload == TRAINED})


def real_targets(trained: Sequence[Trained]) -> list[Target]:
    """By the clock, and by processor time, which a neighbour on a shared machine disturbs far less."""
    return [
        Target(
            f"{TRAINED} on {framework}: {measure}, real / fake images",
            paired_ratio(*(values_of(trained, framework, data, measure) for data in (DATA, FAKE))),
            REAL_LIMIT,
            at_least=True,
        )
        for framework in trainers(trained)
        for measure in MEASURES
    ]


def show_made(made: dict[Input, list[float]]) -> None:
    rows = [
        [
            workload,
            done,
            str(WORKLOADS[workload].batch_size),
            number(statistics.median(speeds)),
            f"{spread(speeds):.1%}",
        ]
        for (workload, done), speeds in made.items()
    ]
    note = "On one core; median and (max - min) / median over the rounds."
    show_table(["images made for", "input", "batch", "images/s", "spread"], rows, note)


def show_trained(trained: Sequence[Trained]) -> None:
    consumers = {each.framework for each in trained if each.workload == CONSUMED}
    consumed = {
        name: [each.speed.images_per_second for each in trained if (each.workload, each.framework) == (CONSUMED, name)]
        for name in sorted(consumers)
    }
    rows = [[name, number(statistics.median(speeds)), f"{spread(speeds):.1%}"] for name, speeds in consumed.items()]
    show_table([f"{CONSUMED}, one core", "images/s", "spread"], rows)
    show_table(
        [f"{TRAINED}, one core", "measure", "fake", "real", "real / fake (95 %)", "spread of fake"],
        [real_row(trained, framework, measure) for framework in trainers(trained) for measure in MEASURES],
        "Ratio: median over rounds of neighbours in time.",
    )


def real_row(trained: Sequence[Trained], framework: str, measure: str) -> list[str]:
    fake, real = (values_of(trained, framework, data, measure) for data in (FAKE, DATA))
    medians = [number(statistics.median(values)) for values in (fake, real)]
    return [framework, measure, *medians, with_interval(paired_ratio(real, fake)), f"{spread(fake):.1%}"]


if __name__ == "__main__":
    sys.exit(main())
