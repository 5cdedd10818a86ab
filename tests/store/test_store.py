"""The run folders are the record; the index over them can be lost, damaged or old, and is made again."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.table_rows import table_rows
from paceline.plan.planning import Run
from paceline.store.index.file import INDEX_FILE
from paceline.store.records.events import AnyEvent
from paceline.store.store import Store, new_id
from paceline.studies.replay.results import losses
from paceline.system.errors import UserError
from paceline_worker.protocol import Job, event_file
from tests.factories.events import block, entered, evaluated, failed, finished
from tests.factories.jobs import JOB
from tests.factories.runs import (
    CELL,
    FAILED,
    OK,
    Ranks,
    begin_run,
    cell,
    on_devices,
    record,
    save_plan,
    save_run,
    trained,
)

TABLES = ("plan", "plan_cell", "plan_run", "run", "block", "phase", "value")

WHOLE_RUN: list[AnyEvent] = [
    entered("start", 1002.0, pid=7),  # two seconds after the run was started
    entered("build", 1003.5, idle_memory_bytes=50 * 2**20),
    entered("compile", 1004.0),
    block("compile", 2.0, 50),
    entered("warmup", 1006.0),
    block("warmup", 1.0, 100),
    entered("train", 1007.0),
    block("train", 4.0, 500, processor_seconds=3.5),
    block("train", 4.5, 500, processor_seconds=3.75),
    entered("evaluate", 1016.0, peak_memory_bytes=80 * 2**20),
    evaluated(50, 0.5),
    entered("finish", 1017.0),
    finished(),
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def content(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table."""
    return {table: sorted(tuple(row) for row in store.query(f"SELECT * FROM {table}")) for table in TABLES}  # noqa: S608


def index(store: Store) -> contextlib.closing[sqlite3.Connection]:
    """The index as a file, past the store."""
    return contextlib.closing(sqlite3.connect(store.folder / INDEX_FILE, isolation_level=None))


def filled(store: Store) -> Store:
    """Two plans and three runs, one of them failed, one with two ranks."""
    two = on_devices(2)
    save_plan(store, {CELL: ["one"]}, skips={cell(precision="bfloat16"): "fake has no bfloat16, only float32"})
    save_plan(store, {CELL: ["one", "again"], two: ["two"]})
    save_run(store, record("20250101-000001-aaaaaa", "one"), [WHOLE_RUN])
    save_run(store, record("20250101-000002-bbbbbb", "two", two), [WHOLE_RUN, WHOLE_RUN])
    broken: list[AnyEvent] = [entered("start"), failed("ValueError", "no")]
    save_run(store, record("20250101-000003-cccccc", "again", repeat=1), [broken], FAILED)
    return store


def test_run_is_written_into_a_folder_of_its_own(store: Store) -> None:
    folder = save_run(store, record("20250101-000001-aaaaaa", "one"), [WHOLE_RUN, WHOLE_RUN])
    assert folder == store.folder / "runs" / "20250101-000001-aaaaaa"
    assert sorted(path.name for path in folder.iterdir()) == [
        "events-0.jsonl",
        "events-1.jsonl",
        "job.json",
        "outcome.json",
        "run.json",
    ]
    assert Job.read(folder) == Job.from_json(json.loads(json.dumps(JOB.to_json())))
    assert json.loads((folder / "run.json").read_bytes())["machine"]["processor"] == "Imaginary 9000"
    assert json.loads((folder / "outcome.json").read_bytes())["status"] == "ok"


def test_run_is_indexed_with_all_it_measured(store: Store) -> None:
    save_run(store, record("20250101-000001-aaaaaa", "one"), [WHOLE_RUN])
    (run,) = store.query("SELECT key, repeat, framework_version, started, seconds, status, phase, kind FROM run")
    assert tuple(run) == ("one", 0, "2.4.6", 1000.0, 30.0, "ok", "finish", None)
    blocks = store.query("SELECT rank, phase, images, seconds, processor_seconds FROM block ORDER BY position")
    assert [tuple(row) for row in blocks] == [
        (0, "compile", 50, 2.0, 1.0),
        (0, "warmup", 100, 1.0, 1.0),
        (0, "train", 500, 4.0, 3.5),
        (0, "train", 500, 4.5, 3.75),
    ]
    values = {row["name"]: row["value"] for row in store.query("SELECT name, value FROM value")}
    assert (values["idle_bytes"], values["memory_bytes"]) == (50 * 2**20, 30 * 2**20)
    assert values["images_per_second"] == 1000 / 8.5


