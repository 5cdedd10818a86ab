"""The processes of one command: what they use, what they print, and how it came to its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import msgspec
import psutil

from paceline.plan.external.command import ExternalCommand
from paceline.plan.external.output_metrics import read_log
from paceline.run import failure_messages
from paceline.run.diagnosis import Failure, WorkerEnding, end_of_log, outcome_of, signal_name
from paceline.run.external import waiter
from paceline.run.launchers import LaunchCommand
from paceline.run.worker import LOG_FILE, RunProcesses
from paceline.store.index.command_usage import RANK, CommandUsage, WaiterReport, usage_of
from paceline.store.records.events import AnyEvent
from paceline.store.records.outcome import Outcome
from paceline.system import processes
from paceline.system.processes import RUN_VARIABLE
from paceline.system.text.safe_text import one_line

PHASE = "command"  # in which it fails if it has started: Paceline sees no other from outside
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # also as a shell says it
KILL = re.compile(r"\bkilled\b|SIGKILL|signal:? 9\b", re.IGNORECASE)  # what launchers say of their processes


class CommandProcesses(RunProcesses):
    """Those below the waiter, which tells how the command ended."""

    def __init__(
        self, command: ExternalCommand, folder: Path, timeout_seconds: float, *, echo: bool, gpus: Collection[int]
    ) -> None:
        self._report_file = folder / waiter.REPORT_FILE
        arguments = (sys.executable, "-I", "-S", waiter.__file__, str(folder.absolute()), *command.arguments)
        environment = {**os.environ, RUN_VARIABLE: folder.name}
        start = LaunchCommand(arguments, environment, command.folder)
        super().__init__([start], folder, timeout_seconds, gpus)
        self._command, self._echo = command, echo
        self._echoed = self._left_behind = 0
        self._report: WaiterReport | None = None

    def _start(self, command: LaunchCommand) -> subprocess.Popen[bytes]:
        started = super()._start(command)
        self._waiter = self._adopter = psutil.Process(started.pid)
        return started

    def _ending(self, codes: tuple[int | None, ...]) -> WorkerEnding | None:
        """When the waiter has told; it stays until what the command left behind has been ended."""
        if self._report_file.exists():
            self._report = msgspec.json.decode(self._report_file.read_bytes(), type=WaiterReport)
            return WorkerEnding("exited", "", (self._report.exit_code,))
        ending = super()._ending(codes)
        return ending and WorkerEnding(ending.reason, ending.detail, (None,))

    def _look(self) -> tuple[AnyEvent, ...]:
        self._monitor.sample({RANK: self._waiter.pid})
        self._echo_on()
        return ()

    def _last_look(self) -> tuple[AnyEvent, ...]:
        self._monitor.sample({}, now=True)  # what the cores have done by now
        self._left_behind = len(processes.left_behind(self._folder.name, self._waiter))
        self._echo_on()
        return ()

    def _echo_on(self) -> None:
        if not self._echo:
            return
        with (self._folder / LOG_FILE).open("rb") as log:
            log.seek(self._echoed)
            while piece := log.read(1 << 16):
                sys.stderr.buffer.write(piece)
                self._echoed += len(piece)
        sys.stderr.buffer.flush()

    def _judged(self, seconds: float, *, memory_ran_out: bool) -> Outcome:
        log = self._folder / LOG_FILE
        return judge(self._command, self.ending, self._report, seconds, log, memory_ran_out=memory_ran_out)

    def usage(self) -> CommandUsage | None:
        """What it used, where that is known, and what its output says."""
        if self._report is None or self._report.exit_code is None:
            return None
        seen = [times for process, times in self._monitor.seen.items() if process != self._waiter]
        sums = sum(user for user, _ in seen), sum(system for _, system in seen)
        found = read_log(self._folder / LOG_FILE, self._command.metrics)
        return usage_of(self._report, sums, self._left_behind, found)


def judge(
    command: ExternalCommand,
    ending: WorkerEnding,
    report: WaiterReport | None,
    seconds: float,
    log: Path,
    *,
    memory_ran_out: bool,
) -> Outcome:
    """What the run came to: a command that ends with 0 is well. The waiter knows its seconds better."""
    failure = _failure(command, ending, report, end_of_log(log), memory_ran_out)
    phase, known = ("start", None) if report and report.error else (PHASE, report)
    shown = failure and (failure[0], one_line(failure[1]))
    return outcome_of(shown, phase, ending.codes, known.seconds if known else seconds, log)


def _failure(
    command: ExternalCommand, ending: WorkerEnding, report: WaiterReport | None, end: str, memory_ran_out: bool
) -> Failure | None:
    """None when all went well."""
    if ending.reason == "timeout":
        return "timeout", ending.detail
    if report is None:
        return "crash", "it was ended from outside, together with the process that waits for it"
    if report.error:
        reason = "command not found" if report.not_found else report.error
        return "error", f"{command.arguments[0]}: {reason}"
    if report.exit_code == 0:
        return None
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
