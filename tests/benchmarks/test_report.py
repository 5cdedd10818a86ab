"""The benchmark of reports: the store that it makes, against speeds that can be worked out, and its verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.comparison import verdict
from benchmarks.many_runs import many_runs
from benchmarks.report import Round, Visit, targets, visit

from paceline.analysis.quantities.known import MEMORY, SPEED
from paceline.analysis.rows.row import Row
from paceline.analysis.rows.table_rows import table_rows
from paceline.store.store import Store
from paceline.studies.audit.store import examine

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ("tests.browser.chromium",)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return many_runs(tmp_path_factory.mktemp("many") / "store", 40)


@pytest.fixture(scope="module")
def rows(store: Store) -> dict[tuple[str, str], Row]:
    return {
        (row.cell.framework, row.cell.devices): row for row in table_rows(store, {}) if row.cell.precision == "float32"
    }


def test_store_has_as_many_runs_as_were_asked_for(store: Store) -> None:
    assert len(list(store.folder.glob("runs/*/outcome.json"))) == 40
    assert store.query("SELECT COUNT(*) AS runs FROM run")[0]["runs"] == 40


def test_every_rank_has_events_of_its_own(store: Store) -> None:
    assert len(list(store.folder.glob("runs/*/events-0.jsonl"))) == 40
    assert len(list(store.folder.glob("runs/*/events-1.jsonl"))) == 20  # half of the cells have two devices


@pytest.mark.parametrize(
    ("framework", "devices", "images_per_second"),
    [
        ("fake", "1xcpu", 64 / 0.0064),  # 0.1 ms for each image
        ("fake", "2xcpu", 128 / 0.0064),
        ("fake+input", "1xcpu", 64 / 0.0114),  # and 5 ms for feeding them in
        ("fake+exchange", "1xcpu", 64 / 0.0064),
        ("fake+exchange", "2xcpu", 128 / 0.0114),  # 5 ms for agreeing
    ],
)
def test_speeds_are_those_of_the_fake_framework(
    rows: dict[tuple[str, str], Row], framework: str, devices: str, images_per_second: float
) -> None:
    row = rows[framework, devices]
    speed = row.estimate(SPEED)
    assert speed
    assert row.median(SPEED) == pytest.approx(images_per_second, rel=0.15)
    assert row.repeats == 5
    assert speed.low != speed.high  # chance is part of it


def test_runs_have_memory_utilisation_and_a_day(rows: dict[tuple[str, str], Row]) -> None:
    row = rows["fake", "2xcpu"]
    assert row.of_each(MEMORY) == pytest.approx((36, 36), rel=0.1)  # 20 and a quarter of 64
    assert all(middle == pytest.approx(0.97) for _, middle, _ in row.utilisation)
    assert row.runs[0].startswith("20260105-")


def test_what_fails_and_what_is_skipped_has_its_cause(store: Store, rows: dict[tuple[str, str], Row]) -> None:
    assert rows["fake+fail", "1xcpu"].reason == "error in warmup: RuntimeError: the fake framework was told to fail"
    assert "Traceback" in (rows["fake+fail", "1xcpu"].log_end or "")
    skipped = [row.reason for row in table_rows(store, {}) if row.status == "skipped"]
    assert skipped == ["fake has no bfloat16, only float32"] * 8


def test_audit_finds_nothing_wrong_in_it(store: Store) -> None:
    checked = examine(store)
    assert len(checked) > 20
    assert not any(checked)


def test_last_plan_is_cut_off(tmp_path: Path) -> None:
    store = many_runs(tmp_path / "store", 45)
    rows = table_rows(store, {}, everything=True)
    assert [row.status for row in rows[:4]] == ["not run"] * 4
    assert {row.marks for row in rows[:4]} == {("simulated",)}
    assert sum(len(row.runs) for row in rows) == 45


def one_round(report_seconds: float, *errors: str) -> Round:
    visits = {"the report": Visit(1.0, errors), "the served page": Visit(0.5, ())}
    return Round(report_seconds, 5_000_000, 0.2, visits)


def test_every_promise_has_its_verdict() -> None:
    kept = [one_round(4.85), one_round(4.86)]
    assert [verdict(target) for target in targets(kept)] == ["met"] * 5
    late = [one_round(5.5), one_round(5.55, "Refused to load")]
    assert [verdict(target) for target in targets(late)] == ["not met", "met", "met", "met", "not met"]


def test_without_a_browser_only_what_was_measured_is_judged() -> None:
    assert len(targets([Round(3.0, 5_000_000, 0.2, {})])) == 3


@pytest.mark.browser
def test_errors_of_a_page_are_heard(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><table><tr><td>1</table><script>console.error('too bad'); nothing()</script>")
    seen = visit(browser, bad.as_uri())
    assert seen.errors[0] == "too bad"
    assert "nothing is not defined" in seen.errors[1]
    assert seen.seconds > 0
