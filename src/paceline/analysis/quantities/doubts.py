"""Values that are no results, and why."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.analysis.quantities.chance_accuracy import guessing
from paceline.plan.cell import Cell
from paceline.store.resources import preallocated
from paceline.store.run_results import RunResult


def guesses(cell: Cell, runs: Sequence[RunResult]) -> str:
    return guessing(cell.workload, [found for run in runs if (found := run.value("test_accuracy")) is not None])


def taken_not_needed(cell: Cell, runs: Sequence[RunResult]) -> str:
    """Memory that a framework took of a GPU beforehand says nothing about what it needs."""
    return "memory was preallocated, which tells what was taken, not what is needed" if any_preallocated(runs) else ""


def any_preallocated(runs: Sequence[RunResult]) -> bool:
    """Whether a GPU of any run was taken before it was needed."""
    names = ("memory_bytes", "started_bytes", "allocator_bytes")
    return any(
        preallocated(peak, started, own)
        for memory, starts, allocators in ([run.of_each(name) for name in names] for run in runs)
        for peak, started, own in zip(memory, starts, allocators or [None] * len(memory), strict=False)
    )
