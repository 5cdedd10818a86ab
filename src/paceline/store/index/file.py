"""The index as a file of SQLite: read and written by many processes, and rebuilt next to the one that is in use.

Who writes shares the lock of the file; who puts a new file into its place has it alone, for the moment that takes: what
was written into a file that is gone would be lost. Who reads holds none, and sees the old file or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from paceline.system.errors import UserError
from paceline.system.files.regular_files import is_own_folder, kind_of
from paceline.system.format_versions import INDEX, VERSIONS, check_version

INDEX_FILE = "index.sqlite"
BUSY_SECONDS = 30.0  # how long SQLite waits for a lock, before a transaction and at its end
COMMIT_TRIES = 10  # each as long; what was measured for hours must not be lost to somebody who reads for minutes
MAKING_SECONDS = 3600.0  # how long to wait for a process that rebuilds the index; the kernel says if it is gone
POLL_SECONDS = 0.02
FIRST_CHECKSUM = 2**16  # larger ones are no versions, but checksums: what was written here before there were versions
NEW = f"{INDEX_FILE}.new-"  # begins the names of those that are being made
COMPANIONS = ("-journal", "-wal", "-shm")  # files of SQLite that belong to one index and would spoil another
OBJECTS = """
SELECT group_concat(type || ' ' || name || ': ' || COALESCE(sql, ''), ';')
FROM (SELECT * FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name)
"""
Fill = Callable[[sqlite3.Connection], None]  # puts in what is not in yet


@dataclass(frozen=True)
class IndexFile:
    path: Path
    busy_seconds: float = BUSY_SECONDS

    def exists(self) -> bool:
        """Anything but a plain file is never opened, be it the index or what SQLite opens with it."""
        for path in self._files:
            if kind := kind_of(path):
                cure = "move it out of the store" if is_own_folder(path) else "`paceline index` makes it anew"
                raise UserError(f"{path} is {kind}, not a plain file; {cure}.")
        return self.path.exists()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Without the right to write: who stores a run waits at most for the query under way."""
        with _connected(f"{self.path.absolute().as_uri()}?mode=ro", self.busy_seconds, uri=True) as index:
            try:
                _touch(index)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_READONLY_ROLLBACK":
                    raise
                with self.writing() as writer:
                    _touch(writer)  # who was writing was killed; the first to look with a right to write undoes it
            yield index

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """In one transaction, which is undone unless it is committed; the file stays in its place meanwhile."""
        with (
            _held(self._next_to("lock"), fcntl.LOCK_SH, self.busy_seconds * COMMIT_TRIES),
            _connected(str(self.path), self.busy_seconds) as index,
        ):
            index.execute("BEGIN IMMEDIATE")
            yield index

    def make(self, fill: Fill, *, if_needed: bool) -> None:
        """A new index in the place of the old one, which is used by others until then and misses nothing of theirs."""
        if any(map(is_own_folder, self._files)):
            self.exists()  # which says what is wrong
        with _held(self._next_to("making"), fcntl.LOCK_EX, MAKING_SECONDS):
            for left in self.path.parent.glob(f"{NEW}*"):  # by a process that was killed: no other is making one
                with contextlib.suppress(OSError):  # a folder is not ours
                    left.unlink()
            if if_needed and self._serves():
                return  # somebody else has made it meanwhile
            made = self.path.with_name(f"{NEW}{secrets.token_hex(4)}")
            try:
                self._make(made, fill)
            finally:
                made.unlink(missing_ok=True)

    def _serves(self) -> bool:
        if not self.exists():
            return False
        with self.reading() as index:
            return is_current(index)

    def _make(self, made: Path, fill: Fill) -> None:
        with _connected(str(made), self.busy_seconds) as index:
            index.execute("PRAGMA journal_mode = OFF")  # what is cut off is thrown away
            index.execute("PRAGMA synchronous = OFF")
            create(index)
            _filled(index, fill)
            _filled(index, fill)  # what others have stored meanwhile
            _write_through(made)  # here, where no process waits
            with (
                _held(self._next_to("lock"), fcntl.LOCK_EX, self.busy_seconds * COMMIT_TRIES),
                self._without_writers(),
            ):
                _filled(index, fill)
                index.close()
                _write_through(made)
                for companion in self._files[1:]:
                    companion.unlink(missing_ok=True)
                made.replace(self.path)

    @contextlib.contextmanager
    def _without_writers(self) -> Iterator[None]:
        """Versions of Paceline that do not know our lock wait for SQLite's."""
        with contextlib.ExitStack() as stack:
            if self.path.exists() and not any(map(kind_of, self._files)):
                old = stack.enter_context(_connected(str(self.path), self.busy_seconds))
                try:
                    old.execute("BEGIN IMMEDIATE")
                except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                    if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY":
                        raise
                    # it is damaged, so that nothing can write into it
            yield

    @property
    def _files(self) -> tuple[Path, ...]:
        """All that SQLite opens, the index itself first."""
        return tuple(self.path.with_name(f"{INDEX_FILE}{name}") for name in ("", *COMPANIONS))

    def _next_to(self, name: str) -> Path:
        return self.path.with_name(f"{INDEX_FILE}.{name}")


