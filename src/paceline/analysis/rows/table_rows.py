"""From stored runs to the rows of a table; every number of every report comes from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from paceline.analysis.quantities.chance_accuracy import above_chance, chance, check_target
from paceline.analysis.quantities.known import MEMORY, SECONDS_TO_TARGET, SPEED, TEST_ACCURACY, any_preallocated
from paceline.analysis.rows import resource_rows
from paceline.analysis.rows.command_rows import CommandRow, command_row
from paceline.analysis.rows.measured import measured
from paceline.analysis.rows.row import NOT_MEASURED, Row
from paceline.analysis.rows.scaling import scaled
from paceline.analysis.rows.selection import OF_PLANS, MeasuredCell, select, shown_plan
from paceline.analysis.rows.statuses import FAILED, NOISY_CELL, NOT_RUN, RunCounts, status_of
from paceline.analysis.statistics.intervals import Estimate
from paceline.catalog.networks.cost import NetworkCost
from paceline.catalog.workloads import all_workloads
from paceline.catalog.workloads.definition import Workload
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


def _row(one: MeasuredCell, known: certificates.BySubject, target: float | None) -> Row:
    workload = all_workloads().get(one.cell.workload)  # None where the plug-in with it is gone
    found = measured(one.cell, one.good, one.planned.limit.confidence)
    command = command_row(one.cell.command, one.good) if one.cell.command else None
    speed = found.get(SPEED.name, NOT_MEASURED).estimate
    status, reason = _status(one, command.real_seconds if command else speed)
    last, failed = (runs[edge] if runs else None for runs, edge in ((one.runs, -1), (one.failed, 0)))
    by_chance = None if workload is None else chance(workload)
    devices = one.cell.device_set.count
    return Row(
        cell=one.cell,
        framework_version=last.framework_version if last else None,
        machine=last.machine if last else None,
        machine_description=last.machine_description if last else None,
        quota_cores=last.quota_cores if last else None,
        cards=last.cards if last else (),
        quick=one.planned.quick,
        shares=_shares(one),
        epochs=one.cell.steps * one.cell.batch_size / workload.images_per_epoch if workload else None,
        whole_epochs=_whole_epochs(one, workload),
        status=status,
        reason=reason,
        marks=_marks(one),
        repeats=len(one.good),
        sequential=one.planned.limit.target is not None,
        measured=found,
        seconds_per_epoch=_seconds_per_epoch(workload, speed, command),
        chance=by_chance,
        above_chance=above_chance(TEST_ACCURACY.values(one.good), by_chance),
        target=target,
        runs_at_target=len(SECONDS_TO_TARGET.values(one.good)),
        utilisation=resource_rows.utilisation(one.good, devices),
        noise=resource_rows.noise(one.good),
        memory_of="device" if len(found.get(MEMORY.name, NOT_MEASURED).of_each) in (0, devices) else "all devices",
        batch_norm=workload is not None and _has_batch_norm(workload),
        parameters=_parameters(workload) if workload else None,
        verified=bool(one.runs) and all(certificates.proven(known, one.cell, run) for run in one.runs),
        runs=tuple(run.id for run in one.runs),
        failed_run=failed.id if failed else None,
        log_end=failed.log_end if failed else None,
        remarks=tuple(dict.fromkeys(remark for run in one.runs for remark in run.remarks)),
        command=command,
    )


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
        "preallocated": any_preallocated(one.good),
        "throttled": resource_rows.is_throttled(one.good),
    }
    return tuple(mark for mark, true in marks.items() if true)


def _shares(one: MeasuredCell) -> tuple[int, ...]:
    """As the last run had them: measured ones are not known before."""
    if one.cell.command:
        return ()
    recorded = one.runs[-1].shares if one.runs else ()
    return recorded or given_shares(one.cell.shares, one.cell.batch_size, one.cell.device_set)


def _whole_epochs(one: MeasuredCell, workload: Workload | None) -> int | None:
    cell = one.cell
    return workload.whole_epochs(cell.steps, cell.batch_size, cell.input) if workload else None


def _seconds_per_epoch(workload: Workload | None, speed: Estimate | None, command: CommandRow | None) -> float | None:
    if command:
        return command.readings.get("s/epoch")
    return workload.images_per_epoch / speed.median if workload and speed else None


@cache
def _has_batch_norm(workload: Workload) -> bool:
    return any(isinstance(node.op, BatchNorm) for node in workload.graph().nodes.values())


@cache
def _parameters(workload: Workload) -> int:
    return NetworkCost.of(workload.graph()).trainable