def test_phases_last_from_the_start_of_the_run_until_the_next_one(store: Store) -> None:
    save_run(store, record("20250101-000001-aaaaaa", "one"), [WHOLE_RUN])
    assert [tuple(row) for row in store.query("SELECT phase, started, seconds FROM phase ORDER BY started")] == [
        ("start", 1000.0, 3.5),  # from the command, not from the worker's first word
        ("build", 1003.5, 0.5),
        ("compile", 1004.0, 2.0),
        ("warmup", 1006.0, 1.0),
        ("train", 1007.0, 9.0),
        ("evaluate", 1016.0, 1.0),
        ("finish", 1017.0, None),
    ]


def test_plan_keeps_its_cells_in_order_with_reasons_and_runs(store: Store) -> None:
    skipped = cell(precision="bfloat16")
    save_plan(store, {CELL: ["one", "two"], on_devices(2): ["three"]}, skips={skipped: "cannot"}, suite="nightly")
    rows = store.query("SELECT cell, reason FROM plan_cell ORDER BY position")
    assert [(json.loads(row["cell"])["devices"], row["reason"]) for row in rows] == [
        ("1xcpu", None),
        ("2xcpu", None),
        ("1xcpu", "cannot"),
    ]
    assert [tuple(row) for row in store.query("SELECT position, key FROM plan_run ORDER BY rowid")] == [
        (0, "one"),
        (0, "two"),
        (1, "three"),
    ]
    assert [tuple(row) for row in store.query("SELECT suite, command FROM plan")] == [
        ("nightly", "paceline run made.toml")
    ]


def test_rebuilt_index_has_the_same_rows(store: Store) -> None:
    before, table = content(filled(store)), table_rows(store, {})
    assert [len(before[name]) for name in ("plan", "run", "block")] == [2, 3, 12]
    (store.folder / INDEX_FILE).unlink()
    assert content(store) == before
    assert store.rebuild() == 3
    assert content(store) == before
    assert table_rows(store, {}) == table


def test_run_without_outcome_never_happened(store: Store) -> None:
    begin_run(store, record("20250101-000001-aaaaaa", "one"), [WHOLE_RUN])
    assert store.done(count_failed=True) == set()
    assert store.rebuild() == 0
    assert store.query("SELECT * FROM block") == []


def test_run_that_was_ended_before_it_was_indexed_is_found_again(store: Store) -> None:
    folder = begin_run(store, record("20250101-000001-aaaaaa", "one"), [WHOLE_RUN])
    (folder / "outcome.json").write_bytes(msgspec.json.encode(OK))
    assert store.rebuild() == 1
    assert store.done(count_failed=False) == {"one"}


def test_run_is_indexed_only_once(store: Store) -> None:
    folder = save_run(store, record("20250101-000001-aaaaaa", "one"), [WHOLE_RUN])
    before = content(store)
    store.finish_run(folder, OK)
    assert content(store) == before


def test_failed_run_keeps_its_cause_and_counts_as_done_on_request(store: Store) -> None:
    save_run(store, record("20250101-000001-aaaaaa", "one"), [WHOLE_RUN])
    save_run(store, record("20250101-000002-bbbbbb", "two"), [[entered("start")]], FAILED)
    (run,) = store.query("SELECT phase, kind, message FROM run WHERE status = 'failed'")
    assert tuple(run) == ("train", "crash", "killed by SIGSEGV")
    assert store.done(count_failed=True) == {"one", "two"}
    assert store.done(count_failed=False) == {"one"}


def test_store_that_is_not_there_is_empty_and_stays_away(store: Store) -> None:
    assert store.query("SELECT * FROM run") == []
    assert store.done(count_failed=True) == set()
    assert not store.folder.exists()
    with pytest.raises(UserError, match=re.escape(f"There is no store at {store.folder}.")):
        store.rebuild()


def damage_whole(path: Path) -> None:
    path.write_bytes(b"this was an index once, and now it is no database at all\n" * 100)


def damage_end(path: Path) -> None:
    """Cut it off in the middle, as a full disk would."""
    path.write_bytes(path.read_bytes()[:6000])


@pytest.mark.parametrize("damage", [damage_whole, damage_end])
def test_damaged_index_is_an_error_that_names_the_cure(store: Store, damage: Callable[[Path], None]) -> None:
    before = content(filled(store))
    path = store.folder / INDEX_FILE
    damage(path)
    with pytest.raises(UserError, match=re.escape(f"Cannot use {path}: ") + ".*`paceline index` makes it anew"):
        content(store)
    assert store.rebuild() == 3
    assert content(store) == before


def test_index_of_another_version_is_rebuilt(store: Store) -> None:
    before = content(filled(store))
    with index(store) as old:
        old.execute("DELETE FROM block")
        old.execute("DROP VIEW training")
        old.execute("CREATE TABLE era (run_id TEXT, seconds REAL)")
        old.execute("CREATE INDEX era_run ON era(run_id)")
        old.execute("CREATE VIEW training AS SELECT * FROM era")
        old.execute("PRAGMA user_version = 1")
    assert content(store) == before
    with pytest.raises(UserError, match="no such table: era"):
        store.query("SELECT * FROM era")


