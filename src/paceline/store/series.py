"""The course of runs, for charts: straight from the index, for thousands of runs at a time."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from paceline.store.run_results import rows_among
from paceline.store.store import Store

ENDED_WELL = "SELECT id FROM run WHERE status = 'ok' AND id IN (SELECT value FROM json_each(?)) ORDER BY id"
EVALUATED = "SELECT DISTINCT run_id AS id FROM evaluation WHERE run_id IN (SELECT value FROM json_each(?))"
STEPS = """
SELECT run_id, seconds / steps AS step_seconds FROM step_block
WHERE phase = 'train' AND run_id IN ({}) ORDER BY run_id, position
"""
BLOCKS = """
SELECT run_id, seconds, images, loss / block_images AS train_loss, 1.0 * correct / block_images AS train_accuracy,
       NULL AS test_loss, NULL AS test_accuracy
FROM progress WHERE run_id IN ({}) ORDER BY run_id, position
"""
EPOCHS = """
SELECT run_id, seconds, images, train_loss, train_accuracy, test_loss, test_accuracy
FROM epoch WHERE run_id IN ({}) ORDER BY run_id, steps
"""
# A phase that comes again and again adds up; the slowest rank sets the time.
PHASES = """
SELECT run_id, phase, MAX(seconds) AS seconds
FROM (SELECT run_id, rank, phase, SUM(seconds) AS seconds FROM phase
      WHERE seconds IS NOT NULL AND run_id IN ({}) GROUP BY run_id, rank, phase)
GROUP BY run_id, phase
"""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """How far training was at the end of a block, or of an epoch."""

    seconds: float  # of training so far; evaluation not included
    images: int  # trained so far
    train_loss: float | None  # of this block or epoch alone; None where training has diverged
    train_accuracy: float | None
    test_loss: float | None = None
    test_accuracy: float | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """By run, of those that ended well."""

    step_seconds: Mapping[str, Sequence[float]] = {}  # mean of the steps of each training block
    blocks: Mapping[str, Sequence[Moment]] = {}
    epochs: Mapping[str, Sequence[Moment]] = {}  # where the test images were looked at
    phases: Mapping[str, Mapping[str, float]] = {}  # seconds of each


def load_series(store: Store, run_ids: Iterable[str]) -> Series:
    """What these runs have left about their course; those that failed or are unknown are not in it."""
    wanted = json.dumps(list(dict.fromkeys(run_ids)))
    ids = [row["id"] for row in store.query(ENDED_WELL, wanted)]
    steps: dict[str, list[float]] = defaultdict(list)
    for row in rows_among(store, STEPS, ids):
        steps[row["run_id"]].append(row["step_seconds"])
    phases: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows_among(store, PHASES, ids):
        phases[row["run_id"]][row["phase"]] = row["seconds"]
    return Series(
        step_seconds=dict(steps),
        blocks=_moments(rows_among(store, BLOCKS, ids)),
        epochs=_moments(rows_among(store, EPOCHS, [row["id"] for row in store.query(EVALUATED, json.dumps(ids))])),
        phases=dict(phases),
    )


def _moments(rows: Iterable[sqlite3.Row]) -> dict[str, list[Moment]]:
    found: dict[str, list[Moment]] = defaultdict(list)
    for row in rows:
        run_id, *values = row
        found[run_id].append(Moment(**dict(zip(Moment.__struct_fields__, values, strict=True))))
    return dict(found)
