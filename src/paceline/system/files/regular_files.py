"""Opens files of a store: plain ones of that very folder, whatever somebody has put into their place."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from paceline.system.errors import UserError

RECORD_BYTES = 2**25  # a plan of some 20,000 cells; what is decoded takes many times its size in memory
LINES_BYTES = (
    2**32
)  # no run writes so many events, samples or words; a file with a hole in it may seem to be of any size
LINE_BYTES = 2**23  # a block of 350,000 steps
FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a pipe is not waited for
KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NoPlainFileError(UserError, OSError):
    """Something else stands in the place of a file of a store, or one that is far too large."""

    def __init__(self, path: Path | str, what: str) -> None:
        OSError.__init__(self, errno.EINVAL, what, str(path))

    def __str__(self) -> str:
        return f"{Path(self.filename).name} {self.strerror}"


def open_plain(path: Path | str, most_bytes: int | None = None) -> BinaryIO:
    """Open for reading; neither through a link nor anything but a regular file."""
    _check(os.lstat(path), path, most_bytes)  # first, since a device may notice that it is opened
    descriptor = os.open(path, FLAGS)
    try:
        _check(os.fstat(descriptor), path, most_bytes)  # it may have been exchanged meanwhile
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_plain(path: Path | str, most_bytes: int = RECORD_BYTES) -> bytes:
    """All of a record."""
    with open_plain(path, most_bytes) as file:
        return file.read()


def lines_of(path: Path) -> Iterator[bytes]:
    """Whole lines, with their ends; none of a file that is not there, and not the last one, of which more may come."""
    try:
        file = open_plain(path, LINES_BYTES)
    except FileNotFoundError:
        return
    with file:
        while line := file.readline(LINE_BYTES):
            if line.endswith(b"\n"):
                yield line
            elif len(line) == LINE_BYTES:
                raise msgspec.DecodeError(f"a line is longer than {LINE_BYTES:,} bytes")


def is_plain(path: Path) -> bool:
    """Whether there is a regular file of this name."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def is_own_folder(path: Path) -> bool:
    """Whether there is a folder of this name, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def kind_of(path: Path, wanted: int = stat.S_IFREG) -> str | None:
    """What stands there instead of a plain file, or of what else is wanted; None for that or nothing."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return None
    return None if kind == wanted else KINDS.get(kind, "something else")


def _check(status: os.stat_result, path: Path | str, most_bytes: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NoPlainFileError(path, f"is {KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}, not a plain file")
    if most_bytes is not None and status.st_size > most_bytes:
        raise NoPlainFileError(path, f"has {status.st_size:,} bytes, more than the {most_bytes:,} that are read")