def test_index_that_was_never_filled_is_filled(store: Store) -> None:
    before = content(filled(store))
    (store.folder / INDEX_FILE).write_bytes(b"")  # ended between making the file and filling it
    assert content(store) == before


def test_place_that_is_no_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=re.escape(f"Cannot use the store {tmp_path / 'file'}")):
        save_plan(Store(tmp_path / "file"), {CELL: ["one"]})


def test_newest_run_of_a_key_wins(store: Store) -> None:
    save_plan(store, {CELL: ["one"]})
    save_run(store, record("20250101-000001-aaaaaa", "one"), [trained(100, 2.0)])
    save_run(store, record("20250101-000002-000000", "one"), [trained(100, 1.0)])
    (row,) = table_rows(store, {})
    assert row.runs == ("20250101-000002-000000",)
    assert row.estimate(SPEED) is not None
    assert row.median(SPEED) == 100.0


def test_newest_run_of_a_key_wins_even_if_it_failed(store: Store) -> None:
    save_plan(store, {CELL: ["one"]})
    save_run(store, record("20250101-000001-aaaaaa", "one"), [trained(100, 2.0)])
    save_run(store, record("20250101-000002-000000", "one"), [[entered("start")]], FAILED)
    (row,) = table_rows(store, {})
    assert (row.status, row.estimate(SPEED)) == ("failed", None)


@pytest.mark.parametrize("text", ["20250101-000001-aaaaaa", "20250101-000001", "aaaaaa", "aa", "01-aaaaaa"])
def test_run_is_found_by_its_name_or_either_end_of_it(store: Store, text: str) -> None:
    assert filled(store).find_run(text).name == "20250101-000001-aaaaaa"


@pytest.mark.parametrize("text", ["dddddd", "000001", "20250101-000001-aaaaaa-x", "../runs/20250101-000001-aaaaaa"])
def test_run_that_is_not_there_is_refused_with_the_newest(store: Store, text: str) -> None:
    newest = "20250101-000001-aaaaaa, 20250101-000002-bbbbbb, 20250101-000003-cccccc"
    with pytest.raises(UserError, match=re.escape(f"No run is named {text!r}; the newest are {newest}.")):
        filled(store).find_run(text)


def test_ambiguous_name_is_refused(store: Store) -> None:
    with pytest.raises(UserError, match=r"3 runs are named '20250101'; the newest are"):
        filled(store).find_run("20250101")


def test_no_run_is_found_where_none_is(store: Store) -> None:
    with pytest.raises(UserError, match=r"No run is named 'aaaaaa'; the newest are none\."):
        store.find_run("aaaaaa")


def test_time_of_a_cell_is_the_mean_of_its_runs(store: Store) -> None:
    next_one = Run(CELL, 5, "new", 60.0)
    assert store.seconds_of(next_one) is None
    save_run(store, record("20250101-000001-aaaaaa", "one"), [WHOLE_RUN])  # 30 s
    save_run(store, record("20250101-000002-bbbbbb", "two"), [WHOLE_RUN], msgspec.structs.replace(OK, seconds=20.0))
    save_run(store, record("20250101-000003-cccccc", "three", on_devices(2)), [WHOLE_RUN], FAILED)
    assert store.seconds_of(next_one) == 25.0
    assert store.seconds_of(Run(cell(batch_size=7), 0, "new", 60.0)) is None


def test_ids_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([1735689600_000_001_000, 1735689600_000_020_000, 1735689600_300_000_000, 1735689601_000_000_000])
    monkeypatch.setattr("time.time_ns", lambda: next(moments))
    ids = [new_id() for _ in range(4)]
    assert ids == sorted(ids)
    assert ids[2].startswith("20250101-000000-300000-")


def test_no_two_ids_are_alike_even_at_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1735689600_000_001_000)
    assert len({new_id() for _ in range(5)}) == 5


def test_rank_is_that_of_its_file_even_if_another_has_left_nothing(store: Store) -> None:
    of = on_devices(2)
    ranks: Ranks = [[entered("start"), block("train", 1.0, 10)], [entered("start"), block("train", 1.0, 20)]]
    folder = begin_run(store, record("run", "key", of), ranks)
    event_file(folder, 0).unlink()
    store.finish_run(folder, FAILED)
    assert [tuple(row) for row in store.query("SELECT rank, images FROM block")] == [(1, 20)]
    assert [row["rank"] for row in store.query("SELECT rank FROM phase")] == [1]
    assert losses(folder) == {1: [1.0]}
