"""Plans and runs made by hand and put into a store, without anything being run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline.plan.cell import Cell
from paceline.plan.planning import Plan, Run, Skip
from paceline.plan.settings import Suite
from paceline.store.records.events import AnyEvent
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import RunRecord
from paceline.store.run_results import RunResult
from paceline.store.store import Store
from paceline_worker.protocol import event_file
from tests.factories.events import block, entered, finished, write
from tests.factories.jobs import JOB
from tests.factories.machines import machine

Ranks = Sequence[Sequence[AnyEvent]]

CELL = Cell(
    workload="cifar10-conv",
    framework="fake",
    devices="1xcpu",
    update="replicated",
    data="fake:device",
    precision="float32",
    batch_size=100,
    scaling="strong",
    steps=10,
    warmup=2,
    learning_rate=0.01,
    seed=1,
    cores=((0,),),
    oversubscribed=False,
)
OK = Outcome(status="ok", phase="finish", exit_codes=(0,), seconds=30.0)
FAILED = Outcome(status="failed", phase="train", kind="crash", message="killed by SIGSEGV", seconds=3.0)


def cell(**changes: Any) -> Cell:
    """One device, 100 images a step; or with some settings changed."""
    return msgspec.structs.replace(CELL, **changes)


def on_devices(count: int, **changes: Any) -> Cell:
    """The cell on several devices with a core each."""
    return cell(devices=f"{count}xcpu", cores=tuple((core,) for core in range(count)), **changes)


def trained(images: int, seconds: float) -> list[AnyEvent]:
    """A rank that did nothing but train, in one block."""
    return [entered("start"), block("train", seconds, images), finished()]


def save_plan(
    store: Store,
    wanted: Mapping[Cell, Sequence[str]],
    *,
    skips: Mapping[Cell, str] | None = None,
    suite: str = "made",
    command: str = "paceline run made.toml",
    older_runs: str = "all",
    **settings: Any,
) -> None:
    """A plan that wants runs with these keys for each cell, of a suite with these settings."""
    runs = [Run(cell, repeat, key, 60.0) for cell, keys in wanted.items() for repeat, key in enumerate(keys)]
    skipped = tuple(Skip(cell, reason) for cell, reason in (skips or {}).items())
    planned = Suite(name=suite, workload=("cifar10-conv",), **settings)
    plan = Plan(planned, (*wanted, *(skips or {})), skipped, tuple(runs))
    store.save_plan(plan, command, older_runs)


def record(run_id: str, key: str, of: Cell = CELL, *, repeat: int = 0) -> RunRecord:
    return RunRecord(
        id=run_id,
        key=key,
        cell=of,
        repeat=repeat,
        machine=machine(),
        packages={"numpy": "2.4.6"},
        framework_version="2.4.6",
        fingerprint="f00d",
        python_version="3.11.7",
        paceline_version="0.1.0",
        worker_code="c0de",
        started=1000.0,
    )


def begin_run(store: Store, begun: RunRecord, ranks: Ranks) -> Path:
    """A run that has written its events and not come to its end."""
    folder = store.create_run(begun, JOB)
    for rank, events in enumerate(ranks):
        write(event_file(folder, rank), *events)
    return folder


def save_run(store: Store, saved: RunRecord, ranks: Ranks, outcome: Outcome = OK) -> Path:
    folder = begin_run(store, saved, ranks)
    store.finish_run(folder, outcome)
    return folder


def result(**values: float | Sequence[float]) -> RunResult:
    """What the index knows of a run, with some measured values: of the whole run, or of each process or device."""
    return RunResult(
        id="20250101-000001-aaaaaa",
        key="one",
        machine="m",
        machine_description="a machine",
        quota_cores=None,
        cards=(),
        framework_version="1.0",
        fingerprint="f",
        worker_code="w",
        setup="s",
        shares=(),
        status="ok",
        phase="finish",
        kind=None,
        message=None,
        log_end=None,
        remarks=(),
        values={name: tuple(value) if isinstance(value, Sequence) else (value,) for name, value in values.items()},
    )
