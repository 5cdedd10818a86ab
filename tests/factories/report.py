"""A store whose report has something of everything, and names that want to be obeyed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from paceline.store.records.events import AnyEvent
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import RunRecord
from paceline.store.store import Store
from tests.factories.events import block, entered, evaluated, finished
from tests.factories.runs import OK, cell, record, save_plan, save_run

EVIL = "<script>alert('name')</script>"
LOG = "</script><img src=x onerror=alert(1)>\n{{ 7 * 7 }} \"quoted\" 'quoted' & \x1b[31mred\x07\u2028end"
MESSAGE = 'RuntimeError: "</td><b onclick=alert(2)>" & {{ config }}'
CRASH = Outcome(status="failed", phase="train", kind="error", message=MESSAGE, log_end=LOG, seconds=3.0)
NO_CARD = "this machine has no GPU <b>at all</b>"

ONE, TWO = cell(), cell(devices="2xcpu", cores=((0,), (1,)))
RIVAL = cell(framework="torch")
CROWDED = cell(devices="2xcpu", cores=((0,), (0,)), oversubscribed=True, framework="jax")
BROKEN, SKIPPED = cell(framework=EVIL), cell(framework="torch", devices="cuda:0")
REAL = cell(data="cifar10", input="scaled", evaluate="epoch", steps=2)
STARTED = 1_794_784_268.0  # 15 November 2026
SPEEDS = {ONE: (100, 101, 102), TWO: (180, 182, 184), RIVAL: (50, 51, 52), CROWDED: (60, 90, 120)}  # images/s


def course(images_per_second: int) -> list[AnyEvent]:
    """A rank that trained two blocks of 100 images."""
    seconds = 100 / images_per_second
    return [
        entered("start", STARTED),
        entered("build", STARTED + 1, idle_memory_bytes=100 * 2**20),
        entered("compile", STARTED + 2),
        block("compile", 0.5, 100),
        entered("train", STARTED + 3),
        block("train", seconds, 100),
        block("train", seconds, 100),
        finished(),
    ]


def learned(correct: int) -> list[AnyEvent]:
    """Two epochs of 100 images in a second each; the test accuracy is half reached after the first."""
    return [
        entered("start", STARTED),
        block("train", 1.0, 100),
        evaluated(100, 0.5, steps=1, correct=correct // 2),
        block("train", 1.0, 100),
        evaluated(100, 0.5, steps=2, correct=correct),
        finished(),
    ]


def made_store(folder: Path) -> Store:
    store = Store(folder)
    wanted = {each: [f"{place}-{repeat}" for repeat in range(3)] for place, each in enumerate(SPEEDS)}
    save_plan(store, {REAL: ["r-0", "r-1"]}, suite="accuracy")
    save_plan(store, {**wanted, BROKEN: ["b-0"]}, skips={SKIPPED: NO_CARD}, suite="speed")
    for place, (each, speeds) in enumerate(SPEEDS.items()):
        for repeat, speed in enumerate(speeds):
            begun = record(f"2026111{repeat}-00000{place}-ok", wanted[each][repeat], each, repeat=repeat)
            _save(store, begun, course(speed))
    for repeat, correct in enumerate((80, 82)):
        _save(store, record(f"2026111{repeat}-000009-learn", f"r-{repeat}", REAL, repeat=repeat), learned(correct))
    _save(store, record("20261114-000000-evil", "b-0", BROKEN), course(10)[:4], CRASH)
    return store


def _save(store: Store, begun: RunRecord, events: list[AnyEvent], outcome: Outcome = OK) -> None:
    begun = msgspec.structs.replace(begun, started=STARTED)
    folder = save_run(store, begun, [events] * begun.cell.device_set.count, outcome)
    (folder / "log.txt").write_text(LOG if outcome is CRASH else "line\n" * 9 + "the last line", encoding="utf-8")
