"""What a run came to: ok, or failed in a phase, of a kind, with a message."""

from __future__ import annotations

import msgspec

INTERNAL_ERROR = "internal error"  # of Paceline itself, while it carried out the run


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    status: str  # ok or failed
    phase: str  # where it ended
    kind: str | None = None  # error, out of memory, crash, timeout, lost rank, lost device, protocol, internal error
    message: str | None = None  # one line
    log_end: str | None = None  # the last lines that a failed run printed
    exit_codes: tuple[int | None, ...] = ()
    seconds: float  # wall time of the whole run, start-up included
    remarks: tuple[str, ...] = ()  # what went wrong without making it fail


def cause_of(kind: str | None, phase: str, message: str | None) -> str:
    """Why a run failed, in the words of every list and table."""
    return f"{kind} in {phase}: {message}"
