"""The course of runs, worked out by hand from raw events."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from paceline.store.records.events import AnyEvent
from paceline.store.series import Moment, Series, load_series
from paceline.store.store import Store
from tests.factories.events import block, entered, evaluated, finished
from tests.factories.runs import FAILED, record, save_run, trained


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def two_steps(seconds: float, images: int, losses: list[float | None], correct: int) -> AnyEvent:
    return msgspec.structs.replace(block("train", seconds, images), steps=2, losses=losses, correct=[correct, 0])


def rank(first: float, second: float, correct: int, *, build_ends: float = 1004.0) -> list[AnyEvent]:
    """Two blocks of two steps, 100 images each, and 50 test images after them; the run was started at 1000."""
    return [
        entered("start", 1001.0),
        entered("build", 1003.0),
        entered("train", build_ends),
        two_steps(first, 100, [2.0, 1.0], 20),
        entered("evaluate", 1010.0),
        evaluated(50, 0.5, steps=4, correct=correct),
        entered("train", 1011.0),
        two_steps(second, 100, [1.0, 0.5], 40),
        entered("finish", 1015.0),
        finished(),
    ]


def test_a_step_lasts_as_long_as_on_the_slowest_rank(store: Store) -> None:
    save_run(store, record("run", "key"), [rank(4.0, 2.0, 30), rank(3.0, 5.0, 20)])
    assert load_series(store, ["run"]).step_seconds == {"run": [2.0, 2.5]}  # 4 s and 5 s for two steps each


def test_blocks_tell_how_far_training_was_and_its_loss(store: Store) -> None:
    save_run(store, record("run", "key"), [rank(4.0, 2.0, 30), rank(3.0, 5.0, 20)])
    first, second = load_series(store, ["run"]).blocks["run"]
    assert first == Moment(seconds=4.0, images=200, train_loss=1.5, train_accuracy=0.2)
    assert second == Moment(seconds=9.0, images=400, train_loss=0.75, train_accuracy=0.4)


def test_epochs_tell_what_the_test_images_said(store: Store) -> None:
    save_run(store, record("run", "key"), [rank(4.0, 2.0, 30), rank(3.0, 5.0, 20)])
    (epoch,) = load_series(store, ["run"]).epochs["run"]
    assert (epoch.seconds, epoch.images, epoch.test_accuracy) == (9.0, 400, 0.5)  # 50 of 100 test images
    assert (epoch.train_accuracy, epoch.train_loss) == pytest.approx((0.3, 1.125))
    assert epoch.test_loss == pytest.approx(0.02)  # two ranks of 1.0 over 100 images


def test_phases_add_up_and_the_slowest_rank_counts(store: Store) -> None:
    save_run(store, record("run", "key"), [rank(1.0, 1.0, 0), rank(1.0, 1.0, 0, build_ends=1006.0)])
    # from 1000 to 1003; rank 1 builds until 1006; rank 0 trains from 1004 to 1010 and from 1011 to 1015
    assert load_series(store, ["run"]).phases == {"run": {"start": 3.0, "build": 3.0, "train": 10.0, "evaluate": 1.0}}


def test_a_loss_that_is_no_number_is_none(store: Store) -> None:
    save_run(store, record("run", "key"), [[entered("start"), two_steps(1.0, 10, [1.0, None], 1), finished()]])
    assert [moment.train_loss for moment in load_series(store, ["run"]).blocks["run"]] == [None]


def test_failed_unknown_and_unasked_runs_are_left_out(store: Store) -> None:
    save_run(store, record("failed", "a"), [trained(10, 1.0)], FAILED)
    save_run(store, record("other", "b"), [trained(10, 1.0)])
    save_run(store, record("asked", "c"), [trained(10, 1.0)])
    found = load_series(store, ["failed", "asked", "asked", "nobody'); DROP TABLE run; --"])
    assert (list(found.step_seconds), list(found.blocks)) == (["asked"], ["asked"])


def test_a_store_without_results_has_no_series(store: Store) -> None:
    assert load_series(store, ["run"]) == Series()


class Counting(Store):
    """Notes how many values each question has."""

    values: list[int]

    def query(self, sql: str, *values: object) -> list[sqlite3.Row]:
        self.values.append(len(values))
        return super().query(sql, *values)


def test_many_runs_are_asked_for_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.store.run_results.MOST_VALUES", 2)
    store = Counting(tmp_path / "results")
    store.values = []
    for number in range(5):
        save_run(store, record(f"run {number}", f"key {number}"), [trained(10, 1.0 + number)])
    steps = load_series(store, [f"run {number}" for number in range(5)]).step_seconds
    assert steps == {f"run {number}": [1.0 + number] for number in range(5)}
    assert max(store.values) == 2
