"""An error of Paceline's own while it carries out a run: that run has failed, and what is known of it is kept."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from paceline.run.diagnosis import end_of_log
from paceline.run.worker import LOG_FILE
from paceline.store.records.events import event_files
from paceline.store.records.outcome import INTERNAL_ERROR, Outcome
from paceline.store.store import Store
from paceline.system import processes
from paceline.system.errors import UserError
from paceline.system.files.regular_files import NoPlainFileError
from paceline.system.text.safe_text import one_line

FILE = "internal-error.txt"  # its traceback, in the run's folder


def recorded(folder: Path, store: Store, carry_out: Callable[[], Outcome], *, keep: bool, phase: str) -> Outcome:
    """What a run comes to, stored if it is to be kept; where Paceline fails, so does the run, and the plan goes on."""
    began = time.monotonic()
    try:
        outcome = carry_out()
        if keep:
            store.finish_run(folder, outcome)
    except Exception as error:
        if isinstance(error, UserError) and not isinstance(error, NoPlainFileError):
            raise
        processes.end_all(folder.name, reap=lambda: None)  # whatever went wrong before this was done
        outcome = _failure(folder, error, phase, time.monotonic() - began)
        store.finish_run(folder, outcome)
    return outcome


@contextlib.contextmanager
def kept(folder: Path) -> Iterator[None]:
    """Around what only tells of a run that is stored: an error is written down next to it and changes nothing."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - as above
        _keep(folder, error)


def _failure(folder: Path, error: Exception, phase: str, seconds: float) -> Outcome:
    place, log = _keep(folder, error), folder / LOG_FILE
    text = one_line("".join(traceback.format_exception_only(error)))
    return Outcome(
        status="failed",
        phase=_phase(folder) or phase,
        kind=INTERNAL_ERROR,
        message=f"{text}; its traceback is in {place}",
        log_end=end_of_log(log) if log.exists() else None,
        seconds=seconds,
    )


def _phase(folder: Path) -> str | None:
    """Where its first rank was, if one has said."""
    try:
        return next((file.phase for file in event_files(folder).values()), None)
    except Exception:  # noqa: BLE001 - this may be the very error
        return None


def _keep(folder: Path, error: Exception) -> Path:
    place = folder / FILE
    with place.open("a", encoding="utf-8", errors="replace") as file:
        file.writelines(traceback.format_exception(error))
    return place
