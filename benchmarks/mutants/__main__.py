"""Makes each mistake of the table in real frameworks, and counts what `paceline verify` sees of it.

`python -m benchmarks.mutants` exits with 1 if a target is missed: 98 % caught, 90 % with the right layer or rule named,
no alarm where nothing is wrong. What cannot be a mistake is left out by a rule of `equivalence.py`; what a framework
refuses counts apart.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.mutants import report
from benchmarks.mutants.judging import Shown, first, reference
from benchmarks.mutants.mistakes import mutants, spread
from benchmarks.mutants.mutation import Change, Mutant
from benchmarks.mutants.native import BY_CHANNEL
from benchmarks.mutants.networks import Setting, settings
from benchmarks.mutants.stage import Asked, Seen, asked_of, contestant, show, told
from paceline.store.records.certificate import Divergence
from paceline.studies.equivalence import dropout
from paceline.studies.equivalence.tolerances import finding, findings_of

# How many mutants of a network: JAX and TensorFlow compile anew for each that changes the network, JAX for 6 to 30 s.
FRAMEWORKS = {"torch": 60, "mxnet": 40, "tensorflow": 14, "jax": 9}
LARGE = {"cifar10-resnet20": 0.25}  # which share of that


def main() -> int:
    options = arguments()
    chosen = {name: setting for name, setting in settings().items() if name in options.network.split(",")}
    tasks = [
        (framework, setting) for setting in chosen.values() for framework in options.framework.split(",")
        if suits(framework, setting)
    ]  # fmt: skip
    start = time.monotonic()
    with ThreadPoolExecutor(options.at_once) as pool:
        rows = [row for found in pool.map(lambda task: run(task[0], task[1], options), tasks) for row in found]
    summary = report.summary(rows, list(chosen.values()), time.monotonic() - start)
    print(report.text(summary))
    if options.output:
        report.write(Path(options.output), summary)
    return 0 if summary.met else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--framework", default=",".join(FRAMEWORKS))
    parser.add_argument("--network", default=",".join(settings()))
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--most", type=int, help="mutants of a framework and network, taken evenly")
    parser.add_argument("--at-once", type=int, default=2, help="framework processes at a time")
    parser.add_argument("--output", help="where to write the summary: its name ends in .md or .json")
    return parser.parse_args()


def suits(framework: str, setting: Setting) -> bool:
    unlike = len(set(setting.shares)) > 1
    return contestant(framework).unequal_shares or not unlike


def run(framework: str, setting: Setting, options: argparse.Namespace) -> list[Shown]:
    """What became of each mutant, and of the network as it is, which comes first."""
    found, _, _ = mutants(setting)
    right = Mutant(report.RIGHT, setting, "", Change())
    rows = []
    alike: dict[str, list[Mutant]] = {}  # by how the devices agree, which a started framework cannot change
    for mutant in [right, *spread(found, options.most or round(FRAMEWORKS[framework] * LARGE.get(setting.name, 1)))]:
        alike.setdefault(mutant.change.job.get("update", "replicated"), []).append(mutant)
    for update, group in alike.items():
        rows += shown(framework, setting, update, group, options.precision)
    return rows


def shown(framework: str, setting: Setting, update: str, group: list[Mutant], precision: str) -> list[Shown]:
    changes = [told(setting, mutant.change) for mutant in group]
    rows = []
    for number, seen, findings in judged(framework, setting, update, changes, precision):
        rows.append(Shown(framework, group[number], first(findings), seen.failure))
        print(f"{time.strftime('%X')} {report.line(rows[-1])}, {seen.seconds:.1f} s", file=sys.stderr, flush=True)
    return rows


def judged(
    framework: str, setting: Setting, update: str, changes: list[dict[str, Any]], precision: str
) -> Iterator[tuple[int, Seen, list[Divergence]]]:
    """What a framework gave for each change, and the findings of `verify`."""
    asked = asked_of(setting, precision)
    if setting.dropping:
        yield from of_dropout(framework, setting, asked, changes)
        return
    job = replace(asked.job, task="probe", update=update)
    for number, seen in show(contestant(framework), job, changes):
        found = [] if seen.failure else list(findings_of(seen.arrays, asked.truth, asked.job, reference))
        yield number, seen, found


def of_dropout(
    framework: str, setting: Setting, asked: Asked, changes: list[dict[str, Any]]
) -> Iterator[tuple[int, Seen, list[Divergence]]]:
    """A change of the network is one of its own dropout; one of the operation shows in the cells, too."""
    job, cell = (make(asked.job, setting.graph) for make in (dropout.network_job, dropout.cell_job))
    natively = [{"native": change["native"].replace(BY_CHANNEL, "")} for change in changes]  # cells have no maps
    in_network = show(contestant(framework), replace(job, task=dropout.TASK), changes)
    in_cells = show(contestant(framework), replace(cell, task=dropout.TASK), natively)
    for (number, seen), (_, too) in zip(in_network, in_cells, strict=True):
        failed = seen if seen.failure else too
        if failed.failure:
            yield number, failed, []
            continue
        checks = dropout.checks(job, seen.arrays, cell, too.arrays, reference)
        yield number, seen, [finding(check.quantity, check.tolerance, check.differences) for check in checks]


if __name__ == "__main__":
    sys.exit(main())
