"""A store with thousands of runs of the `fake` framework, made in a minute or two, to see whether reports stay fast.

Plans, jobs, records, verdicts and the index are made by Paceline's own code, and every rank goes through the worker's
own loop and writes its events. What differs from real runs:

* all ranks are in this process, one after the other; none is a fresh process, and none waits for another;
* nobody sleeps: the clock is moved on instead, by times that vary a little by chance, from a fixed seed;
* memory and the samples of the monitor are made up, and there are no weights and no pixels: this framework needs none;
* the images of cifar10 are some hundred single pixels, and accuracies are those of guessing;
* the index is made from the folders at the end, not run by run.

`python -m benchmarks.many_runs FOLDER [RUNS]` leaves the store in a folder.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.stage import FIRST_DAY, staged
from paceline.plan.planning import make_plan
from paceline.plan.suite import make_suite
from paceline.store.store import Store

RUNS = 5000
DAY_SECONDS = 86_400.0
Settings = dict[str, Any]

FIRST_LOOK: Settings = {  # 40 runs, and as many cells skipped as measured
    "name": "first-look",
    "workload": "mnist-mlp",
    "framework": ["fake", "fake+input", "fake+exchange", "fake+fail"],
    "devices": ["1xcpu", "2xcpu"],
    "precision": ["float32", "bfloat16"],
    "data": "fake:python",
    "batch_per_device": 64,
    "steps": 100,
}
UNLIKE: Settings = {
    "name": "unlike-devices",
    "workload": "mnist-lenet",
    "framework": ["fake", "fake+exchange"],
    "devices": "2xcpu",
    "shares": ["equal", "2:1"],
    "slow": "1:2.0",
    "batch_size": 96,
    "steps": 100,
}
ACCURACY: Settings = {
    "name": "accuracy",
    "workload": "cifar10-conv",
    "framework": ["fake", "fake+exchange", "fake+contention"],
    "devices": ["1xcpu", "2xcpu"],
    "data": "cifar10",
    "batch_size": [1000, 2000],
    "epochs": 4,
}
WIDE: Settings = {  # 160 cells for each workload
    "framework": ["fake", "fake+input", "fake+exchange", "fake+contention", "fake+fail"],
    "devices": ["1xcpu", "2xcpu", "4xcpu"],
    "single": "both",
    "data": ["fake:device", "fake:python"],
    "batch_per_device": [16, 32, 64, 128],
    "steps": 200,
}
NIGHTLY: Settings = {  # the same cells every night, and a GPU that is not there
    "name": "nightly",
    "workload": "cifar10-conv",
    "framework": ["fake", "fake+input", "fake+exchange", "fake+contention", "fake+babble"],
    "devices": ["1xcpu", "2xcpu", "4xcpu", "1xcuda"],
    "update": ["replicated", "parameter_server", "independent"],
    "batch_size": 128,
    "steps": 200,
}
WIDE_WORKLOADS = ("mnist-mlp", "mnist-lenet", "cifar10-conv", "cifar10-resnet20")


def suites() -> Iterator[Settings]:
    """One after the other, without end."""
    yield from (FIRST_LOOK, UNLIKE, ACCURACY)
    for workload in WIDE_WORKLOADS:
        yield {"name": f"wide-{workload}", "workload": workload, **WIDE}
    yield from itertools.repeat(NIGHTLY)


def many_runs(folder: Path, count: int) -> Store:
    """A new store with so many runs, a plan a day; the last one is cut off."""
    store, left = Store(folder), count
    with tempfile.TemporaryDirectory() as images, staged(Path(images)) as stage:
        for day, settings in enumerate(suites()):
            stage.clock.set(FIRST_DAY + day * DAY_SECONDS)
            plan = make_plan(make_suite(settings, settings["name"]), stage.machine)
            if not plan.runs:
                raise RuntimeError(f"{settings['name']}: nothing can run: {plan.skips[0].reason}")  # else it never ends
            store.save_plan(plan, f"paceline run {settings['name']}.toml --again")
            for run in plan.runs[:left]:
                stage.execute(run, store)
            left -= len(plan.runs)
            if left <= 0:
                break
    store.rebuild()
    return store


def main() -> None:
    folder, runs = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else RUNS
    began = time.perf_counter()
    many_runs(folder, runs)
    print(f"{runs} runs in {folder} after {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
