"""Tells a damaged index from a mistake of ours, when code has stumbled over what it read there."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

from paceline.store.index.file import IndexFile, in_memory
from paceline.store.store import DAMAGED, ODD, Store
from paceline.system.errors import UserError

TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"


@contextlib.contextmanager
def blaming_the_index(store: Store) -> Iterator[None]:
    """An unexpected error is the index's if that is not what the run folders make of it; else it flies on."""
    try:
        yield
    except ODD as error:
        if not _differs(store):
            raise
        what = f"{store.index.path} holds what no run folder says ({type(error).__name__})"
        raise UserError(f"{what}; {DAMAGED}.") from None


def _differs(store: Store) -> bool:
    """Whether it has rows that the folders do not make, or lacks some; what is stored meanwhile does not count."""
    if not store.folder.is_dir() or not store.index.exists():
        return False
    with in_memory() as rebuilt:
        names = [row["name"] for row in rebuilt.execute(TABLES)]
        try:
            before = _rows(store.index, names)
            store.filling()(rebuilt)
            after = _rows(store.index, names)
        except (sqlite3.Error, UnicodeDecodeError):
            return True
        return any(not before[name] <= _of(rebuilt, name) <= after[name] for name in names)


def _rows(index: IndexFile, names: list[str]) -> dict[str, set[tuple[object, ...]]]:
    with index.reading() as found:
        return {name: _of(found, name) for name in names}


def _of(index: sqlite3.Connection, name: str) -> set[tuple[object, ...]]:
    return {tuple(row) for row in index.execute(f"SELECT * FROM {name}")}  # noqa: S608 - a name of our own
