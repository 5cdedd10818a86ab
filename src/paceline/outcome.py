"""What a run came to: ok, or failed in a phase, of a kind, with a message."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path

import msgspec

from paceline.events import EventFile, Failed, Finished
from paceline.launchers import killed_rank
from paceline.worker import Ending

OUT_OF_MEMORY = re.compile(
    r"out of memory|MemoryError|bad_alloc|RESOURCE_EXHAUSTED|(can't|cannot|unable to) allocate",
    re.IGNORECASE,
)
LOG_END_LINES, LOG_END_BYTES = 20, 4096
LOST_PEER = re.compile(
    r"connection (closed|reset|refused)|timed out|(socket|wait) timeout|remote process exited", re.IGNORECASE
)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    status: str  # ok or failed
    phase: str  # where it ended
    kind: str | None = None  # error, out of memory, crash, timeout, lost rank, protocol
    message: str | None = None  # one line
    log_end: str | None = None  # the last lines that a failed run printed
    exit_codes: tuple[int | None, ...] = ()
    seconds: float  # wall time of the whole run, start-up included


def cause_of(kind: str | None, phase: str, message: str | None) -> str:
    """Why a run failed, in the words of every list and table."""
    return f"{kind} in {phase}: {message}"


def judge(files: list[EventFile], ending: Ending, seconds: float, log: Path, *, memory_ran_out: bool) -> Outcome:
    """The first cause that explains the ending."""
    found = _failure(files, _with_blame(ending, log), memory_ran_out)
    status, kind, message = ("failed", *found) if found else ("ok", None, None)
    return Outcome(
        status=status,
        phase=_phase(files),
        kind=kind,
        message=message,
        log_end=end_of_log(log) if found else None,
        exit_codes=ending.codes,
        seconds=seconds,
    )


def _with_blame(ending: Ending, log: Path) -> Ending:
    """What a launcher said about the first rank that was killed is better than who was seen to be gone first."""
    killed = killed_rank(_last_bytes(log)) if ending.reason != "timeout" else None
    if killed is None:
        return ending
    rank, process, number = killed
    return replace(ending, detail=f"rank {rank} (process {process}) was killed by {signal_name(number)}")


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
    return len(files) > 1 and LOST_PEER.search(event.message) is not None


def _failure(  # noqa: PLR0911 - one return for each cause, the first that fits
    files: list[EventFile], ending: Ending, memory_ran_out: bool
) -> tuple[str, str] | None:
    """Kind and message, or None when all went well."""
    if ending.reason == "timeout":
        return "timeout", ending.detail
    if memory_ran_out and not all(file.has(Finished) for file in files):  # else it ran out for some other program
        return "out of memory", "the system ended a process because memory ran out"
    reports = _reports(files)
    if reports and not _is_echo(reports[0], files):
        return _reported(reports[0])
    silent = [rank for rank, file in enumerate(files) if not file.has(Finished) and not file.has(Failed)]
    if (silent or reports) and len(files) > 1:
        return "lost rank", _lost_rank(files, silent, reports, ending.detail)
    if any(file.rubbish for file in files):
        return "protocol", f"a line among its events is none: {next(f.rubbish[0] for f in files if f.rubbish)[:60]!r}"
    if silent:
        return "crash", _how_it_went(ending)
    return None


def _lost_rank(files: list[EventFile], silent: list[int], reports: list[Failed], seen: str) -> str:
    """What was seen first; but if that is a rank that only misses another one, whoever has said nothing."""
    missing_others = [rank for rank, file in enumerate(files) if file.has(Failed)]
    misleading = silent and any(f"rank {rank} " in seen for rank in missing_others)
    if seen and not misleading:
        return seen
    names = [f"rank {rank} (process {files[rank].pid})" if files[rank].pid else f"rank {rank}" for rank in silent]
    return f"{', '.join(names)} ended without a word" if silent else _reported(reports[0])[1]


def _reported(failure: Failed) -> tuple[str, str]:
    text = f"{failure.kind}: {failure.message}"
    return "out of memory" if OUT_OF_MEMORY.search(text) else "error", one_line(text)


def end_of_log(log: Path) -> str:
    """Its last lines."""
    return "\n".join(_last_bytes(log).splitlines()[-LOG_END_LINES:])


def _last_bytes(log: Path) -> str:
    """It may be too long to be read as a whole."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_END_BYTES))
        return file.read(LOG_END_BYTES).decode(errors="replace")


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def one_line(text: str) -> str:
    """What a program printed must not steer the reader's terminal."""
    return shortened(printable(" ".join(text.split())), 300)


def shortened(text: str, most_letters: int) -> str:
    """What is cut says so."""
    return text if len(text) <= most_letters else text[: most_letters - 1] + "…"


def _how_it_went(ending: Ending) -> str:
    signals = [signal_name(-code) for code in ending.codes if code is not None and code < 0]
    if signals:
        return f"killed by {signals[0]}"
    return ending.detail or f"ended with exit code {ending.codes[0]} before it had finished"


def signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def out_of_memory_kills() -> int:
    """How often the kernel has killed a process for want of memory since it started; 0 where it does not tell."""
    table = Path("/proc/vmstat")
    lines = table.read_text(encoding="ascii").splitlines() if table.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
