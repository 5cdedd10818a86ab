"""The programs that are compared, each in fresh processes: a run of Paceline, and scripts written by hand."""

from __future__ import annotations

import itertools
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.comparison import Speed
from paceline.catalog.frameworks import find
from paceline.catalog.networks.cost import NetworkCost
from paceline.catalog.workloads import WORKLOADS
from paceline.environments import virtual_environments
from paceline.environments.worker_code import deploy
from paceline.plan.planning import Run, make_job
from paceline.run.launchers import commands
from paceline.run.progress import ProgressDisplay
from paceline.run.session import RunTools, execute
from paceline.store.records.events import Block, EventFile
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import RUN_FOLDER
from paceline.store.store import Store, new_id
from paceline.system import processes
from paceline.system.errors import UserError
from paceline_worker.protocol import JOB_FILE, event_file


@dataclass(frozen=True)
class Yardstick:
    """A script of benchmarks/handwritten, which runs in the environment of the framework beside which it stands."""

    script: str
    max_devices: int | None = None  # None is any number

    @property
    def module(self) -> str:
        return f"benchmarks.handwritten.{self.script}"

    def trains_on(self, devices: int) -> bool:
        return self.max_devices is None or devices <= self.max_devices


YARDSTICKS: dict[str, dict[str, Yardstick]] = {
    "torch": {"by hand": Yardstick("torch_resnet20")},
    "jax": {"by hand": Yardstick("jax_resnet20")},
    "tensorflow": {
        "by hand": Yardstick("tensorflow_resnet20"),
        "model.fit": Yardstick("keras_tensorflow_resnet20"),
    },
    "keras-tensorflow": {"model.fit": Yardstick("keras_tensorflow_resnet20")},
    "mxnet": {
        "Gluon": Yardstick("mxnet_resnet20"),
        "Module": Yardstick("mxnet_module_resnet20"),
    },
    "tensorpack": {"its trainer": Yardstick("tensorpack_resnet20", max_devices=1)},
}
ROOT = Path(__file__).parent.parent
WORKLOAD = "cifar10-resnet20"  # what they train
SHOWN_LOSSES = 3
DUEL_TURNS, DUEL_STEPS = 12, 2


class Meter(ProgressDisplay):
    """The display of `paceline run`, which also reads what this process itself spends while a run is under way."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.processor_percents: list[float] = []  # of one core, for each run
        self.run_id = ""  # of the last run

    def begin(self, run: Run) -> None:
        super().begin(run)
        self._began = own_processor_seconds(), time.perf_counter()

    def end(self, run: Run, run_id: str, outcome: Outcome) -> None:
        super().end(run, run_id, outcome)
        processor, start = self._began
        share = (own_processor_seconds() - processor) / (time.perf_counter() - start)
        self.processor_percents.append(100 * share)
        self.run_id = run_id


def own_processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_ours(run: Run, tools: RunTools, meter: Meter) -> Speed:
    outcome = execute(run, tools)
    if outcome.status != "ok":
        raise UserError(f"Paceline's own run failed in {outcome.phase}: {outcome.message}\n{outcome.log_end}")
    row = tools.store.query("SELECT * FROM training WHERE run_id = ?", meter.run_id)[0]
    losses = first_losses(tools.store, meter.run_id)
    return Speed(row["images_per_second"], row["images_per_processor_second"], losses)


def first_losses(store: Store, run_id: str) -> tuple[float, ...]:
    file = EventFile(event_file(store.folder / RUN_FOLDER / run_id, rank=0))
    blocks = [event for event in file.read_on() if isinstance(event, Block) and event.phase == "train"]
    losses = itertools.chain.from_iterable(block.losses for block in blocks)
    return tuple(loss for loss in itertools.islice(losses, SHOWN_LOSSES) if loss is not None)


class Result(msgspec.Struct, frozen=True):
    """The line that a hand-written script prints."""

    images: int
    seconds: float
    processor_seconds: float
    parameters: int
    first_losses: tuple[float, ...]


def run_handwritten(run: Run, yardstick: Yardstick, say: Callable[[str], None]) -> Speed:
    """The script on the same cores, with the same interpreter and environment variables as Paceline's worker."""
    result = msgspec.json.decode(output_of(run, yardstick, say).splitlines()[-1], type=Result)
    expected = NetworkCost.of(WORKLOADS[run.cell.workload].graph()).trainable
    if result.parameters != expected:
        raise RuntimeError(f"The hand-written network has {result.parameters} parameters, ours has {expected}.")
    return Speed(
        images_per_second=result.images / result.seconds,
        images_per_processor_second=result.images / result.processor_seconds,
        losses=result.first_losses[:SHOWN_LOSSES],
    )


def output_of(run: Run, yardstick: Yardstick, say: Callable[[str], None]) -> bytes:
    framework, mark = find(run.cell.framework).framework, new_id()
    python = virtual_environments.ensure(framework, say).python
    environment = commands(framework, make_job(run), python, Path(mark), ROOT)[0].environment
    command = [*launcher(python, run), *script_arguments(run, yardstick)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            output, complaints = process.communicate(timeout=run.timeout_seconds)
        except subprocess.TimeoutExpired:
            raise UserError(f"{command} did not end within {run.timeout_seconds:g} s.") from None
        finally:
            processes.end_all(mark, reap=lambda: None)
    if process.returncode:
        raise UserError(f"{command} failed:\n{complaints.decode(errors='replace')}")
    return output


def run_duel(run: Run, yardstick: Yardstick, say: Callable[[str], None]) -> list[tuple[float, float]]:
    """Seconds of each turn, ours and hand-written, from one process that holds both."""
    return turns_of([run], "benchmarks.duel", [yardstick.module, str(DUEL_TURNS), str(DUEL_STEPS)], say)


def turns_of(
    runs: Sequence[Run], program: str, words: Sequence[str], say: Callable[[str], None]
) -> list[tuple[float, float]]:
    """What a duel prints that is given the jobs of these runs, all of one framework, and then the words."""
    framework, jobs = find(runs[0].cell.framework).framework, [make_job(run) for run in runs]
    python = virtual_environments.ensure(framework, say).python
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / str(place) for place in range(len(jobs))]
        for folder, job in zip(folders, jobs, strict=True):
            folder.mkdir()
            (folder / JOB_FILE).write_text(json.dumps(job.to_json()), encoding="utf-8")
        environment = commands(framework, jobs[0], python, folders[0], deploy(framework.name))[0].environment
        environment["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
        line = [python, "-m", program, *map(str, folders), *words]
        limit = runs[0].timeout_seconds
        ended = subprocess.run(line, env=environment, capture_output=True, timeout=limit, check=False)
    if ended.returncode:
        raise UserError(f"The duel of {framework.name} failed:\n{ended.stderr.decode(errors='replace')}")
    return msgspec.json.decode(ended.stdout.splitlines()[-1], type=list[tuple[float, float]])


def launcher(python: str, run: Run) -> list[str]:
    processes = find(run.cell.framework).framework.process_count(run.cell.device_set.count)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return [python, *(torchrun if processes > 1 else [])]


def script_arguments(run: Run, yardstick: Yardstick) -> list[str]:
    cell = run.cell
    settings = {
        "steps": cell.steps,
        "warmup": cell.warmup + 1,  # Paceline's first step is not among its warm-up
        "batch-size": cell.batch_size,
        "devices": cell.device_set.count,
        "cores": ",".join(str(core) for cores in cell.cores for core in cores),
    }
    flags = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    return ["-m", yardstick.module, *flags]
