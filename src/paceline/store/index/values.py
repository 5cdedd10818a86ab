"""What was measured in a run, as values with a name: one table for all of them, filled when a run is indexed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

import msgspec

from paceline.store.resources import MemoryUse, Noise, Range

OF_TRAINING = ("training", "first_step", "last_pass", "last_evaluation", "evaluations")  # views: one row for each run
UTILISATION = ("utilisation_lowest", "utilisation_median", "utilisation_highest")  # the parts of a `Range`
Value = float | Sequence[float | None] | None  # one of the whole run, or one of each process or GPU


def insert_values(index: sqlite3.Connection, run_id: str, values: Mapping[str, Value]) -> None:
    """What is None is not known, and has no row."""
    rows = [
        (run_id, name, position, each)
        for name, value in values.items()
        for position, each in enumerate(value if isinstance(value, Sequence) else [value])
        if each is not None
    ]
    index.executemany("INSERT INTO value VALUES (?, ?, ?, ?)", rows)


def of_training(index: sqlite3.Connection, run_id: str) -> dict[str, Value]:
    """From the blocks and evaluations of a run that are in the index."""
    found: dict[str, Value] = {}
    for view in OF_TRAINING:
        for row in index.execute(f"SELECT * FROM {view} WHERE run_id = ?", (run_id,)):  # noqa: S608 - a name of ours
            found |= {name: row[name] for name in row.keys() if name != "run_id" and row[name] is not None}  # noqa: SIM118
    return found


def of_memory(memory: Sequence[MemoryUse]) -> dict[str, Value]:
    started = [None if each.started_bytes is None else each.started_bytes - each.idle_bytes for each in memory]
    return {
        "memory_bytes": [each.peak_bytes - each.idle_bytes for each in memory],
        "idle_bytes": [each.idle_bytes for each in memory],
        "started_bytes": started,
    }


def of_utilisation(devices: Sequence[Range | None]) -> dict[str, Value]:
    return {name: [device and device[place] for device in devices] for place, name in enumerate(UTILISATION)}


def of_noise(noise: Noise) -> dict[str, Value]:
    return msgspec.structs.asdict(noise)
