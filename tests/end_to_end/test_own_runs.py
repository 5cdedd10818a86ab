"""Which runs belong to a plan where several plans want the same, and what a replay leaves as it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from paceline.analysis.comparison.selections import choose
from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.table_rows import layout_of, table_rows
from paceline.bundles.selection import BundleRequest, select
from paceline.report.page.report_page import layouts_of
from paceline.report.server import lists
from paceline.store.store import Store, new_id
from tests.factories.runs import CELL, FAILED, OK, record, save_plan, save_run, trained

KEYS = ("first", "second")
REPLAY = "paceline replay 20250101-000001-aaaaaa --repeats 1"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def planned(store: Store, older_runs: str = "all") -> str:
    """The id of a plan that wants the same runs as all others here."""
    save_plan(store, {CELL: KEYS}, older_runs=older_runs)
    return newest(store)


def newest(store: Store) -> str:
    return str(store.query("SELECT MAX(id) AS id FROM plan")[0]["id"])


def measure(store: Store, speeds: Mapping[str, float]) -> list[str]:
    """Runs of now with these keys, by their ids, that trained so many images in a second; 0 is one that crashed."""
    return [_measured(store, key, speed) for key, speed in speeds.items()]


def _measured(store: Store, key: str, speed: float) -> str:
    begun = record(new_id(), key, repeat=KEYS.index(key) if key in KEYS else 0)
    save_run(store, begun, [trained(round(100 * speed), 100.0)], OK if speed else FAILED)
    return begun.id


def measured_again(store: Store, *speeds: float) -> str:
    """A plan that measured all anew."""
    plan = planned(store, "none")
    measure(store, dict(zip(KEYS, speeds, strict=True)))
    return plan


def speeds_of(store: Store, plan: str | None) -> tuple[float, ...]:
    (row,) = table_rows(store, {"plan": plan})
    return row.of_runs(SPEED)


def test_plan_keeps_its_runs_when_another_measures_the_same(store: Store) -> None:
    monday, tuesday = measured_again(store, 10, 20), measured_again(store, 30, 40)
    assert speeds_of(store, monday) == (10, 20)
    assert speeds_of(store, tuesday) == speeds_of(store, None) == (30, 40)


def test_two_plans_of_the_same_runs_are_compared_by_their_own(store: Store) -> None:
    plans = measured_again(store, 10, 20), measured_again(store, 30, 40)
    sides = [choose(f"plan:{plan}", store.folder, SPEED) for plan in plans]
    assert [SPEED.values(one.good) for side in sides for one in side.cells.values()] == [[10, 20], [30, 40]]


def test_failure_stays_in_its_plan_when_it_is_tried_again(store: Store) -> None:
    monday = measured_again(store, 0, 20)
    tuesday = planned(store, "ok")
    measure(store, {"first": 30})
    (before,), (after,) = (table_rows(store, {"plan": plan}) for plan in (monday, tuesday))
    assert (before.status, before.reason) == ("failed", "1 of 2 runs: crash in train: killed by SIGSEGV")
    assert (after.failed_run, after.of_runs(SPEED)) == (None, (30, 20))
    lines = {line.id: line.counts for line in lists.plans(store, 1)[1]}
    assert lines == {monday: {"failed": 1}, tuesday: {"noisy": 1}}  # of 30 and 20
    assert [lists.cells(store, plan)[0].status for plan in (monday, tuesday)] == ["failed", "noisy"]


def test_plan_that_found_its_runs_done_keeps_those(store: Store) -> None:
    measured_again(store, 10, 20)
    tuesday = planned(store)
    assert speeds_of(store, tuesday) == (10, 20)
    measured_again(store, 30, 40)
    assert speeds_of(store, tuesday) == (10, 20)


def test_plan_that_was_cut_off_has_the_runs_of_the_one_that_went_on(store: Store) -> None:
    monday = planned(store)
    measure(store, {"first": 10})
    planned(store)
    measure(store, {"second": 20})
    measured_again(store, 30, 40)
    assert speeds_of(store, monday) == (10, 20)


def test_plan_that_has_not_begun_takes_no_run_from_view(store: Store) -> None:
    save_plan(store, {CELL: KEYS}, layout="matrix", older_runs="none")
    monday = newest(store)
    measure(store, dict(zip(KEYS, (10, 20), strict=True)))
    planned(store, "none")
    assert speeds_of(store, None) == (10, 20)
    assert layout_of(store, {}) == "matrix"
    assert list(select(store, BundleRequest()).plans) == [monday]


def test_plan_that_measures_anew_and_was_cut_off_has_nothing_of_the_day_before(store: Store) -> None:
    monday = measured_again(store, 10, 20)
    tuesday = planned(store, "none")
    measure(store, {"first": 30})
    assert speeds_of(store, monday) == (10, 20)
    assert speeds_of(store, tuesday) == (30,)
    (row,) = table_rows(store, {"plan": tuesday})
    assert (row.status, row.reason) == ("not run", "1 of 2 runs are done; the same command starts over")
    sides = [choose(f"plan:{plan}", store.folder, SPEED) for plan in (monday, tuesday)]
    assert [SPEED.values(one.good) for side in sides for one in side.cells.values()] == [[10, 20], [30]]


def test_plan_that_was_cut_off_takes_nothing_of_one_that_measures_anew(store: Store) -> None:
    monday = planned(store)
    measure(store, {"first": 10})
    measured_again(store, 30, 40)
    assert speeds_of(store, monday) == (10,)


def test_plan_is_exported_with_its_own_runs(store: Store) -> None:
    monday = planned(store)
    old = measure(store, dict.fromkeys(KEYS, 10))
    tuesday = planned(store, "none")
    new = measure(store, dict.fromkeys(KEYS, 20))
    for choice in (BundleRequest(plan=monday), BundleRequest(runs=old)):
        selection = select(store, choice)
        assert ([folder.name for folder in selection.runs], list(selection.plans)) == (old, [monday])
    assert [folder.name for folder in select(store, BundleRequest(plan=tuesday)).runs] == new


def test_replay_changes_neither_the_shape_of_a_table_nor_what_is_exported(store: Store) -> None:
    save_plan(store, {CELL: KEYS}, layout="matrix")
    plan = newest(store)
    save_plan(store, {CELL: ["replayed"]}, suite="replay", command=REPLAY)
    assert layout_of(store, {}) == layout_of(store, {"suite": "made"}) == "matrix"
    assert layouts_of(store) == {CELL.workload: "matrix"}
    assert layout_of(store, {"suite": "replay"}) == layouts_of(store, "replay")[CELL.workload] == "rows"
    assert list(select(store, BundleRequest()).plans) == [plan]
    assert list(select(store, BundleRequest(suite="replay")).plans) == [newest(store)]


def test_replay_is_compared_only_where_it_is_named_or_alone(store: Store) -> None:
    measured_again(store, 10, 20)
    save_plan(store, {CELL: ["replayed"]}, suite="replay", command=REPLAY)
    measure(store, {"replayed": 50})
    whole, named = (choose(text, store.folder, SPEED) for text in (str(store.folder), "suite:replay"))
    assert [SPEED.values(one.good) for side in (whole, named) for one in side.cells.values()] == [[10, 20], [50]]
