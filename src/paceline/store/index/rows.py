"""From the files of a plan or a run to rows of the index."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from paceline.plan.devices import cards_of
from paceline.store import resources
from paceline.store.index.command_usage import insert_usage
from paceline.store.index.setups import setup_of
from paceline.store.index.values import insert_values, of_memory, of_noise, of_training, of_utilisation
from paceline.store.records.events import Block, Evaluation, EventFile, Phase, event_files
from paceline.store.records.outcome import INTERNAL_ERROR, Outcome
from paceline.store.records.runs import OUTCOME_FILE, RUN_FILE, PlanRecord, RunRecord, cell_id
from paceline.store.records.samples import Sample, read_samples
from paceline.system.files.regular_files import read_plain
from paceline.system.format_versions import RUN_RECORD, decode_versioned

Files = Mapping[int, EventFile]  # by rank


def insert_plan(index: sqlite3.Connection, plan: PlanRecord) -> None:
    """All cells of a plan; nothing if it is there already, as after filling a new index."""
    if index.execute("SELECT 1 FROM plan WHERE id = ?", (plan.id,)).fetchone():
        return
    index.execute(
        "INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            plan.id,
            plan.suite,
            plan.command,
            plan.settings.get("interval_target"),
            plan.settings.get("layout", "rows"),
            plan.settings.get("quick", False),
            plan.older_runs,
        ),
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
    outcome = msgspec.json.decode(read_plain(folder / OUTCOME_FILE), type=Outcome)
    _insert_record(index, run, _insert_setup(index, run, folder), outcome)
    if outcome.kind == INTERNAL_ERROR:  # what it has left may be what it failed of
        return
    if run.cell.command:
        insert_usage(index, run, folder)
    else:
        _insert_training(index, run, folder)


def _insert_record(index: sqlite3.Connection, run: RunRecord, setup: str, outcome: Outcome) -> None:
    row = (
        run.id,
        run.key,
        cell_id(run.cell),
        run.repeat,
        run.machine.id,
        run.machine.description,
        run.machine.quota_cores,
        json.dumps(cards_of(run.cell.device_set, run.machine)),
        run.framework_version,
        run.fingerprint,
        run.worker_code,
        setup,
        json.dumps(run.shares),
        run.started,
        outcome.seconds,
        outcome.status,
        outcome.phase,
        outcome.kind,
        outcome.message,
        outcome.log_end,
        json.dumps(outcome.remarks),
    )
    index.execute(f"INSERT INTO run VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - nothing but question marks


def _insert_training(index: sqlite3.Connection, run: RunRecord, folder: Path) -> None:
    """What its ranks and the monitor have left."""
    files = event_files(folder)
    for rank, file in files.items():
        _insert_blocks(index, run.id, rank, file)
        _insert_evaluations(index, run.id, rank, file)
        _insert_phases(index, run, rank, file)
    index.execute("INSERT INTO step_block SELECT * FROM merged_block WHERE run_id = ?", (run.id,))
    samples = read_samples(folder)
    cores = sorted({core for device in run.cell.cores for core in device})
    insert_values(
        index,
        run.id,
        {
            **resources.further_values(samples, _training(files, 0)),
            **of_noise(resources.noise(samples, _training(files, 0), cores)),
            **of_training(index, run.id),
            **of_memory(_memory(run, files, samples)),
            "allocator_bytes": resources.allocator_bytes(files.values()),
            **of_utilisation(_utilisation(run, files, samples)),
        },
    )


def read_run(folder: Path) -> RunRecord:
    return decode_versioned(read_plain(folder / RUN_FILE), RunRecord, RUN_RECORD, f"Run {folder.name}")


def _insert_setup(index: sqlite3.Connection, run: RunRecord, folder: Path) -> str:
    """Once for all runs that are alike; returns its id."""
    setup = setup_of(run, folder)
    index.execute("INSERT OR IGNORE INTO setup VALUES (?, ?)", (setup.id, msgspec.json.encode(setup).decode()))
    return setup.id


def _insert_blocks(index: sqlite3.Connection, run_id: str, rank: int, file: EventFile) -> None:
    blocks = [event for event in file.events if isinstance(event, Block)]
    places: dict[str, Iterator[int]] = defaultdict(itertools.count)  # of each phase: ranks may warm up unequally long
    rows = [
        (
            run_id,
            rank,
            next(places[block.phase]),
            block.phase,
            block.steps,
            block.images,
            block.seconds,
            block.processor_seconds,
            block.waited_seconds,
            block.involuntary_switches,
            _summed_loss(block),
            sum(block.correct) if block.correct else None,
            block.epoch,
        )
        for block in blocks
    ]
    index.executemany("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _summed_loss(block: Block) -> float | None:
    """Over the images: each step's loss is their mean."""
    finite = [loss for loss in block.losses if loss is not None]
    return sum(finite) * block.images / block.steps if len(finite) == block.steps else None


def _insert_evaluations(index: sqlite3.Connection, run_id: str, rank: int, file: EventFile) -> None:
    found = [event for event in file.events if isinstance(event, Evaluation)]
    rows = [
        (run_id, rank, each.steps, each.images, each.loss, each.correct, each.seconds, each.epoch) for each in found
    ]
    index.executemany("INSERT INTO evaluation VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


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


def _memory(run: RunRecord, files: Files, samples: list[Sample]) -> list[resources.MemoryUse]:
    devices = run.cell.device_set
    if devices.kind == "cuda":
        return resources.gpu_memory(devices.indices, files.values(), samples)
    return list(resources.process_memory(files, samples).values())


def _utilisation(run: RunRecord, files: Files, samples: list[Sample]) -> list[resources.Range | None]:
    """Of each device while its own process trained; one process may have them all."""
    devices, found = run.cell.device_set, []
    for position, (device, cores) in enumerate(zip(devices.indices, run.cell.cores, strict=False)):
        training = _training(files, 0 if len(files) == 1 and 0 in files else position)
        found.append(
            resources.gpu_utilisation(samples, training, device)
            if devices.kind == "cuda"
            else resources.core_utilisation(samples, training, cores)
        )
    return found


def _training(files: Files, rank: int) -> list[resources.Span]:
    """When it trained; never, if it has left nothing."""
    return resources.spans(files[rank], "train") if rank in files else []
