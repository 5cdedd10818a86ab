"""Runs a recorded job once more, from its record and not from today's defaults, and compares the two."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from paceline.catalog import datasets
from paceline.catalog.datasets.known import known
from paceline.catalog.datasets.prepared import folder_of
from paceline.catalog.frameworks import find
from paceline.environments import virtual_environments
from paceline.plan.cell import Cell
from paceline.plan.devices import check_present
from paceline.plan.planning import Plan, Run, make_job, reason_to_skip
from paceline.plan.settings import Suite
from paceline.plan.shares import MEASURED
from paceline.run.external import session as timing
from paceline.run.progress import ProgressDisplay
from paceline.run.session import RunTools, execute
from paceline.store.import_notes import came_from_elsewhere
from paceline.store.index.rows import read_run
from paceline.store.records.runs import OUTCOME_FILE, PLAN_FOLDER, UNREADABLE, RunRecord
from paceline.store.store import Store, naming, new_id
from paceline.studies.replay.results import Replay, compare_runs
from paceline.system.errors import UserError
from paceline.system.files.regular_files import read_plain
from paceline.system.format_versions import JOB, check_version
from paceline.system.hashing import short_key, without_defaults
from paceline.system.limits import check_flag
from paceline.system.machine.hardware import Machine, this_machine
from paceline.system.machine_lock import MachineLock, alone
from paceline.system.text.safe_text import printable
from paceline_worker.protocol import JOB_FILE, Job

SUITE = "replay"  # under which `show --suite` finds the newest
COMMAND_SECONDS, TRAINING_SECONDS = 86400.0, 1800.0  # after which a run is ended, if its plan is not known
LONGEST_SECONDS = 604800.0  # a week: what a plan says beyond that is a slip or a trap
OF_A_MACHINE = {"seed", "cores", "dataset"}  # parts of a job that each run chooses for itself
# The last that has this run; or that wants such a run, if another has taken its place in all of them.
PLAN_OF_RUN = "SELECT plan_id, position FROM plan_result WHERE key = ? ORDER BY run_id = ? DESC, plan_id DESC LIMIT 1"
# The other runs of a cell.
SIBLINGS = """
SELECT run_id AS id FROM plan_result
WHERE plan_id = ? AND position = ? AND key != ? AND run_id IS NOT NULL ORDER BY run_id
"""


class RecordedSettings(msgspec.Struct, frozen=True):
    timeout: float | None = None


class RecordedPlan(msgspec.Struct, frozen=True):
    """All that is asked of a plan."""

    settings: RecordedSettings


@dataclass(frozen=True)
class RecordedRun:
    """A run as it was recorded."""

    folder: Path
    record: RunRecord

    @property
    def job(self) -> Job:
        """The worker's job; rebuilt from its cell where the record is too old to have all of it."""
        try:
            recorded_job = json.loads(read_plain(self.folder / JOB_FILE))
            check_version(JOB, recorded_job.get("format", 1), f"The job of run {self.record.id}")
            return Job.from_json(recorded_job)
        except FileNotFoundError:
            raise UserError(f"Run {self.record.id} has no {JOB_FILE}, so it cannot be replayed.") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            return self.remade_job(TRAINING_SECONDS)

    def remade_job(self, timeout: float, shares: tuple[int, ...] = ()) -> Job:
        """What a worker would be told today."""
        try:
            return make_job(Run(self.record.cell, self.record.repeat, self.record.key, timeout), shares)
        except (LookupError, ValueError, ArithmeticError) as error:  # such as shares that are no numbers
            why = printable(str(error))
            raise UserError(f"Cannot replay run {self.record.id}: its cell makes no job: {why}.") from None


def replay(text: str, repeats: int, store: Store, *, trust: bool = False, wait: bool = False) -> Replay:
    """Measure the same again on this machine, as a plan of its own; old results stay what they are."""
    check_flag("--repeats", repeats)
    machine, original = this_machine(), _read(store, text)
    record = original.record
    _check_possible(record, machine)
    timeout = timeout_of(store, record)
    if not trust and (record.machine.id not in machine.ids or came_from_elsewhere(store, record.id)):
        (_check_command_from_elsewhere if record.cell.command else _check_job_from_elsewhere)(original, timeout)
    if record.cell.command and not Path(record.cell.command.folder).is_dir():
        raise UserError(f"The folder {printable(record.cell.command.folder)}, in which the command ran, is not here.")
    plan = _plan(record, repeats, timeout, machine)
    with alone(wait=wait) as lock:
        plan_id = store.save_plan(plan, shlex.join(["paceline", "replay", record.id, "--repeats", str(repeats)]))
        lock.note_plan(store.folder, plan_id)
        if record.cell.command:
            _time(plan, store, machine, lock)
        else:
            _train_again(original, plan, store, machine, lock)
    return compare_runs(store, _old_runs(store, record, repeats), _new_runs(store, plan))


def _read(store: Store, text: str) -> RecordedRun:
    folder = store.find_run(text)
    if not (folder / OUTCOME_FILE).exists():
        raise UserError(f"Run {folder.name} has not come to an end, so there is nothing to compare with.")
    with naming(folder):
        return RecordedRun(folder, read_run(folder))


