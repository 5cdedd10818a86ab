"""From stored runs to the rows of a table; every number of every report comes from here."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from paceline.analysis.rows import resource_rows
from paceline.analysis.rows.chance_accuracy import above_chance, chance, check_target
from paceline.analysis.rows.command_rows import CommandRow, command_row
from paceline.analysis.rows.row import Row
from paceline.analysis.rows.scaling import scaled
from paceline.analysis.rows.selection import OF_PLANS, MeasuredCell, select, shown_plan
from paceline.analysis.rows.statuses import FAILED, NOISY_CELL, NOT_RUN, RunCounts, status_of
from paceline.analysis.statistics.intervals import PARTS, Estimate, estimate
from paceline.catalog.networks.cost import NetworkCost
from paceline.catalog.workloads import all_workloads
from paceline.catalog.workloads.definition import Workload
from paceline.plan.cell import Cell
from paceline.plan.shares import given_shares
from paceline.store import certificates
from paceline.store.newer_records import warn_of_left_out
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.text.safe_text import quoted
from paceline.system.text.synonyms import filter_meant
from paceline_worker.graph import BatchNorm


def table_rows(
    store: Store, filters: Mapping[str, str | None], target: float | None = None, *, everything: bool = False
) -> list[Row]:
    """The rows of the newest plan; or of all plans, the newest first, where everything or certain cells are wanted."""
    measured = select(store, filters, target, everything=everything)
    if target is not None:
        _check_target(measured, target)
    known = certificates.by_subject(store.folder)
    return scaled([_row(one, known, target) for one in measured])


def _check_target(measured: Iterable[MeasuredCell], target: float) -> None:
    """Against the workloads that are evaluated."""
    for name in dict.fromkeys(one.cell.workload for one in measured if one.cell.evaluate != "never"):
        if workload := all_workloads().get(name):
            check_target(target, workload)


def chosen_rows(
    folder: Path, filters: Mapping[str, str | None], target: float | None = None, *, everything: bool = False
) -> list[Row]:
    """The rows for a user who must be told if there are none."""
    if not folder.exists():
        raise UserError(f"There are no results at {folder}; `paceline run cifar10-conv` makes some.")
    store = Store(folder)
    rows = table_rows(store, filters, target, everything=everything)
    warn_of_left_out(store.query)
    if not rows:
        chosen = " ".join(_flag(key, value) for key, value in filters.items() if value)
        raise UserError(f"No results match {chosen or folder}; `paceline show` without filters prints the last run.")
    return rows


def _flag(key: str, value: str) -> str:
    """As it was given, with what that is called here."""
    meant = filter_meant(key, value)
    return f"--{key} {quoted(value)}" + (f" (here that is {meant})" if meant else "")


def layout_of(store: Store, filters: Mapping[str, str | None]) -> str:
    """The shape that a plan, or the newest one, wants for its table; a choice of cells has none."""
    if any(value for key, value in filters.items() if key not in OF_PLANS):
        return "rows"
    return next((plan["layout"] for plan in shown_plan(store, filters)), "rows")


Fields = dict[str, Any]  # some of a row


def _row(one: MeasuredCell, known: certificates.BySubject, target: float | None) -> Row:
    workload = all_workloads().get(one.cell.workload)
    speed = estimate(one.values("images_per_second"), confidence=one.planned.limit.confidence)
    command = command_row(one.cell.command, one.good) if one.cell.command else None
    status, reason = _status(one, command.real_seconds if command else speed)
    return Row(
        **_settings(one),
        **_origin(one, known),
        **_network(one.cell, workload),
        status=status,
        reason=reason,
        images_per_second=speed,
        seconds_per_epoch=_seconds_per_epoch(workload, speed, command),
        command=command,
        **_times(one),
        **_accuracies(one, target),
        **_against_chance(one, workload),
        **_resources(one),
    )


def _settings(one: MeasuredCell) -> Fields:
    """What was to be measured."""
    return {
        "cell": one.cell,
        "quick": one.planned.quick,
        "shares": _shares(one),
        "marks": _marks(one),
        "sequential": one.planned.limit.target is not None,
    }


def _origin(one: MeasuredCell, known: certificates.BySubject) -> Fields:
    """Which runs there are, and on what they ran."""
    last = one.runs[-1] if one.runs else None
    failed = one.failed[0] if one.failed else None
    return {
        "framework_version": last and last.framework_version,
        "machine": last and last.machine,
        "machine_description": last and last.machine_description,
        "quota_cores": last and last.quota_cores,
        "cards": last.cards if last else (),
        "verified": bool(one.runs) and all(certificates.proven(known, one.cell, run) for run in one.runs),
        "repeats": len(one.good),
        "runs": tuple(run.id for run in one.runs),
        "failed_run": failed and failed.id,
        "log_end": failed and failed.log_end,
        "remarks": tuple(dict.fromkeys(remark for run in one.runs for remark in run.remarks)),
    }


def _network(cell: Cell, workload: Workload | None) -> Fields:
    """Nothing is known of a workload whose plug-in is gone."""
    if workload is None:
        return {"epochs": None, "batch_norm": False, "parameters": None}
    return {
        "epochs": cell.steps * cell.batch_size / workload.images_per_epoch,
        "whole_epochs": workload.whole_epochs(cell.steps, cell.batch_size, cell.input),
        "batch_norm": _has_batch_norm(workload),
        "parameters": _parameters(workload),
    }


def _times(one: MeasuredCell) -> Fields:
    return {
        "images_per_second_of_runs": tuple(one.values("images_per_second")),
        "images_per_processor_second": _median(one.values("images_per_processor_second")),
        "seconds": _median(one.values("training_seconds")),
        "first_step_seconds": _median(one.values("first_step_seconds")),
        "waiting": _median(one.values("waiting")) if one.cell.input else None,
    }


def _accuracies(one: MeasuredCell, target: float | None) -> Fields:
    return {
        "train_accuracy": estimate(one.values("train_accuracy"), PARTS, one.planned.limit.confidence),
        "test_accuracy": estimate(one.values("test_accuracy"), PARTS, one.planned.limit.confidence),
        "test_accuracy_of_runs": tuple(one.values("test_accuracy")),
        "evaluation_seconds": _median(one.values("evaluation_seconds")),
        "target": target,
        "runs_at_target": len(one.values("seconds_to_target")),
        "seconds_to_target": _until_target(one, "seconds_to_target"),
        "images_to_target": _until_target(one, "images_to_target"),
    }


def _against_chance(one: MeasuredCell, workload: Workload | None) -> Fields:
    if workload is None:
        return {}
    by_chance = chance(workload)
    return {"chance": by_chance, "above_chance": above_chance(one.values("test_accuracy"), by_chance)}


def _resources(one: MeasuredCell) -> Fields:
    count, memory = one.cell.device_set.count, resource_rows.mebibytes(one.good, "memory_bytes")
    return {
        "peak_memory_mib": memory,
        "idle_memory_mib": resource_rows.mebibytes(one.good, "idle_bytes"),
        "started_memory_mib": resource_rows.mebibytes(one.good, "started_bytes"),
        "allocator_memory_mib": resource_rows.mebibytes(one.good, "allocator_bytes"),
        "memory_mib_of_runs": resource_rows.totals(one.good, "memory_bytes"),
        "memory_of": "device" if len(memory) in (0, count) else "all devices",
        "utilisation": resource_rows.utilisation(one.good, count),
        "noise": resource_rows.noise(one.good),
    }


def _status(one: MeasuredCell, judged: Estimate | None) -> tuple[str, str | None]:
    planned, runs = one.planned, RunCounts(one.planned.wanted, len(one.runs), len(one.failed))
    status = status_of(runs, judged, planned.limit, skipped=bool(planned.skip_reason))
    return status, _reason(one, status, judged)


def _reason(one: MeasuredCell, status: str, judged: Estimate | None) -> str | None:
    planned = one.planned
    if status == FAILED:
        first = one.failed[0]
        which = "" if len(one.failed) == planned.wanted else f"{len(one.failed)} of {planned.wanted} runs: "
        return f"{which}{first.cause}"
    if status == NOT_RUN:
        goes_on = "starts over" if planned.starts_over else "goes on"
        more = "" if one.cell.command else f"; the same command {goes_on}"
        return f"{len(one.runs)} of {planned.wanted} runs are done{more}"
    if status == NOISY_CELL and judged:
        if planned.limit.needs_more(len(one.good)):
            return resource_rows.too_few(judged, planned.limit.widest, len(one.good))
        return resource_rows.unrest(judged, planned.limit.widest, one.good)
    return planned.skip_reason


def _marks(one: MeasuredCell) -> tuple[str, ...]:
    marks = {
        "oversubscribed": one.cell.oversubscribed,
        "simulated": one.cell.slow,
        "preallocated": resource_rows.any_preallocated(one.good),
        "throttled": resource_rows.is_throttled(one.good),
    }
    return tuple(mark for mark, true in marks.items() if true)


def _shares(one: MeasuredCell) -> tuple[int, ...]:
    """As the last run had them: measured ones are not known before."""
    if one.cell.command:
        return ()
    recorded = one.runs[-1].shares if one.runs else ()
    return recorded or given_shares(one.cell.shares, one.cell.batch_size, one.cell.device_set)


def _seconds_per_epoch(workload: Workload | None, speed: Estimate | None, command: CommandRow | None) -> float | None:
    if command:
        return command.readings.get("s/epoch")
    return workload.images_per_epoch / speed.median if workload and speed else None


def _until_target(one: MeasuredCell, name: str) -> float | None:
    """Median over the runs, of which some may never have got there."""
    values = [math.inf if (value := run.value(name)) is None else value for run in one.good]
    middle = statistics.median(values) if values else math.inf
    return middle if math.isfinite(middle) else None


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


@cache
def _has_batch_norm(workload: Workload) -> bool:
    return any(isinstance(node.op, BatchNorm) for node in workload.graph().nodes.values())


@cache
def _parameters(workload: Workload) -> int:
    return NetworkCost.of(workload.graph()).trainable
