"""What the index knows of each run, with everything that was measured in it."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from paceline.store.records.outcome import cause_of
from paceline.store.store import Store

MOST_VALUES = 10_000  # in one question; SQLite allows 32,766

# `{}` is the list of runs. It is written out, because only then SQLite looks at these runs alone inside of a view.
RUNS = "SELECT {columns} FROM run WHERE id IN ({{}}) ORDER BY repeat, id"
VALUES = "SELECT run_id, name, value FROM value WHERE run_id IN ({}) ORDER BY run_id, name, position"
REACHED = """
SELECT run_id, seconds AS seconds_to_target, images AS images_to_target, MIN(steps) FROM epoch
WHERE run_id IN ({}) AND test_accuracy >= ? GROUP BY run_id
"""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Its fields but the last are columns of the index."""

    id: str
    key: str
    machine: str
    machine_description: str
    quota_cores: float | None
    cards: tuple[str, ...]
    framework_version: str
    fingerprint: str
    worker_code: str
    setup: str
    shares: tuple[int, ...]
    status: str
    phase: str
    kind: str | None
    message: str | None
    log_end: str | None
    remarks: tuple[str, ...]
    values: Mapping[str, tuple[float, ...]] = {}  # of the whole run, or of each process or GPU

    def value(self, name: str) -> float | None:
        """What belongs to the whole run."""
        return next(iter(self.values.get(name, ())), None)

    def of_each(self, name: str) -> tuple[float, ...]:
        """Of each process or GPU; empty where it is not known."""
        return self.values.get(name, ())

    def total(self, name: str) -> float | None:
        """Of all processes or GPUs together."""
        return sum(self.values[name]) if name in self.values else None

    def per_image(self, name: str) -> float | None:
        """Of all together, divided by the images trained."""
        total, images = self.total(name), self.value("images")
        return None if total is None or not images else total / images

    @property
    def cause(self) -> str:
        """Of its failure."""
        return cause_of(self.kind, self.phase, self.message)


COLUMNS = RunResult.__struct_fields__[:-1]
LISTS = ("cards", "shares", "remarks")  # kept as JSON


def run_results(store: Store, run_ids: Sequence[str], target: float | None = None) -> dict[str, RunResult]:
    """In the order of repeats; a target is a test accuracy, of which the values say what it took to get there."""
    values: dict[str, dict[str, tuple[float, ...]]] = defaultdict(dict)
    for run_id, name, value in rows_among(store, VALUES, run_ids):
        of_run = values[run_id]
        of_run[name] = (*of_run.get(name, ()), value)
    if target is not None:
        for run_id, seconds, images, _ in rows_among(store, REACHED, run_ids, target):
            values[run_id] |= {"seconds_to_target": (seconds,), "images_to_target": (images,)}
    runs = rows_among(store, RUNS.format(columns=", ".join(COLUMNS)), run_ids)
    return {row["id"]: _result(row, values[row["id"]]) for row in runs}


def _result(row: sqlite3.Row, values: Mapping[str, tuple[float, ...]]) -> RunResult:
    fields = dict(row) | {name: tuple(msgspec.json.decode(row[name])) for name in LISTS}
    return RunResult(**fields, values=values)


def rows_among(store: Store, question: str, values: Sequence[str], *more: float) -> Iterator[sqlite3.Row]:
    """The answer for any number of values in place of `{}`, and then for those of the question's own `?`."""
    for first in range(0, len(values), MOST_VALUES):
        some = values[first : first + MOST_VALUES]
        yield from store.query(question.format(",".join("?" * len(some))), *some, *more)
