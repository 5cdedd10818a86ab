"""From stored runs to the rows of a table; every number of every report comes from here."""

from __future__ import annotations

import json
import math
import sqlite3
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import msgspec

from paceline import certificates, resource_rows
from paceline.cell import Cell
from paceline.cost import Cost
from paceline.resources import Noise, Range
from paceline.shares import told_shares
from paceline.stats import NOISY, Estimate, estimate, ratio
from paceline.store import Store
from paceline.timing.rows import CommandRow, command_row
from paceline.workloads import all_workloads
from paceline.workloads.definition import Workload
from paceline_worker.graph import BatchNorm

# The newest run of each key that a plan wants, with what it measured.
RUNS = """
SELECT plan_run.position, run.*, machine.description AS machine_description,
       training.images_per_second, training.seconds AS training_seconds,
       training.images_per_processor_second, training.waiting, first_step.seconds AS first_step_seconds,
       COALESCE(last.train_accuracy, told_train.value) AS train_accuracy,
       COALESCE(last.test_accuracy, told_test.value) AS test_accuracy,
       (SELECT SUM(test.seconds) FROM test WHERE test.run_id = run.id) AS evaluation_seconds,
       (SELECT MIN(seconds) FROM epoch WHERE epoch.run_id = run.id AND test_accuracy >= :target) AS seconds_to_target,
       (SELECT MIN(images) FROM epoch WHERE epoch.run_id = run.id AND test_accuracy >= :target) AS images_to_target,
       (SELECT json_group_array(peak_bytes - idle_bytes) FROM memory WHERE memory.run_id = run.id) AS memory_bytes,
       (SELECT json_group_array(idle_bytes) FROM memory WHERE memory.run_id = run.id) AS idle_bytes,
       (SELECT json_group_array(started_bytes - idle_bytes) FROM memory
        WHERE memory.run_id = run.id AND started_bytes IS NOT NULL) AS started_bytes,
       (SELECT json_group_array(peak_bytes) FROM allocator WHERE allocator.run_id = run.id) AS allocator_bytes,
       (SELECT json_group_array(json_array(lowest, median, highest)) FROM utilisation
        WHERE utilisation.run_id = run.id) AS utilisation,
       noise.load, noise.other, noise.stolen, noise.lowest_mhz, noise.highest_mhz, training.switches_per_second,
       command.user_seconds, command.system_seconds, command.times_sampled, command.largest_process_bytes,
       command.left_behind,
       (SELECT json_group_object(name, value) FROM reading WHERE reading.run_id = run.id) AS readings
FROM plan_run
JOIN run ON run.key = plan_run.key AND run.id = (SELECT MAX(id) FROM run AS newer WHERE newer.key = plan_run.key)
LEFT JOIN training ON training.run_id = run.id
LEFT JOIN first_step ON first_step.run_id = run.id
LEFT JOIN machine ON machine.id = run.machine
LEFT JOIN noise ON noise.run_id = run.id
LEFT JOIN command ON command.run_id = run.id
LEFT JOIN reading AS told_train ON told_train.run_id = run.id AND told_train.name = 'training accuracy'
LEFT JOIN reading AS told_test ON told_test.run_id = run.id AND told_test.name = 'accuracy'
LEFT JOIN epoch AS last ON last.run_id = run.id
     AND last.steps = (SELECT MAX(steps) FROM evaluation WHERE evaluation.run_id = run.id)
WHERE plan_run.plan_id = :plan
ORDER BY run.repeat
"""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One cell with all that was measured. Its fields are the columns of the JSON and CSV forms."""

    workload: str
    framework: str
    framework_version: str | None
    machine: str | None  # its id
    machine_description: str | None
    quick: bool  # scaled down for a small machine
    devices: str
    device_count: int
    update: str
    parameter_device: str  # where a parameter server keeps its copy; empty where there is none
    data: str
    input: str  # what is done to real images
    precision: str
    batch_size: int
    shares: tuple[int, ...]  # of the batch, on each device
    slow: tuple[float, ...]  # how much longer each device was made to take; empty if none was
    wrapped: bool  # one device in what several devices need
    learning_rate: float
    steps: int
    warmup: int
    evaluate: str  # when, on all test images
    epochs: float | None  # the steps as passes over the data set
    seed: int  # of the first run; each further one has the next
    cores_per_device: int
    status: str  # ok, noisy, failed, skipped, not run
    reason: str | None  # why it failed or was skipped, or which runs of it failed
    marks: tuple[str, ...]  # such as oversubscribed
    repeats: int  # runs that ended well
    images_per_second: Estimate | None
    images_per_processor_second: float | None
    seconds: float | None  # of training, start-up and evaluation not included; of a command all of it
    seconds_per_epoch: float | None
    first_step_seconds: float | None
    waiting: float | None  # part of the training time in which images were not ready
    train_accuracy: Estimate | None  # of the last epoch, while it was trained
    test_accuracy: Estimate | None  # after the last epoch
    evaluation_seconds: float | None  # all evaluations together, not part of `seconds`
    target: float | None  # the test accuracy that was asked for
    runs_at_target: int  # how many runs reached it
    seconds_to_target: float | None  # of training; None if less than half of the runs reached it
    images_to_target: float | None
    peak_memory_mib: tuple[float, ...]  # peak minus idle
    idle_memory_mib: tuple[float, ...]  # of a process when its framework has started; of a GPU before
    started_memory_mib: tuple[float, ...]  # minus idle, of each GPU before anything is built
    allocator_memory_mib: tuple[float, ...]  # peak by the framework's own count; empty if unknown
    utilisation: tuple[Range, ...]  # part of its time in training that each device was busy: lowest, median, highest
    noise: Noise  # what else happened on its cores, medians of the runs
    memory_of: str  # what each of them belongs to: "device", or "all devices" where one process serves them all
    scaling_kind: str  # weak: the batch grows with the devices; strong: it stays
    scaling: float | None  # images/s against one device
    scaling_interval: tuple[float, float] | None
    efficiency: float | None  # scaling divided by devices
    wrapped_efficiency: float | None  # likewise against one device in the same wrapper
    batch_norm: bool  # the network normalises over the images of each device
    parameters: int | None  # trainable; unknown where the plug-in with the workload is gone
    verified: bool  # `paceline verify` found its network equal to the reference, with these versions on this machine
    runs: tuple[str, ...]  # their ids
    failed_run: str | None  # the one that `reason` speaks of
    log_end: str | None  # and the last lines it printed
    command: CommandRow | None = None  # what `paceline time` measured in place of a workload
    images_per_second_of_runs: tuple[float, ...] = ()  # of those that ended well, one by one
    memory_mib_of_runs: tuple[float, ...] = ()  # peak minus idle, all devices together
    test_accuracy_of_runs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Measured:
    """A cell of a plan with its newest runs."""

    cell: Cell
    skip_reason: str | None
    wanted: int
    quick: bool  # its plan is scaled down for a small machine
    widest: float  # an interval that is a larger part of its median makes the cell noisy
    runs: list[sqlite3.Row]

    @property
    def good(self) -> list[sqlite3.Row]:
        return [run for run in self.runs if run["status"] == "ok"]

    @property
    def failed(self) -> list[sqlite3.Row]:
        return [run for run in self.runs if run["status"] == "failed"]

    def values(self, column: str) -> list[float]:
        return [run[column] for run in self.good if run[column] is not None]


def table_rows(store: Store, filters: Mapping[str, str | None], target: float | None = None) -> list[Row]:
    """The rows of the newest plan, or of all plans for the cells that the filters choose."""
    measured = _select(store, {key: value for key, value in filters.items() if value}, target)
    proofs = certificates.load(store.folder)
    proven = {(v.workload, v.framework, v.fingerprint, v.machine) for v in proofs if v.equal}
    return [_row(one, measured, proven, target) for one in measured]


def layout_of(store: Store, filters: Mapping[str, str | None]) -> str:
    """The shape that the newest plan, or the newest of a suite, wants for its table; a choice of cells has none."""
    if any(value for key, value in filters.items() if key != "suite"):
        return "rows"
    suite = filters.get("suite")
    plans = store.query("SELECT layout FROM plan WHERE suite = ? OR ? IS NULL ORDER BY id DESC LIMIT 1", suite, suite)
    return plans[0]["layout"] if plans else "rows"


def _select(store: Store, filters: Mapping[str, str], target: float | None) -> list[Measured]:
    suite = filters.get("suite")
    plans = store.query("SELECT id FROM plan WHERE suite = ? OR ? IS NULL ORDER BY id DESC", suite, suite)
    others = {key: value.split(",") for key, value in filters.items() if key != "suite"}
    if not others:
        return _cells(store, plans[0]["id"], target) if plans else []
    newest: dict[Cell, Measured] = {}
    for plan in plans:
        for one in _cells(store, plan["id"], target):
            newest.setdefault(one.cell, one)
    return [one for one in newest.values() if all(getattr(one.cell, key) in values for key, values in others.items())]


def _cells(store: Store, plan_id: str, target: float | None) -> list[Measured]:
    cells = store.query("SELECT * FROM plan_cell WHERE plan_id = ? ORDER BY position", plan_id)
    wanted = store.query("SELECT position, COUNT(*) AS runs FROM plan_run WHERE plan_id = ? GROUP BY position", plan_id)
    counts = {row["position"]: row["runs"] for row in wanted}
    runs = store.query(RUNS, plan=plan_id, target=target)
    plan = store.query("SELECT * FROM plan WHERE id = ?", plan_id)[0]
    return [
        Measured(
            cell=msgspec.json.decode(row["cell"], type=Cell),
            skip_reason=row["reason"],
            wanted=counts.get(row["position"], 0),
            quick=bool(plan["quick"]),
            widest=plan["interval_target"] or NOISY,
            runs=[run for run in runs if run["position"] == row["position"]],
        )
        for row in cells
    ]


def _row(one: Measured, among: list[Measured], proven: set[tuple[str, str, str, str]], target: float | None) -> Row:
    cell, workload = one.cell, all_workloads().get(one.cell.workload)
    speed = estimate(one.values("images_per_second"))
    scaling, wrapped = _scaling(one, among, wrapped=False), _scaling(one, among, wrapped=True)
    command = command_row(cell.command, one.good) if cell.command else None
    status, reason = _status(one, command.real_seconds if command else speed)
    count, memory = cell.device_set.count, resource_rows.mebibytes(one.good, "memory_bytes")
    return Row(
        workload=cell.workload,
        framework=cell.framework,
        framework_version=one.runs[-1]["framework_version"] if one.runs else None,
        machine=one.runs[-1]["machine"] if one.runs else None,
        machine_description=one.runs[-1]["machine_description"] if one.runs else None,
        quick=one.quick,
        devices=cell.devices,
        device_count=count,
        update=cell.update,
        parameter_device=cell.parameter_device,
        data=cell.data,
        input=cell.input,
        precision=cell.precision,
        batch_size=cell.batch_size,
        shares=_shares(one),
        slow=cell.slow,
        wrapped=cell.wrapped,
        learning_rate=cell.learning_rate,
        steps=cell.steps,
        warmup=cell.warmup,
        evaluate=cell.evaluate,
        epochs=cell.steps * cell.batch_size / workload.images_per_epoch if workload else None,
        seed=cell.seed,
        cores_per_device=len(cell.cores[0]),
        status=status,
        reason=reason,
        marks=(*_marks(cell), *(("preallocated",) if resource_rows.any_preallocated(one.good) else ())),
        repeats=len(one.good),
        images_per_second=speed,
        images_per_processor_second=_median(one.values("images_per_processor_second")),
        seconds=_median(one.values("training_seconds")),
        seconds_per_epoch=_seconds_per_epoch(workload, speed, command),
        first_step_seconds=_median(one.values("first_step_seconds")),
        waiting=_median(one.values("waiting")) if cell.input else None,
        train_accuracy=estimate(one.values("train_accuracy")),
        test_accuracy=estimate(one.values("test_accuracy")),
        evaluation_seconds=_median(one.values("evaluation_seconds")),
        target=target,
        runs_at_target=len(one.values("seconds_to_target")),
        seconds_to_target=_until_target(one, "seconds_to_target"),
        images_to_target=_until_target(one, "images_to_target"),
        peak_memory_mib=memory,
        idle_memory_mib=resource_rows.mebibytes(one.good, "idle_bytes"),
        started_memory_mib=resource_rows.mebibytes(one.good, "started_bytes"),
        allocator_memory_mib=resource_rows.mebibytes(one.good, "allocator_bytes"),
        utilisation=resource_rows.utilisation(one.good, count),
        noise=resource_rows.noise(one.good),
        memory_of="device" if len(memory) in (0, count) else "all devices",
        scaling_kind=cell.scaling,
        scaling=scaling.median if scaling else None,
        scaling_interval=(scaling.low, scaling.high) if scaling and scaling.low and scaling.high else None,
        efficiency=scaling.median / count if scaling else None,
        wrapped_efficiency=wrapped.median / count if wrapped else None,
        batch_norm=_has_batch_norm(workload) if workload else False,
        parameters=_parameters(workload) if workload else None,
        verified=bool(one.runs) and {proof_of(cell, run) for run in one.runs} <= proven,
        runs=tuple(run["id"] for run in one.runs),
        failed_run=one.failed[0]["id"] if one.failed else None,
        log_end=one.failed[0]["log_end"] if one.failed else None,
        command=command,
        images_per_second_of_runs=tuple(one.values("images_per_second")),
        memory_mib_of_runs=resource_rows.totals(one.good, "memory_bytes"),
        test_accuracy_of_runs=tuple(one.values("test_accuracy")),
    )


def proof_of(cell: Cell, run: sqlite3.Row) -> tuple[str, str, str, str]:
    return cell.workload, cell.framework, run["fingerprint"], run["machine"]


def _status(one: Measured, speed: Estimate | None) -> tuple[str, str | None]:
    if one.skip_reason:
        return "skipped", one.skip_reason
    failed = one.failed
    if failed:
        first = failed[0]
        which = "" if len(failed) == one.wanted else f"{len(failed)} of {one.wanted} runs: "
        return "failed", f"{which}{first['kind']} in {first['phase']}: {first['message']}"
    if len(one.runs) < one.wanted:
        more = "" if one.cell.command else "; the same command goes on"
        return "not run", f"{len(one.runs)} of {one.wanted} runs are done{more}"
    if speed and speed.wider_than(one.widest):
        return "noisy", resource_rows.unrest(speed, one.widest, resource_rows.noise(one.good))
    return "ok", None


def _marks(cell: Cell) -> tuple[str, ...]:
    marks = {"oversubscribed": cell.oversubscribed, "simulated": cell.slow}
    return tuple(mark for mark, true in marks.items() if true)


def _shares(one: Measured) -> tuple[int, ...]:
    """As the last run had them: measured ones are not known before."""
    if one.cell.command:
        return ()
    recorded = tuple(json.loads(one.runs[-1]["shares"])) if one.runs else ()
    return recorded or told_shares(one.cell.shares, one.cell.batch_size, one.cell.device_set)


def _scaling(one: Measured, among: list[Measured], *, wrapped: bool) -> Estimate | None:
    """Images/s against the same training on one device, plain or wrapped; of commands nobody knows what they train."""
    if one.cell.command:
        return None
    if one.cell.device_set.count == 1 and one.cell.wrapped == wrapped:
        return Estimate(1.0) if one.good else None
    base = next((other for other in among if other.cell.wrapped == wrapped and _is_base(other.cell, one.cell)), None)
    if base is None:
        return None
    return ratio(one.values("images_per_second"), base.values("images_per_second"))


def _is_base(base: Cell, cell: Cell) -> bool:
    same = (
        *("workload", "framework", "update", "parameter_device", "data", "input"),
        *("precision", "scaling", "warmup", "seed"),
    )
    kinds = base.device_set.kind == cell.device_set.kind and len(base.cores[0]) == len(cell.cores[0])
    batch = base.batch_size * (cell.device_set.count if cell.scaling == "weak" else 1) == cell.batch_size
    return (
        base.device_set.count == 1
        and not base.slow
        and set(base.device_set.indices) <= set(cell.device_set.indices)  # one of these cards, not of any others
        and kinds
        and batch
        and all(getattr(base, name) == getattr(cell, name) for name in same)
    )


def _seconds_per_epoch(workload: Workload | None, speed: Estimate | None, command: CommandRow | None) -> float | None:
    if command:
        return command.readings.get("s/epoch")
    return workload.images_per_epoch / speed.median if workload and speed else None


def _until_target(one: Measured, column: str) -> float | None:
    """Median over the runs, of which some may never have got there."""
    values = [math.inf if run[column] is None else float(run[column]) for run in one.good]
    middle = statistics.median(values) if values else math.inf
    return middle if math.isfinite(middle) else None


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


@cache
def _has_batch_norm(workload: Workload) -> bool:
    return any(isinstance(node.op, BatchNorm) for node in workload.graph().nodes.values())


@cache
def _parameters(workload: Workload) -> int:
    return Cost.of(workload.graph()).trainable
