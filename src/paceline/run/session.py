"""Carries runs from the plan to the store, one after the other."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from paceline.catalog import datasets
from paceline.catalog.frameworks import find
from paceline.environments import virtual_environments
from paceline.environments.virtual_environments import Environment
from paceline.environments.worker_code import code_hash, deploy
from paceline.plan.cell import Cell
from paceline.plan.pilots import ROUNDS, pilots
from paceline.plan.planning import Run, make_job
from paceline.plan.run_keys import run_key
from paceline.plan.shares import divide
from paceline.run import diagnosis, internal_errors
from paceline.run.diagnosis import judge, with_processes
from paceline.run.launchers import LaunchCommand, commands, held_port
from paceline.run.older_keys import older_run_key
from paceline.run.worker import LOG_FILE, Worker
from paceline.store.records.events import AnyEvent
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import OUTCOME_FILE, RunRecord
from paceline.store.store import Store, new_id
from paceline.system.errors import UserError
from paceline.system.machine import oom_kills
from paceline.system.machine.hardware import Machine
from paceline_worker.protocol import Job


class Display(Protocol):
    """Shows what happens."""

    def say(self, line: str) -> None: ...
    def begin(self, run: Run) -> None: ...
    def show(self, event: AnyEvent, ranks: Sequence[Sequence[AnyEvent]]) -> None: ...
    def end(self, run: Run, run_id: str, outcome: Outcome) -> None: ...


def ignore(run_id: str) -> None:
    """Take note of no run."""


@dataclass(frozen=True)
class RunTools:
    store: Store
    machine: Machine
    display: Display
    note_run: Callable[[str], None] = ignore  # called with the id of each run as it begins


def execute(run: Run, tools: RunTools, job: Job | None = None) -> Outcome:
    """Carry one run from the plan to the store; a replay brings its job."""
    environment = virtual_environments.ensure(find(run.cell.framework).framework, tools.display.say)
    with run_folder(run, environment, tools) as (folder, record):
        return recorded(run, folder, tools, lambda: carry_out(run, job, environment, record, tools))


def recorded(run: Run, folder: Path, tools: RunTools, carry_out: Callable[[], Outcome]) -> Outcome:
    """Carry out a run that has its folder, store what came of it and show it."""

    def shown() -> Outcome:
        tools.display.begin(run)
        return carry_out()

    outcome = internal_errors.recorded(folder, tools.store, shown)
    with internal_errors.kept(folder):
        tools.display.end(run, folder.name, outcome)
    return outcome


def carry_out(run: Run, job: Job | None, environment: Environment, record: RunRecord, tools: RunTools) -> Outcome:
    """Complete its record, then train; where its shares are not known, nothing is started."""
    folder = tools.store.run_folder(record.id)
    shares = measured_shares(run, tools) if job is None else job.shares
    job = job or make_job(run, () if isinstance(shares, Outcome) else shares)
    with prepared(job, environment, record, tools) as starts:
        return without_shares(shares, folder) if isinstance(shares, Outcome) else train(run, starts, folder, tools)


@contextlib.contextmanager
def prepared(job: Job, environment: Environment, record: RunRecord, tools: RunTools) -> Iterator[list[LaunchCommand]]:
    """The commands to start, which are in the run's record by then, as its job is."""
    folder, framework = tools.store.run_folder(record.id), find(job.framework).framework
    with held_port() as port:
        starts = commands(framework, job, environment.python, folder, deploy(framework.name), port)
        tools.store.describe_run(folder, described(record, job, starts), job)
        yield starts


def train(run: Run, starts: list[LaunchCommand], folder: Path, tools: RunTools) -> Outcome:
    """Start the processes, see them to their end and say what came of it."""
    began, kills = time.monotonic(), oom_kills.kills()
    devices = run.cell.device_set
    ranks = find(run.cell.framework).framework.process_count(devices.count)
    braked = [rank for rank, times in enumerate(run.cell.slow) if times > 1]
    with Worker(starts, folder, ranks, run.timeout_seconds, braked=braked, gpus=devices.gpus) as worker:
        for event in worker.follow():
            tools.display.show(event, [file.events for file in worker.files])
    seconds = time.monotonic() - began
    memory_ran_out = oom_kills.killed_since(kills)
    outcome = judge(worker.files, worker.ending, seconds, folder / LOG_FILE, memory_ran_out=memory_ran_out)
    return diagnosis.with_troubles(with_processes(outcome, worker.left), worker.cards)


def measured_shares(run: Run, tools: RunTools) -> tuple[int, ...] | Outcome:
    """Images of each device by what it did alone; none where they are known without; or why they are not known."""
    speeds = []
    for index, pilot in enumerate(pilots(run.cell)):
        found = [_newest(pilot, repeat, tools) for repeat in range(ROUNDS)]
        for one in found:
            if one is None or one["status"] != "ok":
                why = f"{one['message']} (paceline log {one['id']})" if one else "not run"
                return _without_shares(f"device {index} failed alone: {why}")
        speeds.append(statistics.median(one["images_per_second"] for one in found if one))
    try:
        return divide(run.cell.batch_size, speeds, run.cell.device_set) if speeds else ()
    except UserError as error:
        return _without_shares(str(error))


def _newest(cell: Cell, repeat: int, tools: RunTools) -> sqlite3.Row | None:
    """Of today's key, or else of the older one."""
    newest, machine = tools.store.newest, tools.machine
    return newest(run_key(cell, repeat, machine)) or newest(older_run_key(cell, repeat, machine))


def without_shares(outcome: Outcome, folder: Path) -> Outcome:
    """Nothing is started, and the log says why."""
    (folder / LOG_FILE).write_text(f"{outcome.message}\n", encoding="utf-8")
    return outcome


def _without_shares(why: str) -> Outcome:
    return Outcome(
        status="failed", phase="start", kind="error", message=f"its shares are not known: {why}", seconds=0.0
    )


@contextlib.contextmanager
def run_folder(run: Run, environment: Environment, tools: RunTools) -> Iterator[tuple[Path, RunRecord]]:
    """A fresh folder with what is known before anything can go wrong; gone again if the user cuts the run off.

    So it is where nothing can be written, which the user is shown. A run that has its outcome is finished, whatever
    happens then: `paceline index` finds it.
    """
    record = _record(run, environment, tools.machine)
    folder = tools.store.create_run(record)
    with internal_errors.kept(folder):  # the run does not depend on those who watch
        tools.note_run(record.id)
    try:
        yield folder, record
    except (KeyboardInterrupt, SystemExit, UserError, OSError):
        if not (folder / OUTCOME_FILE).exists():
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _record(run: Run, environment: Environment, machine: Machine) -> RunRecord:
    framework = find(run.cell.framework).framework
    return RunRecord(
        id=new_id(),
        key=run.key,
        cell=run.cell,
        repeat=run.repeat,
        machine=machine,
        packages=environment.packages,
        framework_version=environment.packages.get(framework.package, "?"),
        fingerprint=environment.fingerprint,
        python_version=environment.python_version,
        paceline_version=version("paceline"),
        worker_code="",
        started=time.time(),
    )


def described(record: RunRecord, job: Job, starts: list[LaunchCommand]) -> RunRecord:
    """With all that is known before it starts."""
    cell = record.cell
    return replace(
        record,
        shares=job.shares,
        worker_code=code_hash(job.framework),
        data_checksum=datasets.KNOWN[cell.data].checksum if cell.input else "",
        commands=tuple(command.arguments for command in starts),
        environment=starts[0].environment,
    )
