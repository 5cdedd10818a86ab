"""From the files of a plan or a run to rows of the index."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from paceline.errors import UserError
from paceline.events import Block, Evaluation, EventFile, Phase
from paceline.monitor import read_samples
from paceline.outcome import Outcome
from paceline.records import FORMAT, OUTCOME_FILE, RUN_FILE, PlanRecord, RunRecord, cell_id


def insert_plan(index: sqlite3.Connection, plan: PlanRecord) -> None:
    """All cells of a plan; nothing if it is there already, as after filling a new index."""
    if index.execute("SELECT 1 FROM plan WHERE id = ?", (plan.id,)).fetchone():
        return
    index.execute(
        "INSERT INTO plan VALUES (?, ?, ?, ?)", (plan.id, plan.suite, plan.command, plan.settings.interval_target)
    )
    rows = [
        (plan.id, position, cell_id(cell), reason)
        for position, (cell, reason) in enumerate(zip(plan.cells, plan.reasons, strict=True))
    ]
    index.executemany("INSERT INTO plan_cell VALUES (?, ?, ?, ?)", rows)
    wanted = [(plan.id, position, key) for position, keys in enumerate(plan.keys) for key in keys]
    index.executemany("INSERT INTO plan_run VALUES (?, ?, ?)", wanted)


def insert_run(index: sqlite3.Connection, folder: Path) -> None:
    """Everything about a finished run, read back from its folder; nothing if it is there already."""
    run = read_run(folder)
    if index.execute("SELECT 1 FROM run WHERE id = ?", (run.id,)).fetchone():
        return
    outcome = msgspec.json.decode((folder / OUTCOME_FILE).read_bytes(), type=Outcome)
    files = [EventFile(path) for path in sorted(folder.glob("events-*.jsonl"), key=_rank)]
    for file in files:
        file.read_on()
    index.execute(
        "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            run.id,
            run.key,
            cell_id(run.cell),
            run.repeat,
            run.machine.id,
            run.framework_version,
            run.fingerprint,
            run.started,
            outcome.seconds,
            outcome.status,
            outcome.phase,
            outcome.kind,
            outcome.message,
            outcome.log_end,
        ),
    )
    for rank, file in enumerate(files):
        _insert_blocks(index, run.id, rank, file)
        _insert_evaluations(index, run.id, rank, file)
        _insert_phases(index, run, rank, file)
    memory = _gpu_memory(folder, run) if run.cell.device_set.kind == "cuda" else _memory(files)
    rows = [(run.id, position, idle, peak) for position, (idle, peak) in enumerate(memory)]
    index.executemany("INSERT INTO memory VALUES (?, ?, ?, ?)", rows)


def read_run(folder: Path) -> RunRecord:
    record = msgspec.json.decode((folder / RUN_FILE).read_bytes(), type=RunRecord)
    if record.format != FORMAT:
        raise UserError(
            f"{folder} has format {record.format}, this Paceline reads {FORMAT}: use the version that wrote it."
        )
    return record


def _rank(path: Path) -> int:
    return int(path.stem.split("-")[1])


def _insert_blocks(index: sqlite3.Connection, run_id: str, rank: int, file: EventFile) -> None:
    blocks = [event for event in file.events if isinstance(event, Block)]
    rows = [
        (
            run_id,
            rank,
            position,
            block.phase,
            block.steps,
            block.images,
            block.seconds,
            block.processor_seconds,
            block.waited_seconds,
            _summed_loss(block),
            sum(block.correct) if block.correct else None,
        )
        for position, block in enumerate(blocks)
    ]
    index.executemany("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _summed_loss(block: Block) -> float | None:
    """Over the images: each step's loss is their mean."""
    finite = [loss for loss in block.losses if loss is not None]
    return sum(finite) * block.images / block.steps if len(finite) == block.steps else None


def _insert_evaluations(index: sqlite3.Connection, run_id: str, rank: int, file: EventFile) -> None:
    found = [event for event in file.events if isinstance(event, Evaluation)]
    rows = [(run_id, rank, each.steps, each.images, each.loss, each.correct, each.seconds) for each in found]
    index.executemany("INSERT INTO evaluation VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def _insert_phases(index: sqlite3.Connection, run: RunRecord, rank: int, file: EventFile) -> None:
    """The first phase began when the run was started, not when the worker could first say so."""
    entered = [event for event in file.events if isinstance(event, Phase)]
    starts = [run.started, *(event.time for event in entered[1:])]
    ends: list[float | None] = [*starts[1:], None]
    rows = [
        (run.id, rank, event.phase, start, None if end is None else end - start)
        for event, start, end in zip(entered, starts, ends, strict=False)
    ]
    index.executemany("INSERT INTO phase VALUES (?, ?, ?, ?, ?)", rows)


def _memory(files: list[EventFile]) -> list[tuple[int, int]]:
    """Idle and peak of each process, as the kernel counted them."""
    found = []
    for file in files:
        phases = [event for event in file.events if isinstance(event, Phase)]
        idle = [event.idle_memory_bytes for event in phases if event.idle_memory_bytes is not None]
        peaks = [event.peak_memory_bytes for event in phases if event.peak_memory_bytes is not None]  # of each epoch
        if idle and peaks:
            found.append((idle[0], max(peaks)))
    return found


def _gpu_memory(folder: Path, run: RunRecord) -> list[tuple[int, int]]:
    """Idle (before anything was started) and peak of each GPU, as the driver counted them at each sample."""
    samples = [sample["gpus"] for sample in read_samples(folder)]
    return [
        (int(samples[0][gpu]["memory_bytes"]), int(max(sample[gpu]["memory_bytes"] for sample in samples)))
        for gpu in run.cell.device_set.indices
    ]