@contextlib.contextmanager
def in_memory() -> Iterator[sqlite3.Connection]:
    """An empty index that no other process sees."""
    with _connected(":memory:", 0.0) as index:
        create(index)
        yield index


def create(index: sqlite3.Connection) -> None:
    """All tables and views, in a database that has none."""
    for statement in _schema().split(";\n"):
        index.execute(statement)
    index.execute(f"PRAGMA user_version = {VERSIONS[INDEX]}")


def commit(index: sqlite3.Connection) -> None:
    """Waits for queries under way; new ones wait for it meanwhile, and a transaction that was refused is kept."""
    for left in reversed(range(COMMIT_TRIES)):
        try:
            index.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or not left:
                raise
        else:
            return


def is_current(index: sqlite3.Connection) -> bool:
    """Whether it has our tables and views and no others: a stranger's could compute for ever.

    One of a newer version is refused. Rebuilding it would take it from the newer Paceline and drop what only that can
    read, and two versions that take turns would rebuild it at every command. An older one is out of use.
    """
    version = index.execute("PRAGMA user_version").fetchone()[0]
    if version < FIRST_CHECKSUM:
        check_version(
            INDEX, version, _path(index), "upgrade Paceline, or let `paceline index` make one for this version"
        )
    if version != VERSIONS[INDEX]:
        return False
    return bool(index.execute(OBJECTS).fetchone()[0] == _objects())


def _touch(index: sqlite3.Connection) -> None:
    """Begin to read, and find out whether that is possible."""
    index.execute("PRAGMA user_version").fetchone()


@cache
def _objects() -> str:
    with in_memory() as index:
        return str(index.execute(OBJECTS).fetchone()[0])


def _path(index: sqlite3.Connection) -> str:
    return str(index.execute("PRAGMA database_list").fetchone()["file"])


@cache  # as it was when this process began, even if Paceline is upgraded while it runs
def _schema() -> str:
    return (files(__package__) / "schema.sql").read_text(encoding="utf-8")


@contextlib.contextmanager
def _connected(name: str, busy_seconds: float, *, uri: bool = False) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(name, timeout=busy_seconds, isolation_level=None, uri=uri)) as index:
        index.row_factory = sqlite3.Row
        yield index


def _filled(index: sqlite3.Connection, fill: Fill) -> None:
    index.execute("BEGIN")
    fill(index)
    index.execute("COMMIT")


def _write_through(path: Path) -> None:
    """So that not even a power cut leaves half of it under the name of the index."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _held(path: Path, kind: int, seconds: float) -> Iterator[None]:
    """A lock that the kernel frees when its process ends; an error if others keep it too long."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        deadline = time.monotonic() + seconds
        while not _locked(descriptor, kind):
            if time.monotonic() > deadline:
                raise UserError(f"Another process has kept {path} for {seconds:g} s; wait for its end, and try again.")
            time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
