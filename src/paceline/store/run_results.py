"""What the index knows of each run: a few plain questions for many runs at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from paceline.store.store import Store

Facts = dict[str, Any]  # of one run, by the names of the columns below
MOST_VALUES = 10_000  # in one question; SQLite allows 32,766

# `{}` is the list of runs. It is written out, because only then SQLite looks at these runs alone inside of a view.
RUN = """
SELECT run.*, noise.load, noise.other, noise.stolen, noise.throttled, noise.lowest_mhz,
       noise.highest_mhz,
       command.user_seconds, command.system_seconds, command.times_sampled, command.largest_process_bytes,
       command.left_behind, train_reading.value AS train_accuracy, test_reading.value AS test_accuracy,
       (SELECT json_group_object(name, value) FROM reading WHERE reading.run_id = run.id) AS readings
FROM run
LEFT JOIN noise ON noise.run_id = run.id
LEFT JOIN command ON command.run_id = run.id
LEFT JOIN reading AS train_reading ON train_reading.run_id = run.id AND train_reading.name = 'training accuracy'
LEFT JOIN reading AS test_reading ON test_reading.run_id = run.id AND test_reading.name = 'accuracy'
WHERE run.id IN ({}) ORDER BY run.repeat, run.id
"""
ONE_ROW_EACH = (
    """
    SELECT run_id, images_per_second, seconds AS training_seconds, images_per_processor_second, waiting,
           switches_per_second
    FROM training WHERE run_id IN ({})
    """,
    "SELECT run_id, seconds AS first_step_seconds FROM first_step WHERE run_id IN ({})",
)
ONE_ROW_PER_DEVICE = (
    """
    SELECT run_id, peak_bytes - idle_bytes AS memory_bytes, idle_bytes, started_bytes - idle_bytes AS started_bytes
    FROM memory WHERE run_id IN ({}) ORDER BY run_id, position
    """,
    "SELECT run_id, peak_bytes AS allocator_bytes FROM allocator WHERE run_id IN ({}) ORDER BY run_id, position",
)
UTILISATION = "SELECT run_id, lowest, median, highest FROM utilisation WHERE run_id IN ({}) ORDER BY run_id, position"
TRAINED = """
SELECT run_id, 1.0 * SUM(correct) / SUM(images) AS accuracy FROM step_block
WHERE phase = 'train' AND correct IS NOT NULL AND epoch IS NOT NULL AND run_id IN ({})
GROUP BY run_id, epoch ORDER BY run_id, epoch
"""
EVALUATIONS = "SELECT run_id, SUM(seconds) AS seconds FROM test WHERE run_id IN ({}) GROUP BY run_id"
EPOCHS = """
SELECT run_id, train_accuracy, test_accuracy, seconds, images FROM epoch WHERE run_id IN ({}) ORDER BY run_id, steps
"""
SINGLE = (
    *("images_per_second", "training_seconds", "images_per_processor_second", "waiting", "switches_per_second"),
    *("first_step_seconds", "evaluation_seconds", "seconds_to_target", "images_to_target"),
)
LISTS = ("memory_bytes", "idle_bytes", "started_bytes", "allocator_bytes", "utilisation")


def rows_among(store: Store, question: str, values: Sequence[str]) -> Iterator[sqlite3.Row]:
    """The answer for any number of values in place of `{}`."""
    for first in range(0, len(values), MOST_VALUES):
        some = values[first : first + MOST_VALUES]
        yield from store.query(question.format(",".join("?" * len(some))), *some)


def facts_of(store: Store, run_ids: Sequence[str], target: float | None) -> dict[str, Facts]:
    """All that was measured in each run, in the order of repeats; None or an empty list where nothing was."""
    facts = {row["id"]: _blank() | dict(row) for row in rows_among(store, RUN, run_ids)}
    for question in ONE_ROW_EACH:
        for row in rows_among(store, question, run_ids):
            facts[row["run_id"]].update(dict(row))
    for question in ONE_ROW_PER_DEVICE:
        for row in rows_among(store, question, run_ids):
            _append(facts[row["run_id"]], row)
    for row in rows_among(store, UTILISATION, run_ids):
        facts[row["run_id"]]["utilisation"].append((row["lowest"], row["median"], row["highest"]))
    _add_epochs(store, facts, target)
    return facts


def _blank() -> Facts:
    return {**dict.fromkeys(SINGLE), **{name: [] for name in LISTS}}


def _append(facts: Facts, row: sqlite3.Row) -> None:
    for name, value in dict(row).items():
        if name != "run_id" and value is not None:
            facts[name].append(value)


def _add_epochs(store: Store, facts: dict[str, Facts], target: float | None) -> None:
    """Accuracies of the last epoch, and what it took to the first that reached the target.

    Training accuracies are there also without any evaluation.
    """
    for row in rows_among(store, TRAINED, list(facts)):
        facts[row["run_id"]]["train_accuracy"] = row["accuracy"]
    evaluated = {row["run_id"]: row["seconds"] for row in rows_among(store, EVALUATIONS, list(facts))}
    rows = rows_among(store, EPOCHS, list(evaluated))
    for run_id, epochs in groupby(rows, key=lambda row: row["run_id"]):
        *_, last = passed = list(epochs)
        newest = {name: last[name] for name in ("train_accuracy", "test_accuracy") if last[name] is not None}
        there = [epoch for epoch in passed if _reached(epoch["test_accuracy"], target)]
        reached = {f"{name}_to_target": there[0][name] for name in ("seconds", "images") if there}
        facts[run_id].update({**newest, **reached})
    for run_id, seconds in evaluated.items():
        facts[run_id]["evaluation_seconds"] = seconds


def _reached(accuracy: float | None, target: float | None) -> bool:
    return accuracy is not None and target is not None and accuracy >= target
