"""Notes on a suite's small form, and what is left out where it is too short to support more."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from paceline.analysis.quantities.known import TEST_ACCURACY, TRAIN_ACCURACY
from paceline.analysis.rows.row import Measured, Row
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
    return [replace(row, above_chance=None, measured=_untrained(row), **_without_noise(row)) for row in rows]


def _untrained(row: Row) -> dict[str, Measured]:
    accuracies = (TRAIN_ACCURACY.name, TEST_ACCURACY.name)
    return {name: found for name, found in row.measured.items() if name not in accuracies}


def _without_noise(row: Row) -> dict[str, str | None]:
    return {"status": "ok", "reason": None} if row.status == "noisy" else {}