def _check_possible(record: RunRecord, machine: Machine) -> None:
    """Devices, framework and data must be here; nothing is installed on the way."""
    cell = record.cell
    check_present(cell.device_set, machine)
    if cell.command:
        return
    framework = find(cell.framework).framework
    if reason := virtual_environments.hindrance(framework) or reason_to_skip(cell):
        raise UserError(f"Cannot replay run {record.id}: {reason}.")
    if not virtual_environments.installed(framework):
        raise UserError(f"{framework.name} is not installed; `paceline install {framework.name}` installs it.")
    if cell.input and not datasets.intact(cell.data):
        raise UserError(f"{cell.data} is not on this machine as published; `paceline data get {cell.data}` fetches it.")


def _check_command_from_elsewhere(original: RecordedRun, _: float) -> None:
    """What somebody else typed is not run without a word."""
    record, command = original.record, original.record.cell.command
    if command:
        line, folder = printable(str(command)), printable(command.folder)
        what = f"Run {record.id} is a command from elsewhere"
        raise UserError(f"{what}; read it and add --trust to run it here in {folder}: {line}")


def _check_job_from_elsewhere(original: RecordedRun, timeout: float) -> None:
    """A record from elsewhere may tell a worker anything; what Paceline itself would tell it needs no trust."""
    record, job = original.record, original.job
    possible = len(job.shares) == len(job.devices) and all(share > 0 for share in job.shares)
    measured = job.shares if record.cell.shares == MEASURED and possible else ()
    given, usual = _job_settings(job), _job_settings(original.remade_job(timeout, measured))
    differing = sorted(name for name in usual if given[name] != usual[name])
    if differing:
        raise UserError(
            f"Run {record.id} is from elsewhere, and its job differs from what Paceline makes of its cell in "
            f"{', '.join(differing)}; read {original.folder / JOB_FILE} and add --trust to run it here."
        )


def _job_settings(job: Job) -> dict[str, Any]:
    """A job as its file has it, where tuples are lists; without what each machine has of its own."""
    found: dict[str, Any] = json.loads(json.dumps(job.to_json()))
    return {name: value for name, value in found.items() if name not in OF_A_MACHINE}


def _plan(record: RunRecord, repeats: int, timeout: float, machine: Machine) -> Plan:
    """The same repeat first, whose seed is the same, then others of the cell."""
    cell = msgspec.structs.replace(record.cell, cores=cores_here(record.cell, machine))
    numbers = [record.repeat, *(number for number in range(repeats) if number != record.repeat)][:repeats]
    suite = Suite(
        name=SUITE,
        workload=(cell.workload,),
        framework=(cell.framework,),
        devices=(cell.devices,),
        repeats=repeats,
        timeout=timeout,
    )
    # A key of its own, so that tables with the old run keep it and no later `run` takes this one for done.
    name, moment = short_key(without_defaults(cell)), new_id()
    runs = tuple(Run(cell, number, f"{name}-{moment}-{number}", timeout) for number in numbers)
    return Plan(suite, (cell,), (), runs)


def cores_here(cell: Cell, machine: Machine) -> tuple[tuple[int, ...], ...]:
    """The recorded cores, or as many others where this machine has not these; shared ones stay shared."""
    wanted = sorted({core for device in cell.cores for core in device})
    if set(wanted) <= set(machine.cores):
        return cell.cores
    if len(wanted) > len(machine.cores):
        raise UserError(f"It ran on {len(wanted)} cores, and this machine has {len(machine.cores)}.")
    others = dict(zip(wanted, machine.cores, strict=False))
    return tuple(tuple(others[core] for core in device) for device in cell.cores)


def timeout_of(store: Store, record: RunRecord) -> float:
    """That of its plan, if one is known and tells one that a run can have."""
    usual = COMMAND_SECONDS if record.cell.command else TRAINING_SECONDS
    for row in store.query(PLAN_OF_RUN, record.key, record.id):
        try:
            content = read_plain(store.folder / PLAN_FOLDER / f"{row['plan_id']}.json")
            found = msgspec.json.decode(content, type=RecordedPlan).settings.timeout
        except UNREADABLE:
            return usual
        return found if found is not None and 0 < found <= LONGEST_SECONDS else usual
    return usual


def _time(plan: Plan, store: Store, machine: Machine, lock: MachineLock) -> None:
    say = partial(Console(stderr=True).print, markup=False, highlight=False, soft_wrap=True)
    timing.measure(plan, 0, timing.CommandTools(store, machine, say, echo=False, note_run=lock.note_run))


def _train_again(original: RecordedRun, plan: Plan, store: Store, machine: Machine, lock: MachineLock) -> None:
    with ProgressDisplay(Console(stderr=True), list(plan.runs), store.seconds_of) as progress:
        tools = RunTools(store, machine, progress, lock.note_run)
        for run in plan.runs:
            execute(run, tools, _job(original, run))


def _job(original: RecordedRun, run: Run) -> Job:
    """As recorded, but for the seed of another repeat and the places of cores and images on this machine."""
    job = original.job
    return replace(
        job,
        seed=(job.seed - original.record.repeat + run.repeat) % 2**32,
        cores=run.cell.cores,
        dataset=str(folder_of(known(run.cell.data))) if run.cell.input else "",
        task="train",
        given="",
    )


def _old_runs(store: Store, record: RunRecord, repeats: int) -> list[str]:
    """The run itself; where several are measured, also the others of its cell."""
    siblings: list[str] = []
    for plan in store.query(PLAN_OF_RUN, record.key, record.id) if repeats > 1 else ():
        siblings += [row["id"] for row in store.query(SIBLINGS, plan["plan_id"], plan["position"], record.key)]
    return [record.id, *siblings]


def _new_runs(store: Store, plan: Plan) -> list[str]:
    found = (store.newest(run.key) for run in plan.runs)
    return [row["id"] for row in found if row is not None]
