"""Runs and plans in a store that a newer Paceline wrote: they are named and left out, and spoil nothing of the rest."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.formats import NewerError

REASONS = "SELECT reason FROM left_out ORDER BY name"
Query = Callable[[str], list[sqlite3.Row]]
_said: set[tuple[Path, str]] = set()  # a command may look into a store several times


@contextmanager
def leaving_out_newer(index: sqlite3.Connection, name: str) -> Iterator[None]:
    """Keep in the index why something is not in it."""
    try:
        yield
    except NewerError as reason:
        index.execute("INSERT OR IGNORE INTO left_out VALUES (?, ?)", (name, str(reason)))


def say_left_out(folder: Path, query: Query) -> None:
    """One line for the user of a store from which something is left out, once in a command."""
    reasons = [row["reason"] for row in query(REASONS)]
    if not reasons or (folder, reasons[0]) in _said:
        return
    _said.add((folder, reasons[0]))
    more = f", as {'is one more' if len(reasons) == 2 else f'are {len(reasons) - 1} more'}" if len(reasons) > 1 else ""
    print(f"paceline: {reasons[0]} It is left out{more}.", file=sys.stderr)
