"""Runs a framework's probe: what it computes, as arrays, instead of how fast."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.catalog.frameworks import Contestant, find
from paceline.environments import virtual_environments
from paceline.environments.virtual_environments import Environment, Say
from paceline.run.launchers import launched
from paceline.run.worker import Worker
from paceline.store.records.outcome import Outcome, cause_of
from paceline_worker.protocol import JOB_FILE, Job, arrays_file

Arrays = dict[str, NDArray[np.float64]]
REFERENCE = "reference"
TIMEOUT_SECONDS = 1800.0


@dataclass(frozen=True)
class Probe:
    """What a framework showed, all ranks together, or why it did not."""

    environment: Environment
    arrays: Arrays
    outcome: Outcome

    @property
    def failure(self) -> str | None:
        if self.outcome.status == "ok":
            return None
        return cause_of(self.outcome.kind, self.outcome.phase, self.outcome.message)


def probe(contestant: Contestant, job: Job, say: Say, given: Arrays | None = None, task: str = "probe") -> Probe:
    """Show the job's batches to the framework, in its own environment and processes."""
    framework = contestant.framework
    environment = virtual_environments.ensure(framework, say)
    ranks = framework.process_count(len(job.devices))
    task_job = replace(job, framework=framework.name, mode=contestant.mode, task=task)
    with tempfile.TemporaryDirectory(prefix="paceline-probe-") as scratch:
        folder = Path(scratch)
        if given is not None:
            task_job = replace(task_job, given=str(folder / "given.npz"))
            np.savez(task_job.given, **given)  # type: ignore[arg-type]  # NumPy names a flag there
        (folder / JOB_FILE).write_text(json.dumps(task_job.to_json()), encoding="utf-8")
        with launched(framework, task_job, environment.python, folder) as starts:
            outcome = Worker(starts, folder, ranks, TIMEOUT_SECONDS).carry_out()
        files = [arrays_file(folder, rank) for rank in range(ranks)]
        arrays = joined([dict(np.load(path)) for path in files], job.shares) if outcome.status == "ok" else {}
    return Probe(environment, arrays, outcome)


def reference_probe(job: Job, say: Say, given: Arrays | None = None, task: str = "") -> Probe:
    """What the network computes, by the judge; with `given` outputs, what each layer should make of them."""
    usual = "probe whole" if given is None else "probe layers"
    found = probe(find(REFERENCE), job, say, given, task or usual)
    if found.failure:
        raise RuntimeError(f"the reference failed: {found.failure}\n{found.outcome.log_end}")
    return found


def joined(ranks: Sequence[Arrays], shares: Sequence[int]) -> Arrays:
    """One set of arrays: images of all ranks in order, losses averaged over them, counts added; the rest is equal."""
    together = dict(ranks[0])
    for name in together:
        parts = [rank[name] for rank in ranks]
        if name.startswith(("output/", "strained/")) or name == "evaluation":
            together[name] = np.concatenate(parts)
        elif name in ("losses", "losses again"):
            together[name] = np.average(parts, axis=0, weights=shares[: len(parts)])
        elif name == "correct":
            together[name] = np.sum(parts, axis=0)
        elif name == "agreed":
            together[name] = np.any(parts, axis=0)  # a rank that is ready must know of the one that is not
    return together
