"""How fast training is while it goes on: one formula for the line in a terminal, for the live page and for tables."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from paceline.plan.planning import Run
from paceline.report.server.unfinished_runs import OpenRun
from paceline.run.progress import ProgressDisplay
from paceline.store.records.events import AnyEvent
from paceline.store.store import Store
from paceline.store.training_progress import TrainingSoFar
from tests.factories.events import block, entered
from tests.factories.runs import FAILED, begin_run, on_devices, record, save_run

TWO = on_devices(2, steps=50)
UNEVEN: list[list[AnyEvent]] = [
    [entered("train"), block("train", 2.0, 300)],
    [entered("train"), block("train", 4.0, 300), block("train", 1.0, 60)],
]


def test_of_several_ranks_images_add_up_and_the_slowest_sets_the_time_of_a_block() -> None:
    ranks: list[list[AnyEvent]] = [
        [entered("train"), block("warmup", 9.0, 9), block("train", 2.0, 300), block("train", 5.0, 300)],
        [entered("train"), block("train", 4.0, 100), block("train", 1.0, 100)],
    ]
    found = TrainingSoFar.of(ranks)
    assert (found.steps, found.images, found.seconds) == (2, 800, 9.0)  # 4 s and 5 s, not the 7 s of the slower rank
    assert found.images_per_second == pytest.approx(800 / 9)


def test_block_counts_when_every_rank_has_done_it() -> None:
    found = TrainingSoFar.of(UNEVEN)
    assert (found.steps, found.images, found.seconds, found.images_per_second) == (1, 600, 4.0, 150.0)
    assert TrainingSoFar.of([*UNEVEN, [entered("train")]]).images_per_second is None
    assert TrainingSoFar.of([*UNEVEN, []]) == found  # it has not said anything, so nobody knows of it


def test_line_in_a_terminal_and_live_page_say_the_same(tmp_path: Path) -> None:
    shown = io.StringIO()
    run = Run(TWO, 0, "one", 60.0)
    with ProgressDisplay(Console(file=shown, force_terminal=True, width=200), [run], lambda _: None) as progress:
        progress.begin(run)
        for event in UNEVEN[1]:
            progress.show(event, UNEVEN)
    assert "train 1/50, 150 images/s" in shown.getvalue()
    open_run = OpenRun(begin_run(Store(tmp_path), record("a", "one", TWO), UNEVEN), record("a", "one", TWO))
    open_run.read_on()
    assert open_run.trained == TrainingSoFar.of(UNEVEN)


seconds = st.floats(min_value=1e-4, max_value=1e4)
blocks = st.builds(block, st.sampled_from(["warmup", "train"]), seconds, st.integers(min_value=1, max_value=10**6))
some_ranks = st.lists(st.lists(blocks, max_size=5), min_size=1, max_size=4)


@settings(max_examples=60)
@given(some_ranks)
def test_events_so_far_give_what_the_index_gives(ranks: Sequence[Sequence[AnyEvent]]) -> None:
    begun = [[entered("start"), *events] for events in ranks]
    found = TrainingSoFar.of(begun)
    with TemporaryDirectory() as folder:
        store = Store(Path(folder))
        save_run(store, record("a", "one", TWO), begun, FAILED)
        rows = store.query("SELECT images, training_seconds, images_per_second FROM training")
    assert [row["images"] for row in rows] == ([found.images] if found.images else [])
    for row in rows:
        assert row["training_seconds"] == pytest.approx(found.seconds)
        assert row["images_per_second"] == pytest.approx(found.images_per_second)
