"""Carries commands from the command line to the store, round by round."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec.structs import replace

from paceline.plan.cell import Cell
from paceline.plan.external.command import ExternalCommand
from paceline.plan.external.output_metrics import read_log
from paceline.plan.planning import Plan, Run
from paceline.plan.settings import Suite
from paceline.run import diagnosis, failure_messages, internal_errors
from paceline.run.diagnosis import end_of_log, signal_name, with_processes
from paceline.run.external import command_line as words
from paceline.run.external.process import CommandProcess
from paceline.run.external.script_identity import code_of
from paceline.run.session import ignore
from paceline.run.worker import LOG_FILE
from paceline.store.index.command_usage import FILE, WaiterReport, usage_of
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import OUTCOME_FILE, RunRecord
from paceline.store.shown_variables import harmless
from paceline.store.store import Store, new_id
from paceline.system.hashing import short_key, without_defaults
from paceline.system.limits import check_flag, check_runs
from paceline.system.machine import oom_kills
from paceline.system.machine.hardware import Machine
from paceline.system.text.formatting import duration
from paceline.system.text.safe_text import one_line

SUITE = "time"  # under which `show --suite` finds the newest
PHASE = "command"  # in which it fails if it has started: Paceline sees no other from outside
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # also as a shell says it
KILL = re.compile(r"\bkilled\b|SIGKILL|signal:? 9\b", re.IGNORECASE)  # what launchers say of their processes
NOT_KEPT = ("PACELINE_RUN", "PYTHONPATH")  # set by Paceline itself, or a place on the disk


@dataclass(frozen=True)
class TimeOptions:
    """What the command line asks for in addition to the commands."""

    repeats: int
    warmup_runs: int
    timeout: float
    names: Sequence[str] = ()
    devices: Sequence[str] = ()
    presets: Sequence[str] = ()
    metrics: Sequence[str] = ()
    echo: bool = False


def make_plan(given: Sequence[str], options: TimeOptions, machine: Machine) -> Plan:
    """Check all that a user can get wrong, then lay out the rounds."""
    _check(options)
    cells = cells_of(words.split(given), options, machine)
    check_runs(len(cells) * options.repeats)
    suite = Suite(
        name=SUITE,
        workload=(words.WORKLOAD,),
        framework=tuple(cell.framework for cell in cells),
        devices=tuple(dict.fromkeys(cell.devices for cell in cells)),
        repeats=options.repeats,
        timeout=options.timeout,
    )
    moment = new_id()  # a command may have changed since it was measured before, so nothing is taken from then
    rounds = [_round(cells, repeat, moment, options.timeout) for repeat in range(options.repeats)]
    return Plan(suite, tuple(cells), (), tuple(run for runs in rounds for run in runs))


def _check(options: TimeOptions) -> None:
    check_flag("--repeats", options.repeats)
    check_flag("--warmup-runs", options.warmup_runs)
    check_flag("--timeout", options.timeout)


def cells_of(commands: Sequence[tuple[str, ...]], options: TimeOptions, machine: Machine) -> list[Cell]:
    labels, count = words.labels(commands, options.names), len(commands)
    devices = words.for_each("--devices", options.devices, count, words.usual_devices(machine))
    presets = words.for_each("--preset", options.presets, count, "none")
    return [
        words.cell_of(
            label,
            words.device_set(place, machine),
            ExternalCommand(
                arguments=command, folder=str(Path.cwd()), metrics=words.chosen_metrics(options.metrics, preset)
            ),
            machine,
        )
        for label, place, preset, command in zip(labels, devices, presets, commands, strict=True)
    ]


def _round(cells: list[Cell], repeat: int, moment: str, timeout: float) -> list[Run]:
    """Every command once, in an order of its own, so that noise hits all alike."""
    shuffled = random.Random(f"{SUITE}/{repeat}").sample(cells, len(cells))  # noqa: S311 - order, not secrets
    return [Run(cell, repeat, f"{_name(cell)}-{moment}-{repeat}", timeout) for cell in shuffled]


def _name(cell: Cell) -> str:
    """The same whenever the same command is measured in the same folder."""
    return short_key(without_defaults(cell))


@dataclass(frozen=True)
class CommandTools:
    """Where commands are measured."""

    store: Store
    machine: Machine
    say: Callable[[str], None]
    echo: bool
    note_run: Callable[[str], None] = ignore  # called with the id of each run as it begins


def measure(plan: Plan, warmup_runs: int, tools: CommandTools) -> None:
    """All runs, after those that only warm up disks and caches and are forgotten."""
    for number in range(1, warmup_runs + 1):
        for cell in plan.cells:
            outcome = execute(Run(cell, 0, "warm-up", plan.suite.timeout), tools, keep=False)
            tools.say(f"[warm-up {number}/{warmup_runs}] {cell.framework}: {_outcome_text(outcome)}")
    for number, run in enumerate(plan.runs, 1):
        outcome = execute(run, tools)
        tools.say(f"[{number}/{len(plan.runs)}] {run.cell.framework}: {_outcome_text(outcome)}")


def _outcome_text(outcome: Outcome) -> str:
    exact = f"{outcome.seconds:.2f} s" if outcome.seconds < 60 else duration(outcome.seconds)
    return exact if outcome.status == "ok" else f"failed: {outcome.kind}: {outcome.message}"


def execute(run: Run, tools: CommandTools, *, keep: bool = True) -> Outcome:
    """Carry one run to the store; its folder is gone again if the user cuts it off, or it is not to be kept."""
    record = _record(run, tools.machine)
    folder = tools.store.create_run(record)
    with internal_errors.kept(folder):  # the run does not depend on those who watch
        tools.note_run(record.id)
    try:
        return internal_errors.recorded(
            folder, tools.store, lambda: _carry_out(run, record, tools), keep=keep, phase=PHASE
        )
    finally:
        if not (folder / OUTCOME_FILE).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _carry_out(run: Run, record: RunRecord, tools: CommandTools) -> Outcome:
    folder = tools.store.run_folder(record.id)
    tools.store.describe_run(folder, replace(record, code=code_of(_command(run.cell))))
    kills, gpus = oom_kills.kills(), run.cell.device_set.gpus
    with CommandProcess(_command(run.cell), folder, run.timeout_seconds, echo=tools.echo, gpus=gpus) as process:
        report = process.follow()
    outcome = judge(run, process, report, folder / LOG_FILE, memory_ran_out=oom_kills.killed_since(kills))
    _save_usage(run, process, report, folder)
    return diagnosis.with_troubles(with_processes(outcome, process.left), process.cards)


def _command(cell: Cell) -> ExternalCommand:
    assert cell.command is not None  # noqa: S101 - every cell of this plan has one
    return cell.command


def _save_usage(run: Run, process: CommandProcess, report: WaiterReport | None, folder: Path) -> None:
    if report is None or report.exit_code is None:
        return
    found = read_log(folder / LOG_FILE, _command(run.cell).metrics)
    usage = usage_of(report, process.seen_times(), process.left_behind, found)
    (folder / FILE).write_bytes(msgspec.json.encode(usage))


def judge(
    run: Run, process: CommandProcess, report: WaiterReport | None, log: Path, *, memory_ran_out: bool
) -> Outcome:
    """What the run came to: a command that ends with 0 is well."""
    found = _failure(run, process, report, log, memory_ran_out)
    return Outcome(
        status="failed" if found else "ok",
        phase="start" if report and report.error else PHASE,
        kind=found[0] if found else None,
        message=one_line(found[1]) if found else None,
        log_end=end_of_log(log) if found else None,
        exit_codes=(report.exit_code if report else None,),
        seconds=report.seconds if report and not report.error else process.seconds,
    )


def _failure(
    run: Run, process: CommandProcess, report: WaiterReport | None, log: Path, memory_ran_out: bool
) -> tuple[str, str] | None:
    """Kind and message, or None when all went well."""
    if process.timed_out:
        return "timeout", f"no end after {run.timeout_seconds:g} s"
    if report is None:
        return "crash", "it was ended from outside, together with the process that waits for it"
    if report.error:
        program = _command(run.cell).arguments[0]
        reason = "command not found" if report.not_found else report.error
        return "error", f"{program}: {reason}"
    if report.exit_code == 0:
        return None
    end = end_of_log(log)
    killed = report.exit_code in KILLED or KILL.search(end) is not None
    if failure_messages.memory_ran_out(end) or (memory_ran_out and killed):
        return "out of memory", _how_it_ended(report, end)
    return "crash", _how_it_ended(report, end)


def _how_it_ended(report: WaiterReport, end: str) -> str:
    """The exit code or signal, and the last line that was printed, which often says why."""
    code = report.exit_code or 0
    how = f"killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    lines = [line for line in end.splitlines() if line.strip()]
    return f"{how}: {lines[-1]}" if lines else how


def _record(run: Run, machine: Machine) -> RunRecord:
    return RunRecord(
        id=new_id(),
        key=run.key,
        cell=run.cell,
        repeat=run.repeat,
        machine=machine,
        packages={},
        framework_version="",
        fingerprint="",
        python_version="",
        paceline_version=version("paceline"),
        worker_code="",
        commands=(_command(run.cell).arguments,),
        environment={name: value for name, value in os.environ.items() if _kept(name, value)},
        started=time.time(),
    )


def _kept(variable: str, value: str) -> bool:
    """What changes how frameworks compute and is known to be harmless; others may be secrets."""
    return harmless(variable, value) and variable not in NOT_KEPT
