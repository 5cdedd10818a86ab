"""Judges how a run ended: ok, or failed in a phase, of a kind, with a message."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from paceline.run import failure_messages
from paceline.run.launchers import EndedRank, ended_ranks, first_killed
from paceline.store.records.events import EventFile, Failed, Finished
from paceline.store.records.outcome import Outcome
from paceline.system.files.regular_files import NoPlainFileError, open_plain
from paceline.system.machine.gpus import WatchedGpus
from paceline.system.processes import still_there
from paceline.system.text.safe_text import one_line

LOG_END_LINES, LOG_END_BYTES = 20, 4096
Failure = tuple[str, str]  # its kind and a message


@dataclass(frozen=True)
class WorkerEnding:
    """How it ended, seen from outside: by itself, or by us for a reason."""

    reason: str  # exited, timeout, trouble
    detail: str  # the first trouble that was seen
    codes: tuple[int | None, ...]  # exit codes of the started commands
    vanished: bool = False  # the first trouble was a rank whose process was gone

    @property
    def unexplained(self) -> bool:
        """Whether ranks have ended in a way that was not seen; one that is stopped or never came has not ended."""
        return self.vanished or self.reason == "exited"


def judge(files: list[EventFile], ending: WorkerEnding, seconds: float, log: Path, *, memory_ran_out: bool) -> Outcome:
    """The first cause that explains the ending; memory ran out if the kernel killed somebody in the run's own group."""
    found = _failure(files, ending, _seen_by_launcher(ending, log), memory_ran_out)
    return outcome_of(found, _phase(files), ending.codes, seconds, log)


def outcome_of(
    failure: Failure | None, phase: str, codes: tuple[int | None, ...], seconds: float, log: Path
) -> Outcome:
    """Good, but for a failure, which comes with the end of the log."""
    status, kind, message = ("failed", *failure) if failure else ("ok", None, None)
    return Outcome(
        status=status,
        phase=phase,
        kind=kind,
        message=message,
        log_end=end_of_log(log) if failure else None,
        exit_codes=codes,
        seconds=seconds,
    )


def with_processes(outcome: Outcome, left: Sequence[int]) -> Outcome:
    """With a remark about processes that could not be ended, if there are any: they take nothing from a good run."""
    return replace(outcome, remarks=(*outcome.remarks, still_there(left))) if left else outcome


def _seen_by_launcher(ending: WorkerEnding, log: Path) -> list[EndedRank]:
    """How ranks ended, which a launcher knows better than who looks at them from outside."""
    return ended_ranks(_last_bytes(log)) if ending.reason != "timeout" else []


def _phase(files: list[EventFile]) -> str:
    """Where a failed rank failed, else where the rank is that got least far."""
    reports = _reports(files)
    return reports[0].phase if reports else min(files, key=lambda file: len(file.events)).phase


def _reports(files: list[EventFile]) -> list[Failed]:
    """What the ranks said about their failures, the first cause first and the echoes of others last."""
    reports = [event for file in files for event in file.events if isinstance(event, Failed)]
    return sorted(reports, key=lambda event: (_is_echo(event, files), event.time))


def _is_echo(event: Failed, files: list[EventFile]) -> bool:
    """Whether a rank only misses another one."""
    return len(files) > 1 and failure_messages.misses_a_peer(_text(event))


def _failure(
    files: list[EventFile], ending: WorkerEnding, ended: list[EndedRank], memory_ran_out: bool
) -> Failure | None:
    """None when all went well."""
    reports, rubbish = _reports(files), [line for file in files for line in file.rubbish]
    if reports and not _is_echo(reports[0], files):
        return _reported(reports[0])
    if ending.reason == "timeout":
        return "timeout", ending.detail
    silent = [rank for rank, file in enumerate(files) if not file.has(Finished) and not file.has(Failed)]
    if silent or reports:
        alone = len(files) == 1
        how = _how_it_went(ending) if alone else _lost_rank(files, silent, reports, _seen(ending, ended))
        if memory_ran_out and _was_killed(ending, ended, len(files)):
            return "out of memory", f"{how}: memory ran out in its control group"
        if not (alone and rubbish):
            return "crash" if alone else "lost rank", how
    return ("protocol", f"a line among its events is none: {rubbish[0][:60]!r}") if rubbish else None


def _seen(ending: WorkerEnding, ended: list[EndedRank]) -> str:
    killed = first_killed(ended)
    if killed is None:
        return ending.detail
    return f"rank {killed.rank} (process {killed.process}) was killed by {signal_name(-killed.code)}"


def _was_killed(ending: WorkerEnding, ended: list[EndedRank], ranks: int) -> bool:
    """Whether the kernel may have ended a rank for want of memory, which it does by SIGKILL."""
    seen = [*ending.codes, *(one.code for one in ended)]
    if -signal.SIGKILL in seen:
        return True
    of_ranks = seen if len(ending.codes) == ranks else seen[len(ending.codes) :]  # else the codes are of a launcher
    known = {code for code in of_ranks if code is not None} - {-signal.SIGTERM}  # by which launchers end the others
    return not known and ending.unexplained


def _lost_rank(files: list[EventFile], silent: list[int], reports: list[Failed], seen: str) -> str:
    """What was seen first; but if that is a rank that only misses another one, whoever has said nothing."""
    missing_others = [rank for rank, file in enumerate(files) if file.has(Failed)]
    misleading = silent and any(f"rank {rank} " in seen for rank in missing_others)
    if seen and not misleading:
        return seen
    names = [f"rank {rank} (process {files[rank].pid})" if files[rank].pid else f"rank {rank}" for rank in silent]
    return f"{', '.join(names)} ended without a word" if silent else _reported(reports[0])[1]


def _reported(failure: Failed) -> Failure:
    text = _text(failure)
    return "out of memory" if failure_messages.memory_ran_out(text) else "error", one_line(text)


def _text(failure: Failed) -> str:
    return f"{failure.kind}: {failure.message}"


def end_of_log(log: Path) -> str:
    """Its last lines."""
    return "\n".join(_last_bytes(log).splitlines()[-LOG_END_LINES:])


def _last_bytes(log: Path) -> str:
    """It may be too long to be read as a whole; and the run may have put something else into its place."""
    try:
        with open_plain(log) as file:
            file.seek(max(0, file.seek(0, 2) - LOG_END_BYTES))
            return file.read(LOG_END_BYTES).decode(errors="replace")
    except NoPlainFileError as error:
        return f"({error})"


def _how_it_went(ending: WorkerEnding) -> str:
    signals = [signal_name(-code) for code in ending.codes if code is not None and code < 0]
    if signals:
        return f"killed by {signals[0]}"
    return ending.detail or f"ended with exit code {ending.codes[0]} before it had finished"


def signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def with_troubles(outcome: Outcome, cards: WatchedGpus) -> Outcome:
    """A lost card explains a run that failed; any other trouble, or one that it survived, is a remark."""
    if outcome.status == "failed":
        cards.look()  # it may have been lost after the last look
    causes = {index: f"the driver could not tell of cuda:{index}: {why}" for index, why in cards.troubles.items()}
    lost = sorted(cards.lost)
    if outcome.status == "ok" or not lost:
        return replace(outcome, remarks=(*outcome.remarks, *causes.values()))
    others = tuple(why for index, why in causes.items() if index != lost[0])
    message = f"{causes[lost[0]]}; {outcome.kind}: {outcome.message}"
    return replace(outcome, kind="lost device", message=message, remarks=(*outcome.remarks, *others))
