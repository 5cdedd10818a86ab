"""Whether records are what they claim to be: of the right form, in agreement with each other, and fit to be shown."""

from __future__ import annotations

import calendar
import contextlib
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline.analysis.rows.table_rows import table_rows
from paceline.bundles.manifest import BundleError, decode, decode_versioned
from paceline.bundles.stream_checks import EventCheck, check_samples
from paceline.plan.cell import Cell
from paceline.plan.devices import DeviceSet, parse_devices
from paceline.report.tables.render import text
from paceline.run.external.waiter import REPORT_FILE
from paceline.store.index.command_usage import FILE as USAGE_FILE
from paceline.store.index.command_usage import CommandUsage, WaiterReport
from paceline.store.records.certificate import Certificate
from paceline.store.records.outcome import INTERNAL_ERROR, Outcome
from paceline.store.records.runs import OUTCOME_FILE, RUN_FILE, PlanRecord, RunRecord
from paceline.store.records.samples import FILE as MONITOR_FILE
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.files.regular_files import read_plain
from paceline.system.format_versions import JOB, PLAN, RUN_RECORD
from paceline_worker.protocol import JOB_FILE

KEY = re.compile(r"[\w-]{1,80}", re.ASCII)
DAY_SECONDS = 86400  # clocks may be wrong by so much, and time zones may be
LAST_MOMENT = 2**33  # seconds since 1970: no run began after the year 2242
TEXT_LENGTH = 2**16  # no name, command or variable is longer
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # a terminal would obey these
MOVING = re.compile("[\t\n\u061c\u200e\u200f\u2028\u2029]")  # names with these are read as something else
UNFIT = (UserError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, sqlite3.Error, RecursionError)


