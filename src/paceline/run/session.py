"""Carries runs from the plan to the store: each has a folder, is carried out, judged, stored and shown."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec.structs import replace

from paceline.catalog import datasets
from paceline.catalog.frameworks import find
from paceline.environments import virtual_environments
from paceline.environments.virtual_environments import Environment
from paceline.environments.worker_code import code_hash
from paceline.plan.cell import Cell
from paceline.plan.external.command import ExternalCommand
from paceline.plan.pilots import ROUNDS, pilots
from paceline.plan.planning import Run, make_job
from paceline.plan.run_keys import run_key
from paceline.plan.shares import divide
from paceline.run import internal_errors
from paceline.run.external.process import PHASE, CommandProcesses
from paceline.run.external.script_identity import code_of
from paceline.run.launchers import LaunchCommand, launched
from paceline.run.older_keys import older_run_key
from paceline.run.progress import WARM_UP, Display
from paceline.run.worker import LOG_FILE, Worker
from paceline.store.index.command_usage import FILE as USAGE_FILE
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import OUTCOME_FILE, RunRecord
from paceline.store.shown_variables import harmless
from paceline.store.store import Store, new_id
from paceline.system.errors import UserError
from paceline.system.machine.hardware import Machine
from paceline_worker.protocol import Job

NOT_KEPT = ("PACELINE_RUN", "PYTHONPATH")  # variables set by Paceline itself, or a place on the disk


@dataclass(frozen=True)
class RunTools:
    store: Store
    machine: Machine
    display: Display
    note_run: Callable[[str], None] = lambda run_id: None  # called with the id of each run as it begins
    echo: bool = False  # show what commands print


def execute(run: Run, tools: RunTools, job: Job | None = None) -> Outcome:
    """Carry one run from the plan to the store, unless it only warms up; a replay brings its job."""
    environment: Environment | None = None
    carry_out: Callable[[RunRecord], Outcome]
    if run.cell.command:
        phase, carry_out = PHASE, partial(run_command, run, run.cell.command, tools)
    else:
        environment = virtual_environments.ensure(find(run.cell.framework).framework, tools.display.say)
        phase, carry_out = "start", partial(train, run, job, environment, tools)

    def shown() -> Outcome:
        tools.display.begin(run)
        return carry_out(record)

    with run_folder(run, environment, tools) as (folder, record):
        outcome = internal_errors.recorded(folder, tools.store, shown, keep=run.key != WARM_UP, phase=phase)
        with internal_errors.kept(folder):
            tools.display.end(run, folder.name, outcome)
    return outcome


def train(run: Run, job: Job | None, environment: Environment, tools: RunTools, record: RunRecord) -> Outcome:
    """Complete its record, start the processes and see them to their end; none where its shares are not known."""
    folder, cell = tools.store.run_folder(record.id), run.cell
    shares = measured_shares(cell, tools.store, tools.machine) if job is None else job.shares
    job = job or make_job(run, () if isinstance(shares, Outcome) else shares)
    with prepared(job, environment, record, tools) as starts:
        if isinstance(shares, Outcome):
            (folder / LOG_FILE).write_text(f"{shares.message}\n", encoding="utf-8")
            return shares
        ranks = find(cell.framework).framework.process_count(cell.device_set.count)
        braked = [rank for rank, times in enumerate(cell.slow) if times > 1]
        worker = Worker(starts, folder, ranks, run.timeout_seconds, braked=braked, gpus=cell.device_set.gpus)
        return worker.carry_out(lambda event: tools.display.show(event, [file.events for file in worker.files]))


def run_command(run: Run, command: ExternalCommand, tools: RunTools, record: RunRecord) -> Outcome:
    """Complete the record, see the command to its end and keep what it has used."""
    folder = tools.store.run_folder(record.id)
    kept = {name: value for name, value in os.environ.items() if is_kept(name, value)}
    described = replace(record, code=code_of(command), commands=(command.arguments,), environment=kept)
    tools.store.describe_run(folder, described)
    gpus = run.cell.device_set.gpus
    process = CommandProcesses(command, folder, run.timeout_seconds, echo=tools.echo, gpus=gpus)
    outcome = process.carry_out()
    if usage := process.usage():
        (folder / USAGE_FILE).write_bytes(msgspec.json.encode(usage))
    return outcome


def is_kept(variable: str, value: str) -> bool:
    """What changes how frameworks compute and is known to be harmless; others may be secrets."""
    return harmless(variable, value) and variable not in NOT_KEPT


@contextlib.contextmanager
def prepared(job: Job, environment: Environment, record: RunRecord, tools: RunTools) -> Iterator[list[LaunchCommand]]:
    """The commands to start, which are in the run's record by then, as its job is."""
    folder = tools.store.run_folder(record.id)
    with launched(find(job.framework).framework, job, environment.python, folder) as starts:
        described = replace(
            record,
            shares=job.shares,
            worker_code=code_hash(job.framework),
            data_checksum=datasets.KNOWN[record.cell.data].checksum if record.cell.input else "",
            commands=tuple(command.arguments for command in starts),
            environment=starts[0].environment,
        )
        tools.store.describe_run(folder, described, job)
        yield starts


def measured_shares(cell: Cell, store: Store, machine: Machine) -> tuple[int, ...] | Outcome:
    """Images of each device by what it did alone; none where they are known without; or why they are not known."""
    speeds = []
    for index, pilot in enumerate(pilots(cell)):
        keys = [(run_key(pilot, repeat, machine), older_run_key(pilot, repeat, machine)) for repeat in range(ROUNDS)]
        found = [store.newest(key) or store.newest(older) for key, older in keys]
        for one in found:
            if one is None or one["status"] != "ok":
                why = f"{one['message']} (paceline log {one['id']})" if one else "not run"
                return _without_shares(f"device {index} failed alone: {why}")
        speeds.append(statistics.median(one["images_per_second"] for one in found if one))
    try:
        return divide(cell.batch_size, speeds, cell.device_set) if speeds else ()
    except UserError as error:
        return _without_shares(str(error))


def _without_shares(why: str) -> Outcome:
    return Outcome(
        status="failed", phase="start", kind="error", message=f"its shares are not known: {why}", seconds=0.0
    )


@contextlib.contextmanager
def run_folder(run: Run, environment: Environment | None, tools: RunTools) -> Iterator[tuple[Path, RunRecord]]:
    """A fresh folder with what is known before anything can go wrong; gone again if it is left without an outcome.

    So it is if the user cuts the run off, or nothing can be written, which the user is shown. A run that has its
    outcome is finished, whatever happens then: `paceline index` finds it.
    """
    record = _record(run, environment, tools.machine)
    folder = tools.store.create_run(record)
    with internal_errors.kept(folder):  # the run does not depend on those who watch
        tools.note_run(record.id)
    try:
        yield folder, record
    finally:
        if not (folder / OUTCOME_FILE).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _record(run: Run, environment: Environment | None, machine: Machine) -> RunRecord:
    """What a command brings along is not known."""
    packages = environment.packages if environment else {}
    package = find(run.cell.framework).framework.package if environment else ""
    return RunRecord(
        id=new_id(),
        key=run.key,
        cell=run.cell,
        repeat=run.repeat,
        machine=machine,
        packages=packages,
        framework_version=packages.get(package, "?") if environment else "",
        fingerprint=environment.fingerprint if environment else "",
        python_version=environment.python_version if environment else "",
        paceline_version=version("paceline"),
        worker_code="",
        started=time.time(),
    )
