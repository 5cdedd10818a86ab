"""Stores and bundles made by hand, and bundles that somebody has tampered with."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.analysis.rows.table_rows import table_rows
from paceline.bundles.archive import add
from paceline.bundles.exporting import export_bundle
from paceline.bundles.importing import import_bundle
from paceline.bundles.manifest import MANIFEST_FILE
from paceline.bundles.record_checks import moment
from paceline.bundles.selection import BundleRequest
from paceline.plan.cell import Cell
from paceline.plan.external.command import ExternalCommand
from paceline.plan.planning import Run, make_job
from paceline.report.tables.render import text
from paceline.run.worker import LOG_FILE
from paceline.store import certificates
from paceline.store.index.command_usage import CommandUsage, WaiterReport
from paceline.store.records.certificate import Certificate
from paceline.store.records.events import AnyEvent
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import RunRecord
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.machine.hardware import Machine
from paceline_worker.protocol import event_file
from tests.factories.events import block, entered, failed, finished, write
from tests.factories.machines import machine
from tests.factories.runs import CELL, FAILED, OK, cell, record, save_plan

Files = dict[str, bytes]
ALL = BundleRequest(everything=True)
FIRST, SECOND, BROKEN = "20250101-000001-aaaaaa", "20250101-000002-bbbbbb", "20250101-000003-cccccc"
FAILING = cell(framework="fake+fail")
TRAINED: list[AnyEvent] = [entered("start"), block("train", 2.0, 100), block("train", 2.0, 100), finished()]


def elsewhere(host: str = "elsewhere") -> Machine:
    return msgspec.structs.replace(machine(), host=host)


def save(store: Store, of: RunRecord, outcome: Outcome = OK, log: str = "it went well\n") -> Path:
    """A whole run, with the job that its cell has."""
    folder = store.create_run(of, make_job(Run(of.cell, of.repeat, of.key, 60.0)))
    events = TRAINED if outcome.status == "ok" else [entered("start"), failed("ValueError", "no")]
    write(event_file(folder, 0), *events)
    (folder / LOG_FILE).write_text(log)
    (folder / "lease").write_text("")
    store.finish_run(folder, outcome)
    return folder


def of_machine(run_id: str, key: str, on: Machine, of: Cell = CELL, repeat: int = 0) -> RunRecord:
    """A run that began when its id says."""
    return msgspec.structs.replace(record(run_id, key, of, repeat=repeat), machine=on, started=moment(run_id))


def filled(folder: Path) -> Store:
    """A plan with a cell of two runs, one that failed and one that was skipped; and a certificate."""
    store = Store(folder)
    skips = {cell(precision="bfloat16"): "fake has no bfloat16, only float32"}
    save_plan(store, {CELL: ["one", "two"], FAILING: ["three"]}, skips=skips)
    save(store, of_machine(FIRST, "one", elsewhere()))
    save(store, of_machine(SECOND, "two", elsewhere(), repeat=1))
    save(store, of_machine(BROKEN, "three", elsewhere(), FAILING), FAILED)
    certificates.save(store.folder, certificate())
    return store


def timed(store: Store, command: ExternalCommand) -> None:
    """A run of `paceline time` that took a second."""
    cell = msgspec.structs.replace(CELL, workload="command", framework="train.py", batch_size=0, command=command)
    measured = of_machine("20250104-000001-ffffff", "timed", elsewhere(), cell)
    save_plan(store, {cell: ["timed"]}, suite="time")
    folder = store.create_run(measured)
    (folder / "log.txt").write_text("Speed: 100\n")
    sample = {"time": 1.0, "load": 0.0, "ranks": {}, "gpus": [], "cores": [[1.0, 0.0]] * 4}
    (folder / "monitor.jsonl").write_text("".join(json.dumps({**sample, "time": at}) + "\n" for at in (1.0, 2.0)))
    usage = CommandUsage(
        seconds=1.0,
        user_seconds=0.5,
        system_seconds=0.1,
        times_sampled=False,
        largest_process_bytes=2**20,
        left_behind=0,
        found=((100.0,),) * len(command.metrics),
    )
    (folder / "usage.json").write_bytes(msgspec.json.encode(usage))
    (folder / "waiter.json").write_bytes(msgspec.json.encode(WaiterReport(exit_code=0, seconds=1.0)))
    store.finish_run(folder, OK)


def made_stores(folder: Path) -> Path:
    """Two stores, one with a result of its own, and a bundle of the other; each test has copies."""
    export_bundle(filled(folder / "source"), ALL, folder / "bundle.zip")
    store = Store(folder / "target")
    save_plan(store, {CELL: ["local"]}, suite="local")
    save(store, of_machine("20250102-000001-dddddd", "local", machine()))
    return folder


def certificate(*, on: Machine | None = None, equal: bool = True, **changes: Any) -> Certificate:
    """About the runs of `made_runs.record`, or with some fields changed."""
    made = Certificate(
        workload="cifar10-conv",
        framework="fake",
        devices="1xcpu",
        version="2.4.6",
        fingerprint="f00d",
        worker_code="c0de",
        machine=(on or elsewhere()).id,
        equal=equal,
        findings=(),
        failure=None,
    )
    return msgspec.structs.replace(made, **changes)


def read(bundle: Path) -> Files:
    with zipfile.ZipFile(bundle) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def pack(files: Files, bundle: Path) -> Path:
    with zipfile.ZipFile(bundle, "w") as packed:
        for name, content in files.items():
            add(packed, name, content)
    return bundle


def with_true_list(files: Files) -> Files:
    """As a careful forger would leave it: sizes and checksums are right again."""
    listed = [
        {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
        if name != MANIFEST_FILE
    ]
    manifest = {**json.loads(files[MANIFEST_FILE]), "files": listed}
    return {**files, MANIFEST_FILE: json.dumps(manifest).encode()}


def edited(name: str, change: Callable[[Any], None]) -> Callable[[Files], Files]:
    """The bundle with a change in one of its JSON files."""

    def apply(files: Files) -> Files:
        value = json.loads(files[name])
        change(value)
        return {**files, name: json.dumps(value).encode()}

    return apply


def renamed(files: Files, old: str, new: str) -> Files:
    """The bundle with another id for a run or plan, wherever it stands."""
    return {name.replace(old, new): content.replace(old.encode(), new.encode()) for name, content in files.items()}


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder with its content; the index is left out, since it can be made anew."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if "index.sqlite" not in path.name}
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


def refused(bundle: Path, target: Store, reason: str) -> None:
    """In one line with the reason, and the store stays as it was."""
    before, shown = tree(target.folder), text(table_rows(target, {}, everything=True), 100)
    with pytest.raises(UserError, match=re.escape(reason)) as error:
        import_bundle(bundle, target)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{bundle} is refused: ")
    assert tree(target.folder) == before
    assert text(table_rows(target, {}, everything=True), 100) == shown