class KeptJob(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs of all versions have."""

    framework: str
    mode: str
    devices: tuple[str, ...]
    shares: tuple[int, ...]
    update: str
    data: str
    precision: str
    seed: int
    steps: int
    warmup: int
    graph: dict[str, Any]
    recipe: dict[str, Any]


@contextlib.contextmanager
def refusing_unfit(what: str) -> Iterator[None]:
    """Refuse a record also for what the code stumbles over unforeseen."""
    try:
        yield
    except BundleError:
        raise
    except UNFIT as error:
        raise BundleError(f"{what}: {type(error).__name__}: {error}") from None


def check_run(folder: Path) -> RunRecord:
    """A finished run with all that it must have."""
    name = folder.name
    _check_id(name, f"run {name}")
    run = decode_versioned(_content(folder, RUN_FILE), RunRecord, RUN_RECORD, f"{name}/{RUN_FILE}")
    outcome = decode(_content(folder, OUTCOME_FILE), Outcome, f"{name}/{OUTCOME_FILE}")
    for reason in (reason for reason, is_so in WRONG_RUN.items() if is_so(run, outcome, folder)):
        raise BundleError(f"run {name} {reason}")
    _check_texts(run, f"{name}/{RUN_FILE}")
    _check_texts(msgspec.structs.replace(outcome, log_end=None), f"{name}/{OUTCOME_FILE}")  # that is shown escaped
    _check_names((run.machine.host, run.machine.description, run.framework_version), f"run {name}")
    _check_cell(run.cell, f"run {name}")
    (_check_command if run.cell.command else _check_training)(run, outcome, folder)
    _check_samples(folder)
    return run


WRONG_RUN: dict[str, Callable[[RunRecord, Outcome, Path], bool]] = {
    "has another id inside than its folder": lambda run, _, folder: run.id != folder.name,
    "has a key that is none": lambda run, *_: not KEY.fullmatch(run.key),
    "began at no moment that there is": lambda run, *_: not 0 <= run.started < LAST_MOMENT,
    "began more than a day from what its id says": lambda run, *_: abs(moment(run.id) - run.started) > DAY_SECONDS,
    "is neither ok nor failed": lambda _, outcome, __: outcome.status not in ("ok", "failed"),
    "has a repeat below 0": lambda run, *_: run.repeat < 0,
}


def moment(name: str) -> float:
    """When a run or plan with this id was made, in seconds since 1970."""
    return float(calendar.timegm(time.strptime(name[:15], "%Y%m%d-%H%M%S")))


def _check_id(name: str, where: str) -> None:
    """Tables take the newest run and plan by their ids: one from the future would stand before all that comes."""
    try:
        ahead = moment(name) - time.time()
    except ValueError:
        raise BundleError(f"{where} has an id that is no moment") from None
    if ahead > DAY_SECONDS:
        raise BundleError(f"{where} has an id that is more than a day ahead of this machine's clock")


def _content(folder: Path, file: str) -> bytes:
    try:
        return read_plain(folder / file)
    except FileNotFoundError:
        raise BundleError(f"run {folder.name} has no {file}") from None


def _check_texts(record: msgspec.Struct, where: str) -> None:
    """Names and commands are printed as they are, so they must not steer a terminal."""
    for found in _strings(msgspec.to_builtins(record)):
        if len(found) > TEXT_LENGTH:
            raise BundleError(f"{where} has a text of {len(found):,} letters, more than {TEXT_LENGTH:,}")
        if STEERING.search(found):
            raise BundleError(f"{where} has control characters in {found[:60]!a}")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for item in value.items() for part in item for text in _strings(part))
    elif isinstance(value, Sequence):
        yield from (text for part in value for text in _strings(part))


def _check_names(names: Iterable[str], where: str) -> None:
    """They stand in the middle of lines, some of which are commands to be copied."""
    for name in filter(MOVING.search, names):
        raise BundleError(f"{where} has a name with characters that no name has: {name[:60]!a}")


def _check_cell(cell: Cell, where: str) -> None:
    settings = msgspec.to_builtins(msgspec.structs.replace(cell, command=None))  # a command may be a whole script
    _check_names(_strings(settings), where)
    devices = _device_set(cell.devices, where)
    if len(cell.cores) != devices.count or not all(cell.cores):
        raise BundleError(f"{where}: {cell.devices} has cores for {len(cell.cores)} devices")


def _device_set(text: str, where: str) -> DeviceSet:
    try:
        return parse_devices(text)
    except UserError as error:
        raise BundleError(f"{where}: {error}") from None


def _check_training(run: RunRecord, outcome: Outcome, folder: Path) -> None:
    """Its job is that of its cell, and what its ranks wrote are events; a run may have failed because they are not."""
    if outcome.kind == INTERNAL_ERROR and not (folder / JOB_FILE).exists():
        return  # it failed before it had one
    job = decode_versioned(_content(folder, JOB_FILE), KeptJob, JOB, f"{folder.name}/{JOB_FILE}")
    _check_texts(job, f"{folder.name}/{JOB_FILE}")
    cell, name = run.cell, f"{job.framework}+{job.mode}" if job.mode else job.framework
    in_job = (name, job.devices, job.update, job.data, job.precision, job.steps, job.warmup, job.seed)
    seed = (cell.seed + run.repeat) % 2**32
    cells = (cell.framework, cell.device_set.devices, cell.update, cell.data, cell.precision, cell.steps, cell.warmup)
    if in_job != (*cells, seed) or sum(job.shares) != cell.batch_size:
        raise BundleError(f"run {folder.name} had another job than its cell says")
    EventCheck(folder.name, cell, ok=outcome.status == "ok").all_ranks(folder)


def _check_command(run: RunRecord, outcome: Outcome, folder: Path) -> None:
    usage, report = folder / USAGE_FILE, folder / REPORT_FILE
    if outcome.status == "ok" or usage.exists():
        found = decode(_content(folder, USAGE_FILE), CommandUsage, f"{folder.name}/{USAGE_FILE}").found
        if run.cell.command and len(found) != len(run.cell.command.metrics):
            raise BundleError(f"{folder.name}/{USAGE_FILE} has other metrics than its command")
    if report.exists():
        decode(read_plain(report), WaiterReport, f"{folder.name}/{REPORT_FILE}")


def _check_samples(folder: Path) -> None:
    try:
        check_samples(folder)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(f"{folder.name}/{MONITOR_FILE}: {str(error).replace('`', '')}") from None


def check_plan(content: bytes, plan_id: str) -> PlanRecord:
    where = f"plan {plan_id}"
    _check_id(plan_id, where)
    plan = decode_versioned(content, PlanRecord, PLAN, where)
    if plan.id != plan_id:
        raise BundleError(f"{where} has another id inside")
    if not len(plan.cells) == len(plan.reasons) == len(plan.keys):
        raise BundleError(f"{where} has {len(plan.cells)} cells, {len(plan.reasons)} reasons and {len(plan.keys)} keys")
    if not all(KEY.fullmatch(key) for keys in plan.keys for key in keys):
        raise BundleError(f"{where} has a key that is none")
    _check_texts(plan, where)
    _check_names((plan.suite,), where)
    for cell in plan.cells:
        _check_cell(cell, where)
    return plan


def check_certificate(content: bytes, name: str, runs: Iterable[RunRecord]) -> Certificate:
    """It must be about something that is in the bundle."""
    certificate = decode(content, Certificate, name)
    _check_texts(certificate, name)
    _check_names((certificate.workload, certificate.framework, certificate.setting), name)
    _device_set(certificate.devices, name)
    if not any(concerns(certificate, run) for run in runs):
        raise BundleError(f"{name} is about none of its runs")
    return certificate


def concerns(certificate: Certificate, run: RunRecord) -> bool:
    about = certificate.workload, certificate.framework, certificate.fingerprint, certificate.machine
    return about == (run.cell.workload, run.cell.framework, run.fingerprint, run.machine.id)


def check_agreement(plans: Iterable[PlanRecord], runs: Iterable[RunRecord]) -> None:
    """A key stands for one cell on one machine, in runs and in plans; else numbers would come into wrong places."""
    measured: dict[str, RunRecord] = {}
    for run in runs:
        first = measured.setdefault(run.key, run)
        if (first.cell, first.repeat, first.machine.id) != (run.cell, run.repeat, run.machine.id):
            raise BundleError(f"runs {first.id} and {run.id} have one key, but measured different things")
    for plan in plans:
        for cell, keys in zip(plan.cells, plan.keys, strict=True):
            for key in keys:
                if key in measured and measured[key].cell != cell:
                    raise BundleError(f"plan {plan.id} has run {measured[key].id} in the place of another cell")


def rehearse(folder: Path) -> None:
    """Index and show everything in a place of its own: what cannot be shown would spoil every table of the store."""
    store = Store(folder)
    with refusing_unfit("its results cannot be shown"):
        try:
            store.rebuild()
            text(table_rows(store, {}, everything=True), width=120)
        except UserError as error:
            reason = str(error).replace(f"{folder}/", "")  # a place that is gone when somebody reads this
            raise BundleError(f"its results cannot be shown: {reason}") from None
