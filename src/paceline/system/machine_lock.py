"""One measurement at a time on a machine, whoever starts it: two at once would spoil each other."""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import msgspec
import psutil

from paceline.system.errors import UserError
from paceline.system.locks import taken
from paceline.system.paths import home
from paceline.system.text.safe_text import printable, shortened

VARIABLE = "PACELINE_LOCK"
NAME = "paceline-measuring.lock"
SHARED_FOLDERS = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))  # noqa: S108 - all users must meet at one file
EVERYONE_WRITES = 0o666
POLL_SECONDS = 0.5
LONGEST_COMMAND = 200  # letters of the holder's command that are kept
CLOCK_SECONDS = 2.0  # by which two readings of a process's start may differ


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Who measures now, in its own words."""

    process: int
    process_started: float  # a later process may get the same number
    user: str
    command: str
    store: str = ""  # the results folder; empty for what keeps no runs
    plan: str = ""  # the id of the plan under way; empty for runs of no plan, such as those of `explain`
    run: str = ""  # the id of the run under way; empty between two

    @property
    def is_alive(self) -> bool:
        try:
            process = psutil.Process(self.process)
            same = abs(process.create_time() - self.process_started) < CLOCK_SECONDS
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def __str__(self) -> str:
        command = shortened(printable(self.command), LONGEST_COMMAND)
        return f"`{command}` (process {self.process}, user {printable(self.user)})"


class MachineLock:
    """The held lock; what is being measured is kept in its file, for those who wait and those who watch."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._holder = LockHolder(
            process=os.getpid(),
            process_started=psutil.Process().create_time(),
            user=_user(),
            command=shlex.join(["paceline", *sys.argv[1:]])[: 10 * LONGEST_COMMAND],
        )

    def note_plan(self, store: Path, plan: str = "") -> None:
        """Say what is measured from now on, and where its results go."""
        self._note(store=str(store.resolve()), plan=plan, run="")

    def note_run(self, run: str) -> None:
        """Say which run is under way; with an empty id, none is."""
        self._note(run=run)

    def _note(self, **changes: str) -> None:
        self._holder = msgspec.structs.replace(self._holder, **changes)
        line = msgspec.json.encode(self._holder) + b"\n"
        os.pwrite(self._descriptor, line, 0)  # whole, before the rest of a longer line is cut: readers take one line
        os.ftruncate(self._descriptor, len(line))

    def __enter__(self) -> Self:
        self._note()
        return self

    def __exit__(self, *_: object) -> None:
        os.ftruncate(self._descriptor, 0)  # the process may live on, to print its table


def lock_file() -> Path:
    """`$PACELINE_LOCK`, or a file in the first of the system's folders in which every user may write."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser().absolute()
    shared = (folder for folder in SHARED_FOLDERS if _writable_by_all(folder))
    return next(shared, home()) / NAME


def holder() -> LockHolder | None:
    """Who measures on this machine now.

    Only the file is read. Trying the lock would refuse, for that instant, a measurement that is about to begin.
    """
    try:
        with os.fdopen(os.open(lock_file(), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            found = msgspec.json.decode(file.readline(1 << 16), type=LockHolder)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.is_alive else None


@contextlib.contextmanager
def alone(*, wait: bool = False, say: Callable[[str], None] | None = None) -> Iterator[MachineLock]:
    """Measure with this machine to oneself; who comes second is refused, or waits if that is wanted."""
    descriptor = _opened(lock_file())
    try:
        if wait:
            _wait_for(descriptor, say or (lambda line: print(line, file=sys.stderr)))
        elif not taken(descriptor):
            raise UserError(f"Another measurement is running on this machine: {_who()}. Add --wait to wait for it.")
        with MachineLock(descriptor) as lock:
            yield lock
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, say: Callable[[str], None]) -> None:
    """Several measurements may come before this one; each is named once."""
    named = ""
    while not taken(descriptor):
        if (who := _who()) != named:
            say(f"Waiting for {who}")
            named = who
        time.sleep(POLL_SECONDS)


def _who() -> str:
    return str(holder() or "a process that has not given its name")


def _opened(path: Path) -> int:
    """The lock file, which every user may lock and write, and which must be a file and no link to one."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, flags)  # without O_CREAT: in /tmp, Linux refuses that for another user's file
        except FileNotFoundError:
            descriptor = _created(path, flags)
    except OSError as error:
        raise UserError(f"Cannot open the lock {path}: {error.strerror}. Set {VARIABLE} to another file.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"The lock {path} is not a regular file. Set {VARIABLE} to another file.")
    return descriptor


def _created(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, EVERYONE_WRITES)
    except FileExistsError:  # another process was faster
        return os.open(path, flags)
    os.fchmod(descriptor, EVERYONE_WRITES)  # whatever the umask
    return descriptor


def _writable_by_all(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        return str(os.getuid())
