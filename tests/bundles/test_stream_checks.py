"""Events and samples of a bundle are checked while they are read: too many cost little before they are refused."""

from __future__ import annotations

import os
import shutil
import time
import tracemalloc
from pathlib import Path

import pytest

from paceline.bundles import stream_checks
from paceline.bundles.exporting import export_bundle
from paceline.bundles.importing import import_bundle
from paceline.bundles.selection import BundleRequest
from paceline.store.store import Store
from paceline.system.errors import UserError
from tests.bundles.made import BROKEN, FIRST, Files, pack, read, refused, with_true_list

MIB = 2**20
EVENTS, SAMPLES, OF_FAILED = (
    f"runs/{FIRST}/events-0.jsonl",
    f"runs/{FIRST}/monitor.jsonl",
    f"runs/{BROKEN}/events-0.jsonl",
)
PHASE = b'{"event":"phase","time":0,"phase":""}\n'
SAMPLE = b'{"time":0,"load":0,"ranks":{},"gpus":[]}\n'


def block(steps: int = 1, losses: int = 1, phase: str = "warmup") -> bytes:
    told = '"time":0,"images":1,"seconds":1,"processor_seconds":1'
    return (
        f'{{"event":"block","phase":"{phase}",{told},"steps":{steps},"losses":[{",".join("0" * losses)}]}}\n'.encode()
    )


def busy(cores: int) -> bytes:
    return SAMPLE.replace(b"}\n", b',"cores":[' + b",".join([b"[0,0]"] * cores) + b"]}\n")


def forged(bundle: Path, name: str, content: bytes) -> Path:
    files: Files = read(bundle)
    return pack(with_true_list({**files, name: files.get(name, b"") + content}), bundle)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        (EVENTS, b"\n", "events-0.jsonl has a line that is no event: b''"),
        (OF_FAILED, b"\n", "events-0.jsonl has 100,000 lines that are no events"),
        (EVENTS, PHASE, f"run {FIRST} has more than 10,000 events"),
        (EVENTS, block(), f"run {FIRST} has more than 10,000 events"),
        (EVENTS, block(400, 400), f"run {FIRST} has more than 100,000 steps"),
        (EVENTS, block(phase="train"), "events-0.jsonl has more training than the 10 steps of its cell"),
        (SAMPLES, b"\n", "monitor.jsonl: Input data was truncated"),
        (SAMPLES, SAMPLE, "monitor.jsonl has more than 10,000 samples"),
        (SAMPLES, busy(100), "monitor.jsonl has more than 10,000 samples, or 20,000 readings in them"),
    ],
    ids=["blank", "blank and failed", "phases", "blocks", "steps", "training", "blank samples", "samples", "cores"],
)
def test_too_many_lines_are_refused_at_the_first_that_is_too_much(
    bundle: Path, target: Store, monkeypatch: pytest.MonkeyPatch, name: str, line: bytes, reason: str
) -> None:
    limits = {"MOST_EVENTS": 10_000, "MOST_STEPS": 100_000, "MOST_SAMPLES": 10_000, "MOST_READINGS": 20_000}
    for limit, value in limits.items():
        monkeypatch.setattr(stream_checks, limit, value)
    forged(bundle, name, line * (8 * MIB // len(line)))
    tracemalloc.start()
    try:
        refused(bundle, target, reason)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 6 * MIB  # less than the file that is refused


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (block(steps=0, losses=0), "has a block without a step"),
        (block(steps=-5, losses=0), "has a block without a step"),
        (block(steps=1, losses=2), "has a block with more losses than steps"),
    ],
)
def test_block_that_cannot_be_is_refused(bundle: Path, target: Store, line: bytes, reason: str) -> None:
    refused(forged(bundle, EVENTS, line), target, reason)


@pytest.mark.slow
def test_one_line_that_is_too_long_is_refused(bundle: Path, target: Store) -> None:
    refused(forged(bundle, SAMPLES, b" " * (20 * MIB) + b"\n"), target, "monitor.jsonl: a line is longer than")
    refused(forged(bundle, EVENTS, b" " * (20 * MIB) + b"\n"), target, "has a line that is no event")


def test_list_that_is_larger_than_its_files_need_is_refused(bundle: Path, target: Store) -> None:
    files = read(bundle)
    pack({**files, "manifest.json": files["manifest.json"] + b" " * MIB}, bundle)
    refused(bundle, target, "its manifest.json has 1,05")


def test_what_import_would_refuse_is_not_exported(
    source: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_checks, "MOST_EVENTS", 3)
    with pytest.raises(UserError, match=r"Cannot export this: run .* has more than 3 events; nothing was written"):
        export_bundle(source, BundleRequest(everything=True), tmp_path / "out.zip")


def test_run_whose_folder_is_gone_is_not_exported(source: Store, tmp_path: Path) -> None:
    shutil.rmtree(source.folder / "runs" / FIRST)
    with pytest.raises(UserError, match=f"Cannot export this: run {FIRST} has no run.json"):
        export_bundle(source, BundleRequest(), tmp_path / "out.zip")


def left_by_a_killed_import(target: Store, name: str, seconds_ago: float) -> Path:
    left = target.folder / f"importing-{name}"
    (left / "runs").mkdir(parents=True)
    os.utime(left, (time.time() - seconds_ago,) * 2)
    return left


def test_rest_of_an_import_that_was_killed_at_once_is_swept_away(bundle: Path, target: Store) -> None:
    """It had no time to lock its place; one that begins just now has none either."""
    old, new = left_by_a_killed_import(target, "old", 600.0), left_by_a_killed_import(target, "new", 1.0)
    import_bundle(bundle, target)
    assert (old.exists(), new.exists()) == (False, True)


def test_sweeping_follows_no_link_and_waits_for_no_pipe(bundle: Path, target: Store, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "lock").write_text("")
    (target.folder / "importing-link").symlink_to(tmp_path / "precious")
    os.mkfifo(left_by_a_killed_import(target, "pipe", 600.0) / "lock")
    import_bundle(bundle, target)
    assert (tmp_path / "precious" / "lock").exists()
