"""How far a plan is: as the disk tells it, for real runs and for made ones, and nobody is harmed by looking."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from paceline.plan.external.command import ExternalCommand
from paceline.report.server import lists
from paceline.report.server.live import Observer, PlanProgress
from paceline.report.server.unfinished_runs import SILENCE_SECONDS, OpenRun
from paceline.store.import_notes import ImportRecord
from paceline.store.index.file import INDEX_FILE
from paceline.store.records.events import AnyEvent
from paceline.store.records.runs import IMPORT_FOLDER
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.machine_lock import alone
from paceline.system.paths import home
from paceline_worker.protocol import LEASE_FILE
from tests.factories.command_line import CommandLine, send, wait_until
from tests.factories.events import block, entered
from tests.factories.runs import CELL, FAILED, OK, begin_run, cell, on_devices, record, save_plan, save_run, trained
from tests.factories.server import serving

FAKE = ("run", "cifar10-conv", "--framework", "fake", "--warmup", "2")
SHORT = (*FAKE, "--steps", "150", "--batch-size", "100", "--repeats", "2")
LONG = (*FAKE, "--steps", "2000", "--batch-size", "512")
LATER = "20991231-000001-000000-aaaaaa"  # ids sort by time, and these runs begin after their plan


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """On a machine where nobody measures."""
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    return Store(tmp_path / "results")


def seen(store: Store) -> PlanProgress:
    """Of the newest plan, by somebody who comes anew."""
    progress = Observer(store).progress(store.query("SELECT MAX(id) AS id FROM plan")[0]["id"])
    assert progress
    return progress


def long_ago(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (time.time() - 2 * SILENCE_SECONDS,) * 2)


def test_run_under_way_is_shown_with_its_phase_steps_and_speed(store: Store) -> None:
    two = on_devices(2, steps=50)
    save_plan(store, {two: ["one"]})
    ranks: list[list[AnyEvent]] = [
        [entered("train"), block("train", 2.0, 300)],
        [entered("train"), block("train", 4.0, 300), block("train", 1.0, 60)],
    ]
    folder = begin_run(store, record(LATER, "one", two), ranks)
    with (folder / LEASE_FILE).open("wb") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        long_ago(folder, store.folder / INDEX_FILE)
        now = seen(store)
    assert (now.state, now.done, now.wanted) == ("running", 0, 1)
    assert now.run
    assert (now.run.phase, now.run.steps, now.run.of_steps, now.run.interrupted) == ("train", 1, 50, False)
    assert now.run.images_per_second == "150"  # 600 images of both ranks in the 4 s of the slower one


def test_run_without_its_orchestrator_is_interrupted(store: Store) -> None:
    save_plan(store, {CELL: ["one"]})
    folder = begin_run(store, record(LATER, "one"), [[entered("train")]])
    (folder / LEASE_FILE).touch()
    long_ago(folder, store.folder / INDEX_FILE)
    now = seen(store)
    assert now.state == "interrupted"
    assert now.run
    assert now.run.interrupted
    assert "nobody measures now" in now.summary


def test_command_is_alive_while_it_is_sampled(store: Store) -> None:
    command = cell(command=ExternalCommand(arguments=("sleep", "9"), folder="/"))
    save_plan(store, {command: ["one"]}, suite="time")
    folder = begin_run(store, record(LATER, "warm-up", command), [])  # it has no lease, and this one is in no plan
    (folder / "monitor.jsonl").touch()
    now = seen(store)
    assert (now.state, now.run and now.run.phase) == ("running", "command")
    long_ago(folder / "monitor.jsonl", store.folder / INDEX_FILE)
    assert seen(store).state == "interrupted"


def test_run_that_serves_to_divide_a_batch_belongs_to_the_plan(store: Store) -> None:
    save_plan(store, {on_devices(2, shares="measured"): ["one"]})
    begin_run(store, record(LATER, "a pilot's", CELL), [[entered("train")]])
    assert seen(store).run is not None


def test_run_of_no_plan_belongs_to_none(store: Store) -> None:
    save_plan(store, {CELL: ["one"]})
    begin_run(store, record(LATER, "explain's", CELL), [[entered("train")]])
    assert seen(store).run is None
    assert [run.id for run in Observer(store).open_runs()] == [LATER]


def test_time_left_is_that_of_earlier_runs_of_the_cell(store: Store) -> None:
    slow = cell(batch_size=200)
    save_plan(store, {CELL: ["one", "two"], slow: ["three"]})
    save_run(store, record("20250101-000001-aaaaaa", "one"), [trained(10, 1.0)])  # 30 s
    now = seen(store)
    assert (now.done, now.wanted, now.left) == (1, 3, "1 min 00 s")  # two more, of one cell it is known
    save_run(store, record("20250101-000002-bbbbbb", "three", slow), [trained(10, 1.0)], FAILED)
    now = seen(store)
    assert (now.done, now.failed, now.left) == (2, 1, "30 s")
    assert [(run.status, run.said) for run in now.ended] == [
        ("failed", "crash in train: killed by SIGSEGV"),
        ("ok", "30 s"),
    ]


def test_cells_that_differ_in_their_rate_are_called_by_it(store: Store) -> None:
    low, high = (cell(learning_rate=rate) for rate in (0.05, 0.4))
    save_plan(store, {low: ["one"], high: ["two"]})
    save_run(store, record("20250101-000001-aaaaaa", "one", low), [trained(10, 1.0)])
    begin_run(store, record(LATER, "two", high), [[entered("train")]])
    now, plan = seen(store), store.query("SELECT id FROM plan")[0]["id"]
    assert now.run
    assert [now.ended[0].name.split(", ")[1], now.run.name.split(", ")[1]] == ["lr=0.05", "lr=0.4"]
    assert [line.name.split(", ")[1] for line in lists.cells(store, plan)] == ["lr=0.05", "lr=0.4"]


@pytest.mark.parametrize(
    ("older_runs", "done", "cell_status"), [("all", 2, "failed"), ("ok", 1, "not run"), ("none", 0, "not run")]
)
def test_older_runs_count_as_the_plan_says_wherever_they_are_counted(
    store: Store, older_runs: str, done: int, cell_status: str
) -> None:
    save_run(store, record("20250101-000001-aaaaaa", "one"), [trained(10, 1.0)])
    save_run(store, record("20250101-000002-bbbbbb", "two"), [trained(10, 1.0)], FAILED)
    save_plan(store, {CELL: ["one", "two"]}, older_runs=older_runs)
    plan = store.query("SELECT id FROM plan")[0]["id"]
    (line,), (of_cell,) = lists.plans(store, 1)[1], lists.cells(store, plan)
    assert seen(store).done == line.done == of_cell.done == done
    assert [of_cell.status] == list(line.counts) == [cell_status]


def test_plan_is_running_between_two_runs_while_its_process_measures(store: Store) -> None:
    save_plan(store, {CELL: ["one"]})
    long_ago(store.folder / INDEX_FILE)
    assert seen(store).state == "interrupted"
    with alone() as measuring:
        measuring.note_plan(store.folder, store.query("SELECT id FROM plan")[0]["id"])
        assert seen(store).state == "running"


def test_older_plan_is_running_when_its_process_says_so(store: Store) -> None:
    save_plan(store, {CELL: ["one"]})
    older = store.query("SELECT id FROM plan")[0]["id"]
    save_plan(store, {cell(batch_size=200): ["two"]})
    long_ago(store.folder / INDEX_FILE)
    with alone() as measuring:
        measuring.note_plan(store.folder, older)
        observer = Observer(store)
        now = observer.progress(older)
        assert now
        assert (now.state, observer.running()) == ("running", older)
        assert seen(store).state == "interrupted"


def test_run_belongs_to_the_plan_that_its_process_names(store: Store) -> None:
    save_plan(store, {CELL: ["one"]})
    begin_run(store, record(LATER, "one"), [[entered("train")]])
    with alone() as measuring:
        measuring.note_plan(store.folder)  # as `explain` does, whose runs may have the keys of a plan
        measuring.note_run(LATER)
        assert seen(store).run is None
    assert seen(store).run is not None


def test_plan_of_another_store_is_not_running_here(store: Store, tmp_path: Path) -> None:
    save_plan(store, {CELL: ["one"]})
    plan = store.query("SELECT id FROM plan")[0]["id"]
    long_ago(store.folder / INDEX_FILE)
    with alone() as measuring:
        measuring.note_plan(tmp_path / "elsewhere", plan)
        assert seen(store).state == "interrupted"


def test_imported_plan_that_is_newer_does_not_end_the_one_that_is_measured_here(store: Store) -> None:
    save_plan(store, {CELL: ["one", "two"]})
    own = store.query("SELECT id FROM plan")[0]["id"]
    save_run(store, record("20260101-000001-000000-aaaaaa", "one"), [trained(10, 1.0)])
    foreign = "20260101-000002-000000-bbbbbb"
    save_run(store, record(foreign, "there"), [trained(10, 1.0)])
    save_plan(store, {CELL: ["there", "never"]})
    (store.folder / IMPORT_FOLDER).mkdir()
    note = ImportRecord(bundle="", time=0.0, runs=(foreign,))
    (store.folder / IMPORT_FOLDER / "note.json").write_bytes(msgspec.json.encode(note))
    long_ago(store.folder / INDEX_FILE)
    with alone() as measuring:
        measuring.note_plan(store.folder, own)
        observer = Observer(store)
        now = observer.progress(own)
        assert now
        assert (now.state, now.final, observer.running()) == ("running", False, own)
        assert seen(store).state == "interrupted"


def test_disk_is_looked_at_twice_a_second_however_many_ask(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    save_plan(store, {CELL: ["one"]})
    observer = Observer(store)
    looks: list[float] = []
    look = observer._runs.look

    def counted() -> list[OpenRun]:
        looks.append(time.monotonic())
        return look()

    monkeypatch.setattr(observer._runs, "look", counted)
    plan = store.query("SELECT id FROM plan")[0]["id"]
    for _ in range(50):
        observer.progress(plan)
    assert len(looks) == 1


def test_new_plan_is_seen_at_once(store: Store) -> None:
    observer = Observer(store)
    assert observer.running() is None
    save_plan(store, {CELL: ["one"]})
    assert observer.running() is not None


@pytest.mark.slow
def test_plan_is_followed_from_start_to_end(paceline: CommandLine) -> None:
    with serving(paceline.store, PACELINE_HOME=str(home())) as served:
        run = paceline.start(*SHORT)
        wait_until(lambda: 'data-events="' in served.ask("/").text)
        address = served.ask("/").text.partition('data-events="')[2].partition('"')[0]
        page = served.ask(address.removesuffix("/events")).text
        with served.events(address) as events:
            told = list(events)
        run.communicate(timeout=60)
    assert "of 2 runs are done" in page
    assert "The answer" not in page  # which would take a core from what is measured
    assert [name for name, _ in told][-1] == "end"
    assert {name for name, _ in told[:-1]} == {"progress"}
    states = [state for _, state in told]
    assert (states[-1]["state"], states[-1]["done"], states[-1]["wanted"]) == ("complete", 2, 2)
    assert {state["state"] for state in states[:-1]} == {"running"}
    assert {"train"} <= {state["run"]["phase"] for state in states if state["run"]}
    assert [state["done"] for state in states] == sorted(state["done"] for state in states)
    assert len(states) > 4


@pytest.mark.slow
def test_killed_run_is_interrupted_and_killed_server_harms_no_run(paceline: CommandLine) -> None:
    with serving(paceline.store, PACELINE_HOME=str(home())) as served:
        run = paceline.start(*LONG)
        wait_until(lambda: any(event.get("phase") == "train" for event in paceline.events()))
        plan = next((paceline.store / "plans").glob("*.json")).stem
        with served.events(f"/plans/{plan}/events") as events:
            assert next(events)[1]["state"] == "running"
            send(run.pid, signal.SIGKILL)
            run.communicate()
            state = next(state for _, state in events if state["state"] != "running")
        assert state["state"] == "interrupted"
        assert state["run"]["interrupted"]
        assert "interrupted" in served.ask("/runs").text

        again = paceline.start(*SHORT)
        wait_until(lambda: len(list((paceline.store / "runs").glob("*"))) > 1)
        served.process.kill()
        again.communicate(timeout=60)
    assert again.returncode == 0
    assert paceline.rows()[0]["status"] in ("ok", "noisy")  # two runs of a busy machine may lie apart


def test_writer_does_not_hold_up_a_reader(store: Store) -> None:
    save_plan(store, {CELL: ["one"]})
    with store.transaction() as writer:
        writer.execute("UPDATE plan SET suite = 'changed'")
        assert store.query("SELECT suite FROM plan")[0]["suite"] == "made"  # at once, as it was before
    assert store.query("SELECT suite FROM plan")[0]["suite"] == "changed"


@pytest.mark.parametrize("patience", [30.0, 0.1])
def test_run_is_stored_when_a_query_under_way_has_ended(
    store: Store, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    monkeypatch.setattr(
        "paceline.store.store.BUSY_SECONDS", patience
    )  # of SQLite; a commit that was refused is tried again
    save_plan(store, {CELL: ["one"]})
    folder = begin_run(store, record(LATER, "one"), [trained(10, 1.0)])
    half_read = threading.Event()

    def read_slowly() -> None:
        with contextlib.closing(sqlite3.connect(store.folder / INDEX_FILE)) as index:
            rows = index.execute("SELECT * FROM plan, (SELECT 1 UNION SELECT 2)")
            rows.fetchone()
            half_read.set()
            time.sleep(0.6)
            assert len(rows.fetchall()) == 1

    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read_slowly)
        half_read.wait()
        began = time.monotonic()
        store.finish_run(folder, OK)
        assert time.monotonic() - began > 0.3
        reading.result()
    assert [row["id"] for row in store.query("SELECT id FROM run")] == [LATER]


def test_reader_undoes_what_a_killed_writer_left_half_done(store: Store) -> None:
    save_plan(store, {CELL: ["one"]})
    half = (
        "import os, sqlite3, sys\n"
        "index = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "index.execute('PRAGMA cache_size = 1')\n"  # so that pages reach the file before they are committed
        "index.execute('BEGIN')\n"
        "index.execute('UPDATE plan SET suite = ?', ('lost',))\n"
        "index.executemany('INSERT INTO value VALUES (?, ?, 0, 0)', ((str(n), 'x' * 999) for n in range(999)))\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", half, str(store.folder / INDEX_FILE)], check=False)
    assert (store.folder / f"{INDEX_FILE}-journal").stat().st_size > 0
    reader = Store(store.folder, read_only=True)
    assert [tuple(row) for row in reader.query("SELECT suite FROM plan")] == [("made",)]
    assert reader.query("SELECT * FROM value") == []


def test_index_of_another_version_is_not_made_anew_by_a_mere_reader(store: Store) -> None:
    save_plan(store, {CELL: ["one"]})
    with store.transaction() as index:
        index.execute("PRAGMA user_version = 1")
    before = (store.folder / INDEX_FILE).read_bytes()
    with pytest.raises(UserError, match="is missing or of another version; `paceline index` makes it anew"):
        Store(store.folder, read_only=True).query("SELECT * FROM plan")
    assert (store.folder / INDEX_FILE).read_bytes() == before
