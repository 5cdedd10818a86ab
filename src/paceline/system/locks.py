"""Locks between processes: what one is making, another waits for."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from paceline.system.errors import UserError


@contextlib.contextmanager
def exclusive(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock file; `waiting` is called when another process has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("w")
    except OSError as error:
        raise UserError(f"Cannot write {path.parent}: {error.strerror}. Set PACELINE_HOME to another place.") from None
    with handle:
        if not taken(handle):
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def taken(file: IO[str] | int) -> bool:
    """Whether the lock of this file is ours now; not if another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
