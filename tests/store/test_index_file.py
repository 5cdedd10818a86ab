"""The index is made anew beside the one in use: who measures or reads meanwhile notices nothing, and loses nothing."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paceline.store import store as stores
from paceline.store.index.rows import insert_run
from paceline.store.records.runs import OUTCOME_FILE
from paceline.store.store import Store
from paceline.system.errors import UserError
from tests.factories.runs import CELL, begin_run, record, save_plan, save_run, trained

INDEX = "index.sqlite"
PATIENT = 0.3  # seconds for which a lock is waited for; in use it is half a minute
RUNS = 20


def name(number: int) -> str:
    return f"20250101-0000{number:02}-aaaaaa"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan and some runs of it."""
    store = Store(tmp_path_factory.mktemp("made") / "results")
    save_plan(store, {CELL: [str(number) for number in range(RUNS)]})
    for number in range(RUNS):
        save_run(store, record(name(number), str(number), repeat=number), [trained(100, 1.0)])
    return store.folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(made, tmp_path / "results"), busy_seconds=PATIENT)


def slow_filling(monkeypatch: pytest.MonkeyPatch, seconds: float = 0.05) -> threading.Event:
    """Whoever makes an index takes so long for each run; the event tells that it has begun."""
    begun = threading.Event()

    def slow_insert(index: sqlite3.Connection, folder: Path) -> None:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            time.sleep(seconds)
        insert_run(index, folder)

    monkeypatch.setattr(stores, "insert_run", slow_insert)
    return begun


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def old_version(store: Store) -> None:
    """The index as another version of Paceline left it."""
    with sqlite3.connect(store.folder / INDEX) as index:
        index.execute("PRAGMA user_version = 1")
    index.close()


def ids(store: Store) -> list[str]:
    return [row["id"] for row in store.query("SELECT id FROM run ORDER BY id")]


def keys(store: Store) -> int:
    return int(store.query("SELECT COUNT(*) FROM plan_run")[0][0])


def test_run_that_ends_while_the_index_is_made_waits_for_nobody_and_is_there(
    store: Store, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = slow_filling(monkeypatch)  # it takes three times as long as anybody waits
    making = pool.submit(store.rebuild)
    assert begun.wait(10)
    save_run(store, record(name(RUNS), "late"), [trained(100, 1.0)])
    save_plan(store, {CELL: ["later"]})
    assert not making.done()
    assert ids(store) == [name(number) for number in range(RUNS + 1)]
    assert making.result() == RUNS + 1
    assert ids(store) == [name(number) for number in range(RUNS + 1)]
    assert keys(store) == RUNS + 1


def test_who_reads_while_the_index_is_made_reads_on(
    store: Store, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = slow_filling(monkeypatch)
    page = Store(store.folder, read_only=True, busy_seconds=PATIENT)
    making = pool.submit(store.rebuild)
    assert begun.wait(10)
    seen = {len(ids(page))}
    while not making.done():
        seen.add(len(ids(page)))
    seen.add(len(ids(page)))
    assert seen == {RUNS}


def test_open_transaction_outlasts_a_new_index(store: Store, pool: ThreadPoolExecutor) -> None:
    store = Store(store.folder, busy_seconds=10.0)
    folder = begin_run(store, record(name(RUNS), "late"), [trained(100, 1.0)])
    shutil.copy(store.folder / "runs" / name(0) / OUTCOME_FILE, folder)
    with store.transaction() as index:
        making = pool.submit(store.rebuild)
        time.sleep(0.5)  # it is done but for what needs this transaction to end
        insert_run(index, folder)
        index.execute("INSERT INTO plan_run SELECT plan_id, position, 'more' FROM plan_run LIMIT 1")
    assert making.result() == RUNS + 1
    save_plan(store, {CELL: ["later"]})
    assert (len(ids(store)), keys(store)) == (RUNS + 1, RUNS + 1)  # what no folder says is gone with the old index


def test_index_of_another_version_is_made_while_the_old_one_can_be_locked(
    store: Store, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both who measure find an old index; the second waits for the first, however long that takes."""
    old_version(store)
    begun = slow_filling(monkeypatch)
    first = pool.submit(ids, store)
    assert begun.wait(10)
    folder = begin_run(store, record(name(RUNS), "late"), [trained(100, 1.0)])
    shutil.copy(store.folder / "runs" / name(0) / OUTCOME_FILE, folder)
    with store.transaction() as index:
        insert_run(index, folder)
    assert len(first.result()) in (RUNS, RUNS + 1)
    assert len(ids(store)) == RUNS + 1


def test_two_who_make_the_index_at_once_both_succeed(store: Store, pool: ThreadPoolExecutor) -> None:
    both = [pool.submit(store.rebuild) for _ in range(2)]
    assert [each.result() for each in both] == [RUNS, RUNS]
    assert not list(store.folder.glob(f"{INDEX}.new-*"))


def test_old_index_stays_where_a_new_one_cannot_be_made(store: Store) -> None:
    (store.folder / "runs" / name(3) / "run.json").write_text("{")
    with pytest.raises(UserError, match=f"{name(3)} is damaged"):
        store.rebuild()
    assert len(ids(store)) == RUNS
    assert not list(store.folder.glob(f"{INDEX}.new-*"))


def make_slowly(folder: Path) -> None:
    """In a process of its own, which is to be killed."""

    def insert(index: sqlite3.Connection, run: Path) -> None:
        (folder.parent / "begun").touch()
        time.sleep(60)

    pytest.MonkeyPatch().setattr(stores, "insert_run", insert)
    Store(folder).rebuild()


def test_what_a_killed_maker_left_is_swept_away_by_the_next(store: Store, tmp_path: Path) -> None:
    maker = multiprocessing.get_context("fork").Process(target=make_slowly, args=(store.folder,))
    maker.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    os.kill(maker.pid or 0, signal.SIGKILL)
    maker.join()
    assert len(list(store.folder.glob(f"{INDEX}.new-*"))) >= 1
    assert len(ids(store)) == RUNS
    assert store.rebuild() == RUNS
    assert not list(store.folder.glob(f"{INDEX}.new-*"))


def test_index_with_tables_or_views_that_are_not_ours_is_made_anew(store: Store) -> None:
    """A view of a stranger could compute for ever."""
    with sqlite3.connect(store.folder / INDEX) as index:
        index.execute("DROP VIEW training")
        index.execute("CREATE VIEW training AS SELECT 'x' AS run_id, 1 AS seconds, 1 AS images_per_second")
    index.close()
    assert store.query("SELECT run_id FROM training ORDER BY run_id LIMIT 1")[0]["run_id"] == name(0)


def test_journal_of_a_damaged_index_does_not_spoil_the_new_one(store: Store) -> None:
    writer = (
        "import os, sqlite3, sys; index = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "index.executescript('PRAGMA cache_size = 1; BEGIN; DELETE FROM block; DELETE FROM run;'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", writer, str(store.folder / INDEX)], check=True)
    assert (store.folder / f"{INDEX}-journal").exists()
    (store.folder / INDEX).write_bytes(b"damaged" * 1000)
    assert store.rebuild() == RUNS
    assert len(ids(store)) == RUNS


def test_other_paceline_that_makes_its_own_index_again_and_again_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "is_current", lambda index: False)
    with pytest.raises(UserError, match=r"Another version of Paceline keeps .* in its own form"), store.transaction():
        pass
