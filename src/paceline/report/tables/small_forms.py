"""Notes on a suite's small form, and what is left out where it is too short to support more."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from paceline.analysis.rows.row import Row
from paceline.plan.repeats_warning import FEW_REPEATS


def only_runs(rows: Sequence[Row]) -> bool:
    """Whether these cells ran too seldom to show more than that they run, as their small form has it."""
    return all(row.quick for row in rows) and max((row.repeats for row in rows), default=0) in FEW_REPEATS


def small_form_note(rows: Sequence[Row]) -> str:
    if not only_runs(rows):
        return "scaled down for a small machine (--quick): not the sizes that were published"
    most = max(row.repeats for row in rows)
    runs = "one run" if most == 1 else f"{most} runs"
    return f"scaled down (--quick), {runs} of each cell: this shows that the cells run, not how they compare"


def without_doubts(rows: list[Row]) -> list[Row]:
    """Without what would be true of any cell that ran so short and so seldom."""
    if not only_runs(rows):
        return rows
    trained = {"above_chance": None, "train_accuracy": None, "test_accuracy": None}
    noise = {"status": "ok", "reason": None}
    return [replace(row, **trained, **(noise if row.status == "noisy" else {})) for row in rows]
