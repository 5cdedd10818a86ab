"""Shows mutants to real frameworks: one process, or one for each rank, goes through many of them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from benchmarks.mutants.judging import reference
from benchmarks.mutants.mutation import Change
from benchmarks.mutants.networks import Setting
from paceline.catalog.frameworks import Framework, find
from paceline.environments import virtual_environments
from paceline.environments.worker_code import deploy
from paceline.environments.worker_variables import worker_environment
from paceline.plan.devices import parse_devices
from paceline.run.launchers import Launch, LaunchCommand, direct, held_port
from paceline.studies.equivalence.probing import Arrays, joined
from paceline.studies.equivalence.verification_cases import VerificationCase
from paceline.studies.equivalence.verify import DECAY_FACTOR, gently, verification_job
from paceline.system.machine.hardware import this_machine
from paceline_worker.protocol import JOB_FILE, Job

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 900.0  # for one mutant, or for the framework to start
POLL_SECONDS = 0.1
QUICKLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"  # nobody measures its programs


@dataclass(frozen=True)
class Seen:
    """What a framework gave for one change, or why it gave nothing."""

    arrays: Arrays
    failure: str | None
    seconds: float = 0.0


@dataclass(frozen=True)
class Asked:
    """What all frameworks are asked, and what the reference answered."""

    job: Job
    truth: Arrays


@cache
def asked_of(setting: Setting, precision: str) -> Asked:
    question = VerificationCase(
        workload=setting.workload,
        devices=parse_devices(f"{setting.devices}xcpu"),
        precision=precision,
        batch_size=setting.devices * max(setting.shares),
    )
    job = replace(verification_job(question, this_machine()), shares=setting.shares)
    job = gently(job, reference(job, {}, "probe whole"))
    return Asked(job, reference(job, {}, "probe whole"))


def told(setting: Setting, change: Change) -> dict[str, Any]:
    """A change as the driver reads it; decay is as strong as in the right job."""
    said: dict[str, Any] = {"wrong": change.wrong, "about": change.about, "job": change.job, "native": change.native}
    if change.graph is not None:
        said["graph"] = change.graph.to_json()
    if change.recipe is not None:
        factor = DECAY_FACTOR if setting.workload.recipe.weight_decay else 1.0
        said["recipe"] = asdict(replace(change.recipe, weight_decay=factor * change.recipe.weight_decay))
    return said


def show(framework: Framework, job: Job, changes: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Seen]]:
    """Each change by its number; a process that dies or hangs is started again behind what it died of."""
    waiting = dict(enumerate(changes))
    while waiting:
        with tempfile.TemporaryDirectory(prefix="paceline-mutants-") as scratch:
            died_of = next(iter(waiting))
            for number, seen in _shown(framework, job, waiting, Path(scratch)):
                yield number, seen
                del waiting[number]
                died_of = next(iter(waiting), -1)
            if waiting:
                log = (Path(scratch) / "log.txt").read_text(errors="replace")[-2000:]
                yield died_of, Seen({}, f"the process died or hung: {log}")
                del waiting[died_of]


def _shown(
    framework: Framework, job: Job, changes: dict[int, dict[str, Any]], folder: Path
) -> Iterator[tuple[int, Seen]]:
    ranks = framework.process_count(len(job.devices))
    (folder / JOB_FILE).write_text(json.dumps(replace(job, framework=framework.name).to_json()))
    (folder / "changes.json").write_text(json.dumps(changes))
    with held_port() as port, (folder / "log.txt").open("ab") as log:
        processes = [_started(start, folder, log) for start in _starts(framework, folder, ranks, port)]
        try:
            yield from _follow(folder, ranks, job, processes, list(changes))
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _starts(framework: Framework, folder: Path, ranks: int, port: int) -> list[LaunchCommand]:
    """As Paceline starts a run, with our own driver in place of its worker."""
    variables = worker_environment(framework, deploy(framework.name), 1)
    path = f"{variables['PYTHONPATH']}{os.pathsep}{ROOT}"
    own = {"XLA_FLAGS": QUICKLY, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo"}
    python = virtual_environments.ensure(framework, print).python
    return direct(Launch(python, folder, ranks, {**variables, **own}, port))


def _started(start: LaunchCommand, folder: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    python, *_ = start.arguments
    return subprocess.Popen(
        [python, "-m", "benchmarks.mutants.driver", str(folder)],
        env=start.environment,
        cwd=folder,
        stdout=log,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )


def _follow(
    folder: Path, ranks: int, job: Job, processes: Sequence[subprocess.Popen[bytes]], numbers: Sequence[int]
) -> Iterator[tuple[int, Seen]]:
    for done, number in enumerate(numbers):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(rows := _rows(folder, ranks, done)) < ranks:
            ended = any(process.poll() is not None for process in processes)
            time.sleep(POLL_SECONDS)
            if time.monotonic() > deadline or (ended and len(_rows(folder, ranks, done)) < ranks):
                return
        failure = next((row["failure"] for row in rows if row["failure"]), None)
        yield (
            number,
            Seen({} if failure else _arrays(folder, number, ranks, job), failure, max(row["seconds"] for row in rows)),
        )


def _rows(folder: Path, ranks: int, index: int) -> list[dict[str, Any]]:
    """What the ranks have said about the change with this index, those that have."""
    found = []
    for rank in range(ranks):
        path = folder / f"shown-{rank}.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        if len(lines) > index and lines[index].endswith("\n"):
            found.append(json.loads(lines[index]))
    return found


def _arrays(folder: Path, number: int, ranks: int, job: Job) -> Arrays:
    paths = [folder / f"{number}-{rank}.npz" for rank in range(ranks)]
    arrays = joined([dict(np.load(path)) for path in paths], job.shares)
    for path in paths:
        path.unlink()
    return arrays


def contestant(name: str) -> Framework:
    return find(name).framework
