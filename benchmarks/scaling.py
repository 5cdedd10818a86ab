"""What the exchange between devices costs: two devices that train together against two that train side by side.

`python -m benchmarks.scaling` exits with 1 if a target is missed; a noisy machine makes it "cannot tell", not missed.
Efficiencies share their base, one device, so the ratio of two of them is a ratio of speeds on two devices.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.comparison import Target, exit_code, paired_ratio, spread, verdict_line, with_interval
from benchmarks.contestants import Meter, run_ours
from benchmarks.input import plan_without_skips
from benchmarks.overhead import show_table
from paceline.analysis.statistics.intervals import Estimate
from paceline.plan.planning import Plan, Run
from paceline.run.session import RunTools
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.machine.hardware import this_machine
from paceline.system.machine_lock import alone
from paceline.system.text.formatting import number

WORKLOAD = "cifar10-resnet50"
TOGETHER, APART = "replicated", "independent"
LIMIT = 0.9  # of the efficiency without any exchange
WARMUP = 3
TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True)
class Trained:
    repeat: int
    framework: str
    update: str
    devices: int
    images_per_second: float


def main() -> int:
    options = arguments()
    try:
        plan = planned(options)
        with alone(), tempfile.TemporaryDirectory() as folder:
            trained = measure(in_turn(plan.runs), Store(Path(folder)))
    except UserError as error:
        print(f"scaling: {error}", file=sys.stderr)
        return 1
    show(trained)
    targets = [target_of(trained, name) for name in frameworks_of(trained)]
    for target in targets:
        print(verdict_line(target))
    return exit_code(targets)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help=f"measured steps of a run, more than {WARMUP}")
    parser.add_argument("--framework", default="torch,jax,mxnet")
    parser.add_argument("--workload", default=WORKLOAD)
    parser.add_argument("--batch-per-device", type=int, default=64)
    return parser.parse_args()


def planned(options: argparse.Namespace) -> Plan:
    return plan_without_skips(
        {
            "workload": options.workload,
            "framework": options.framework.split(","),
            "devices": ["1xcpu", "2xcpu"],
            "update": [TOGETHER, APART],
            "batch_per_device": options.batch_per_device,
            "steps": options.steps,
            "warmup": WARMUP,
            "cores_per_device": 1,
            "repeats": options.rounds,
            "timeout": TIMEOUT_SECONDS,
        }
    )


def in_turn(runs: Sequence[Run]) -> list[Run]:
    """Round by round, the runs of a framework as neighbours; one device has nothing to exchange, so once is enough."""
    needed = [run for run in runs if run.cell.device_set.count > 1 or run.cell.update == TOGETHER]
    return sorted(needed, key=lambda run: (run.repeat, run.cell.framework))


def measure(runs: Sequence[Run], store: Store) -> list[Trained]:
    with Meter(Console(stderr=True), list(runs), store.seconds_of) as meter:
        tools = RunTools(store, this_machine(), meter)
        return [train(run, tools, meter) for run in runs]


def train(run: Run, tools: RunTools, meter: Meter) -> Trained:
    cell, speed = run.cell, run_ours(run, tools, meter)
    return Trained(run.repeat, cell.framework, cell.update, cell.device_set.count, speed.images_per_second)


def frameworks_of(trained: Sequence[Trained]) -> list[str]:
    return sorted({each.framework for each in trained})


def speeds(trained: Sequence[Trained], framework: str, update: str, devices: int) -> list[float]:
    """One for each round."""
    chosen = [each for each in trained if (each.framework, each.update, each.devices) == (framework, update, devices)]
    return [each.images_per_second for each in sorted(chosen, key=lambda each: each.repeat)]


def target_of(trained: Sequence[Trained], framework: str) -> Target:
    kept = paired_ratio(*(speeds(trained, framework, update, 2) for update in (TOGETHER, APART)))
    return Target(f"{framework}: efficiency on 2 devices, {TOGETHER} / {APART}", kept, LIMIT, at_least=True)


def efficiency(trained: Sequence[Trained], framework: str, update: str) -> Estimate | None:
    halves = [speed / 2 for speed in speeds(trained, framework, update, 2)]
    return paired_ratio(halves, speeds(trained, framework, TOGETHER, 1))


def show(trained: Sequence[Trained]) -> None:
    rows = [
        [
            framework,
            update,
            number(statistics.median(speeds(trained, framework, TOGETHER, 1))),
            number(statistics.median(speeds(trained, framework, update, 2))),
            with_interval(efficiency(trained, framework, update)),
            f"{spread(speeds(trained, framework, update, 2)):.1%}",
        ]
        for framework in frameworks_of(trained)
        for update in (TOGETHER, APART)
    ]
    headings = ["framework", "update", "images/s on 1", "on 2", "efficiency (95 %)", "spread on 2"]
    show_table(headings, rows, "One core per device, the same batch on each; efficiency: median over rounds.")


if __name__ == "__main__":
    sys.exit(main())
