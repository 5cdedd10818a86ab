"""Runs and plans in a store that a newer Paceline wrote: they are named and left out, and spoil nothing of the rest."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from paceline.system.format_versions import NewerError
from paceline.system.text.safe_text import note

REASONS = "SELECT reason FROM left_out ORDER BY name"
Query = Callable[[str], list[sqlite3.Row]]


@contextmanager
def leaving_out_newer(index: sqlite3.Connection, name: str) -> Iterator[None]:
    """Keep in the index why something is not in it."""
    try:
        yield
    except NewerError as reason:
        index.execute("INSERT OR IGNORE INTO left_out VALUES (?, ?)", (name, str(reason)))


def warn_of_left_out(query: Query) -> None:
    """One line for the user of a store from which something is left out."""
    reasons = [row["reason"] for row in query(REASONS)]
    if reasons:
        others = len(reasons) - 1
        more = f", as {'is one' if others == 1 else f'are {others}'} more" if others else ""
        _say(f"{reasons[0]} It is left out{more}.")


_say = cache(note)  # a command may look into a store several times
