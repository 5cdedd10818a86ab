"""A recorded run and its replay side by side: numbers, losses, and what else is not the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from paceline.analysis.comparison.compare import compare_quantity
from paceline.analysis.comparison.differences import RunPair, differences
from paceline.analysis.quantities.known import SECONDS, all_quantities
from paceline.analysis.statistics.intervals import Estimate
from paceline.plan.cell_names import cell_name
from paceline.store.index.rows import read_run
from paceline.store.index.setups import setup_of
from paceline.store.records.events import Block, event_files
from paceline.store.records.runs import RUN_FOLDER, RunRecord
from paceline.store.run_results import RunResult, run_results
from paceline.store.store import Store, naming

ROUNDING = 1e-4  # of a loss; more of it cannot come about in the first step that differs
BEYOND_ROUNDING = "more than rounding explains, so that it is not the same training"
SINGLE_RUNS = "a single run each"
Losses = dict[int, list[float | None]]  # of each rank, step by step


class ReplayLine(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity of both."""

    name: str
    old: tuple[float, ...]  # of each run that ended well
    new: tuple[float, ...]
    ratio: Estimate | None  # new divided by old
    difference: Estimate | None = None  # new less old, of what is compared so
    verdict: str  # better, worse, cannot tell
    reason: str = ""  # why nothing can be told


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON form."""

    cell: str
    old_runs: tuple[str, ...]  # the one that was replayed first
    new_runs: tuple[str, ...]
    old_failures: tuple[str, ...]
    new_failures: tuple[str, ...]
    lines: tuple[ReplayLine, ...]
    losses: str  # whether they are equal, or why nothing can be said
    losses_equal: bool | None
    differences: tuple[str, ...]  # versions, machine, code


def compare_runs(store: Store, old_ids: Sequence[str], new_ids: Sequence[str]) -> Replay:
    """The first of each are the same job; the others are further repeats of it."""
    old, new = _measured(store, old_ids), _measured(store, new_ids)
    folders = [store.folder / RUN_FOLDER / ids[0] for ids in (old_ids, new_ids)]
    records = [_record(folder) for folder in folders]
    before_and_after = [[setup_of(record, folder)] for record, folder in zip(records, folders, strict=True)]
    changed = tuple(differences([RunPair("", *before_and_after)]))
    before, after = map(losses, folders)
    equal, loss_text = compare_losses(before, after, rounding(records[0], changed))
    return Replay(
        cell=cell_name(records[0].cell),
        old_runs=tuple(old_ids),
        new_runs=tuple(new_ids),
        old_failures=tuple(_failures(old)),
        new_failures=tuple(_failures(new)),
        lines=tuple(_lines(records[0], old, new)),
        losses=loss_text,
        losses_equal=equal,
        differences=changed,
    )


def _record(folder: Path) -> RunRecord:
    with naming(folder):
        return read_run(folder)


def _measured(store: Store, ids: Sequence[str]) -> list[RunResult]:
    return sorted(run_results(store, ids).values(), key=lambda run: ids.index(run.id))


def _failures(runs: Sequence[RunResult]) -> list[str]:
    return [f"{run.id} failed: {run.cause}" for run in runs if run.status == "failed"]


def _lines(record: RunRecord, old: Sequence[RunResult], new: Sequence[RunResult]) -> Iterator[ReplayLine]:
    """Of all that either has; of a training images/s say what seconds would."""
    before, after = ([run for run in runs if run.status == "ok"] for runs in (old, new))
    for quantity in all_quantities():
        if not quantity.replayed or (quantity is SECONDS and not record.cell.command):
            continue
        found = compare_quantity(record.cell, quantity, before, after)
        if not (found.old or found.new):
            continue
        single = len(found.old) == len(found.new) == 1 and (found.ratio or found.difference)
        yield ReplayLine(
            name=quantity.replayed,
            old=tuple(value / quantity.per_unit for value in found.old),
            new=tuple(value / quantity.per_unit for value in found.new),
            ratio=found.ratio,
            difference=found.difference,
            verdict=found.verdict,
            reason=SINGLE_RUNS if single else found.reason,
        )


def losses(folder: Path) -> Losses:
    """Of training, of every rank that has told any."""
    ranks: Losses = {}
    for rank, file in event_files(folder).items():
        blocks = [event for event in file.events if isinstance(event, Block) and event.phase == "train"]
        ranks[rank] = [loss for block in blocks for loss in block.losses]
    return {rank: losses_of_rank for rank, losses_of_rank in ranks.items() if losses_of_rank}


def compare_losses(old: Losses, new: Losses, may_differ: str) -> tuple[bool | None, str]:
    """Bit by bit; None where there is nothing to compare. `may_differ` says why rounding may differ, if it may."""
    if not old or not new:
        return None, ""
    if old == new:
        return True, f"the losses of all {len(next(iter(old.values())))} steps are equal, bit by bit"
    for rank in sorted(old.keys() & new.keys()):
        for step, (before, after) in enumerate(zip(old[rank], new[rank], strict=False), 1):
            if before != after:
                meaning = may_differ if _close(before, after) else BEYOND_ROUNDING
                return False, f"the losses differ from step {step} on, {_loss(before)} → {_loss(after)}: {meaning}"
    return False, "the losses are equal as far as both go, but one has more of them than the other"


def _close(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and math.isclose(before, after, rel_tol=ROUNDING)


def _loss(value: float | None) -> str:
    return "none" if value is None else repr(value)


def rounding(record: RunRecord, changed: Sequence[str]) -> str:
    """What a small difference means: every framework repeats itself on one device with one core, if nothing is new."""
    if record.cell.device_set.kind != "cpu" or record.cell.device_set.count > 1 or len(record.cell.cores[0]) > 1:
        return "rounding, since several cores or devices, or a GPU, add up in no fixed order"
    if changed:
        return "rounding, which what differs below may change"
    return "they should be equal: one device with one core, and nothing else is known to differ"
