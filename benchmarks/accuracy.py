"""Whether Paceline trains to the accuracy of a loop written by hand: ResNet-20 on CIFAR-10, both with PyTorch.

`python -m benchmarks.accuracy` exits with 1 if the two differ. The two share no code, and each run has a seed of its
own, so single accuracies differ; medians over rounds must not.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import msgspec
from rich.console import Console

from benchmarks.comparison import spread
from benchmarks.contestants import ROOT, WORKLOAD, Meter, run_ours
from benchmarks.overhead import show_table
from paceline.analysis.statistics.intervals import Estimate, difference
from paceline.catalog import datasets
from paceline.catalog.frameworks import find
from paceline.catalog.networks.cost import NetworkCost
from paceline.catalog.workloads import WORKLOADS
from paceline.environments import virtual_environments
from paceline.plan.planning import Plan, Run, make_job, make_plan
from paceline.plan.suite import make_suite
from paceline.run.launchers import commands
from paceline.run.session import RunTools
from paceline.store.store import Store, new_id
from paceline.system.errors import UserError
from paceline.system.machine.hardware import this_machine
from paceline.system.machine_lock import alone

FRAMEWORK, SCRIPT = "torch", "benchmarks.handwritten.torch_accuracy"
DATA, INPUT = "cifar10", "level1"
TIMEOUT_SECONDS = 4 * 3600.0  # for one run
LEAST_ROUNDS = 5  # with fewer, all but the largest differences go unseen, so that agreement says little
LEARNT = 0.2  # twice what guessing gives: below it, agreement says nothing
SEEN = (1.96 + 0.84) / 1.96  # half intervals at which a difference shows in four of five benchmarks


class Result(msgspec.Struct, frozen=True):
    """The line that the hand-written script prints."""

    accuracy: float
    parameters: int


def main() -> int:
    options = arguments()
    try:
        folder = datasets.ensure(DATA, print).folder
        plan = planned(options)
        with alone(), tempfile.TemporaryDirectory() as store:
            ours, handwritten = measure(plan, folder, Store(Path(store)))
    except UserError as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return 1
    show(ours, handwritten)
    print(verdict_line(ours, handwritten))
    return int(verdict(ours, handwritten) == "differ")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--epochs", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help=f"at least {LEAST_ROUNDS} for a verdict")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def planned(options: argparse.Namespace) -> Plan:
    first_drop = WORKLOADS[WORKLOAD].recipe.drops[0][0]
    if options.epochs > first_drop:
        raise UserError(f"The hand-written loop has one learning rate, so use at most {first_drop} epochs.")
    settings = {
        "workload": WORKLOAD,
        "framework": FRAMEWORK,
        "devices": "1xcpu",
        "data": DATA,
        "input": INPUT,
        "epochs": options.epochs,
        "evaluate": "end",
        "warmup": 0,
        "cores_per_device": options.threads,
        "repeats": options.rounds,
        "timeout": TIMEOUT_SECONDS,
    }
    return make_plan(make_suite(settings, "the command line"), this_machine())


def measure(plan: Plan, folder: Path, store: Store) -> tuple[list[float], list[float]]:
    """Test accuracies of ours and of the hand-written loop, by turns."""
    ours, handwritten = [], []
    with Meter(Console(stderr=True), list(plan.runs), store.seconds_of) as meter:
        tools = RunTools(store, this_machine(), meter)
        for run in plan.runs:
            run_ours(run, tools, meter)
            ours.append(stored_accuracy(store, meter.run_id))
            handwritten.append(accuracy_by_hand(run, folder, meter.say))
            meter.say(f"round {run.repeat + 1}: {ours[-1]:.2%} ours, {handwritten[-1]:.2%} hand-written")
    return ours, handwritten


def stored_accuracy(store: Store, run_id: str) -> float:
    (row,) = store.query("SELECT accuracy FROM test WHERE run_id = ?", run_id)  # evaluated once, at the end
    return float(row["accuracy"])


def accuracy_by_hand(run: Run, folder: Path, say: Callable[[str], None]) -> float:
    """The script on the same cores, with the same interpreter and environment variables as Paceline's worker."""
    framework, job = find(run.cell.framework).framework, make_job(run)
    python = virtual_environments.ensure(framework, say).python
    environment = commands(framework, job, python, Path(new_id()), ROOT)[0].environment
    words = [python, "-m", SCRIPT, *script_arguments(run, folder)]
    try:
        ended = subprocess.run(words, env=environment, capture_output=True, timeout=run.timeout_seconds, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"{SCRIPT} did not end within {run.timeout_seconds:g} s.") from None
    if ended.returncode:
        raise UserError(f"{SCRIPT} failed:\n{ended.stderr.decode(errors='replace')}")
    result = msgspec.json.decode(ended.stdout.splitlines()[-1], type=Result)
    expected = NetworkCost.of(WORKLOADS[run.cell.workload].graph()).trainable
    if result.parameters != expected:
        raise RuntimeError(f"The hand-written network has {result.parameters} parameters, ours has {expected}.")
    return result.accuracy


def script_arguments(run: Run, folder: Path) -> list[str]:
    settings = {
        "data": folder,
        "steps": run.cell.steps,
        "batch-size": run.cell.batch_size,
        "seed": make_job(run).seed,
        "cores": ",".join(map(str, run.cell.cores[0])),
    }
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


def compared(ours: Sequence[float], handwritten: Sequence[float]) -> Estimate:
    """Not round by round: the two do different things with a seed."""
    return cast(Estimate, difference(ours, handwritten))  # there is at least one round


def visible(found: Estimate) -> float | None:
    """How large a difference would have shown in four of five such benchmarks."""
    if found.low is None or found.high is None:
        return None
    return SEEN * (found.high - found.low) / 2


def verdict(ours: Sequence[float], handwritten: Sequence[float]) -> str:
    found = compared(ours, handwritten)
    if found.low is None or found.high is None:
        return "cannot tell"
    if not found.low <= 0 <= found.high:
        return "differ"
    enough = min(len(ours), len(handwritten)) >= LEAST_ROUNDS
    return "agree" if enough and statistics.median(ours) >= LEARNT else "cannot tell"


def verdict_line(ours: Sequence[float], handwritten: Sequence[float]) -> str:
    found = compared(ours, handwritten)
    line = f"{verdict(ours, handwritten)}: test accuracy, ours - hand-written: {100 * found.median:+.2f} points"
    smallest = visible(found)
    if found.low is None or found.high is None or smallest is None:
        return line
    interval = f"({100 * found.low:+.2f} to {100 * found.high:+.2f})"
    return f"{line} {interval}; four of five times, {100 * smallest:.2f} points would have been seen"


def show(ours: Sequence[float], handwritten: Sequence[float]) -> None:
    rows = [
        [str(number), f"{one:.2%}", f"{other:.2%}"]
        for number, (one, other) in enumerate(zip(ours, handwritten, strict=True), start=1)
    ]
    rows.append(["median", *(f"{statistics.median(values):.2%}" for values in (ours, handwritten))])
    rows.append(["(max - min) / median", *(f"{spread(values):.1%}" for values in (ours, handwritten))])
    show_table(["test accuracy, round", "ours", "hand-written"], rows)


if __name__ == "__main__":
    sys.exit(main())
