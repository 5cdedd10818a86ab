"""Proof that frameworks train the same network: each is compared, quantity by quantity, with the reference."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline import environments
from paceline.environments import Environment, Say
from paceline.frameworks import Contestant, find
from paceline.launchers import commands
from paceline.outcome import Outcome, judge
from paceline.worker import LOG_FILE, Worker
from paceline.worker_code import deploy
from paceline_worker.graph import Graph
from paceline_worker.protocol import JOB_FILE, Job, arrays_file

Arrays = dict[str, NDArray[np.float64]]
REFERENCE = "reference"
TIMEOUT_SECONDS = 1800.0


class Quantity(msgspec.Struct, frozen=True):
    """Something that is compared, and how far it may be off."""

    name: str
    tolerance: float  # of the norm of the difference, relative to the norm of the reference
    backwards: bool = False  # errors arise at the last layer first


# Float32 rounds at 6e-8; what follows is what sums over a deep network leave of that, and nothing more.
QUANTITIES = (
    Quantity("output", 1e-4),
    Quantity("gradient", 1e-3, backwards=True),
    Quantity("trained", 1e-4),
    Quantity("losses", 1e-4),
    Quantity("evaluation", 1e-3),
)


class Finding(msgspec.Struct, frozen=True):
    """The largest difference of one quantity, and the first place where it is too large."""

    quantity: str
    tolerance: float
    largest: float
    where: str
    diverges_at: str | None  # in the order of computation
    by: float | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One framework on one workload: equal, or where it is not, or why it could not be seen."""

    workload: str
    framework: str
    devices: str
    versions: dict[str, str]
    fingerprint: str
    equal: bool
    findings: tuple[Finding, ...] = ()
    failure: str | None = None


@dataclass(frozen=True)
class Probe:
    """What a framework showed, all ranks together, or why it did not."""

    environment: Environment
    arrays: Arrays
    outcome: Outcome


def probe(contestant: Contestant, job: Job, say: Say) -> Probe:
    """Run the probe in the framework's environment."""
    framework = contestant.framework
    environment = environments.ensure(framework, say)
    ranks = len(job.devices) if framework.processes == "per device" else 1
    told = replace(job, framework=framework.name, mode=contestant.mode, task="probe")
    with tempfile.TemporaryDirectory(prefix="paceline-probe-") as scratch:
        folder = Path(scratch)
        (folder / JOB_FILE).write_text(json.dumps(told.to_json()), encoding="utf-8")
        starts = commands(framework, told, environment.python, folder, deploy())
        with Worker(starts, folder, ranks, TIMEOUT_SECONDS) as worker:
            for _ in worker.follow():
                pass
        outcome = judge(worker.files, worker.ending, 0.0, folder / LOG_FILE, memory_ran_out=False)
        files = [arrays_file(folder, rank) for rank in range(ranks)]
        arrays = joined([dict(np.load(path)) for path in files]) if outcome.status == "ok" else {}
    return Probe(environment, arrays, outcome)


def joined(ranks: Sequence[Arrays]) -> Arrays:
    """One set of arrays: images of all ranks in order, losses averaged, evaluations added; the rest is equal anyway."""
    together = dict(ranks[0])
    for name in together:
        parts = [rank[name] for rank in ranks]
        if name.startswith("output/"):
            together[name] = np.concatenate(parts)
        elif name == "losses":
            together[name] = np.mean(parts, axis=0)
        elif name == "evaluation":
            together[name] = np.sum(parts, axis=0)
    return together


def verify(contestant: Contestant, workload: str, job: Job, judge_: Probe, say: Say) -> Verdict:
    """Compare a framework with what the reference showed for the same job."""
    seen = probe(contestant, job, say)
    failed = seen.outcome.status != "ok"
    findings = () if failed else tuple(compare(Graph.from_json(job.graph), seen.arrays, judge_.arrays))
    return Verdict(
        workload=workload,
        framework=contestant.name,
        devices=f"{len(job.devices)}xcpu",
        versions={contestant.framework.package: seen.environment.packages.get(contestant.framework.package, "?")},
        fingerprint=seen.environment.fingerprint,
        equal=not failed and all(finding.diverges_at is None for finding in findings),
        findings=findings,
        failure=f"{seen.outcome.kind} in {seen.outcome.phase}: {seen.outcome.message}" if failed else None,
    )


def reference_probe(job: Job, say: Say) -> Probe:
    found = probe(find(REFERENCE), job, say)
    if found.outcome.status != "ok":
        raise RuntimeError(f"the reference failed: {found.outcome.message}\n{found.outcome.log_end}")
    return found


def compare(graph: Graph, arrays: Arrays, truth: Arrays) -> Iterator[Finding]:
    for quantity in QUANTITIES:
        names = _in_order(graph, quantity, truth)
        floor = _floor([truth[name] for name in names])
        differences = {name: _difference(arrays[name], truth[name], floor) for name in names}
        where = max(differences, key=lambda name: differences[name])
        wrong = next((name for name, value in differences.items() if not value <= quantity.tolerance), None)
        yield Finding(
            quantity=quantity.name,
            tolerance=quantity.tolerance,
            largest=differences[where],
            where=_place(where),
            diverges_at=None if wrong is None else _place(wrong),
            by=None if wrong is None else differences[wrong],
        )


def _in_order(graph: Graph, quantity: Quantity, truth: Arrays) -> list[str]:
    """The arrays of a quantity, in the order in which they are computed."""
    order = [*graph.nodes, *graph.parameters()]
    names = [f"{quantity.name}/{name}" for name in order if f"{quantity.name}/{name}" in truth]
    return (names[::-1] if quantity.backwards else names) or [quantity.name]


def _floor(arrays: Sequence[NDArray[np.float64]]) -> float:
    """A size below which values are rounding noise: some gradients are exactly zero in theory."""
    total = np.concatenate([array.ravel() for array in arrays])
    return 1e-3 * float(np.sqrt(np.mean(total**2)))


def _difference(found: NDArray[np.float64], truth: NDArray[np.float64], floor: float) -> float:
    """Norm of the difference relative to the norm of the truth; another shape is infinitely far off."""
    if found.shape != truth.shape:
        return float("inf")
    size = max(float(np.linalg.norm(truth)), floor * float(np.sqrt(truth.size)))
    return float(np.linalg.norm(found.astype(np.float64) - truth)) / size


def _place(name: str) -> str:
    return name.partition("/")[2] or name
