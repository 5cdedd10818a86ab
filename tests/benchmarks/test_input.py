"""The benchmarks of real images: their ratios, differences and verdicts against answers worked out on paper."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.accuracy import compared, script_arguments, verdict, verdict_line, visible
from benchmarks.accuracy import measure as measure_accuracy
from benchmarks.accuracy import planned as planned_accuracy
from benchmarks.comparison import Speed
from benchmarks.comparison import verdict as verdict_of
from benchmarks.contestants import turns_of
from benchmarks.input import (
    CONSUMED,
    DATA,
    FAKE,
    INPUTS,
    TRAINED,
    Trained,
    batches_of,
    bound_to,
    duel,
    duel_targets,
    fastest,
    feed_target,
    images_per_second,
    measure,
    planned_runs,
    real_row,
    real_targets,
)

from paceline.analysis.statistics.intervals import Estimate, estimate
from paceline.catalog import datasets
from paceline.catalog.workloads import WORKLOADS
from paceline.plan.planning import Run
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline_worker.input.dataset import Dataset
from tests.benchmarks.test_overhead import imported

GOOD = [0.70, 0.71, 0.72, 0.73, 0.74]
AROUND = [0.69, 0.72, 0.72, 0.72, 0.75]
BAD = [0.50, 0.51, 0.52, 0.53, 0.54]
GUESSED = [0.09, 0.10, 0.10, 0.10, 0.11]


def consumer(repeat: int, framework: str, speed: float) -> Trained:
    return Trained(repeat, CONSUMED, framework, "fake:device", Speed(speed, speed, ()))


def trainer(repeat: int, data: str, speed: float, framework: str = "torch") -> Trained:
    """Busy for half of the time."""
    return Trained(repeat, TRAINED, framework, data, Speed(speed, 2 * speed, ()))


def options(**changes: object) -> Namespace:
    return Namespace(**{"rounds": 2, "steps": 10, "framework": "torch,mxnet", "real_framework": "torch,jax", **changes})


def test_feed_is_compared_with_the_fastest_framework_of_its_own_round() -> None:
    # MXNet is faster in the first round and torch in the second, which is half as fast throughout.
    trained = [consumer(0, "torch", 800), consumer(0, "mxnet", 1000), consumer(1, "mxnet", 400)]
    trained += [consumer(1, "torch", 500), trainer(1, FAKE, 9999)]
    assert fastest(trained) == [1000, 500]
    target = feed_target([6000, 3000], trained)
    assert target.measured == Estimate(6.0, 6.0, 6.0)
    assert verdict_of(target) == "met"


def test_pipeline_that_feeds_too_little_misses_its_target() -> None:
    trained = [consumer(0, "torch", 1000), consumer(1, "torch", 1000)]
    assert verdict_of(feed_target([4801, 4800], trained)) == "not met"
    assert verdict_of(feed_target([4900, 5100], trained)) == "cannot tell"


def test_real_images_are_compared_with_fake_ones_of_the_same_round_and_framework() -> None:
    # 98/100 and 49/50, in any order of the runs; JAX loses a tenth.
    trained = [trainer(0, DATA, 98), trainer(0, FAKE, 100), trainer(1, FAKE, 50), trainer(1, DATA, 49)]
    trained += [trainer(repeat, FAKE, 100, "jax") for repeat in (0, 1)]
    trained += [trainer(repeat, DATA, 90, "jax") for repeat in (0, 1)]
    targets = real_targets([*trained, consumer(0, "mxnet", 7)])
    assert [(target.promise.split(",")[0], verdict_of(target)) for target in targets] == [
        ("cifar10-resnet50 on jax: images/s", "not met"),
        ("cifar10-resnet50 on jax: images/processor-s", "not met"),
        ("cifar10-resnet50 on torch: images/s", "met"),
        ("cifar10-resnet50 on torch: images/processor-s", "met"),
    ]
    assert targets[2].measured == Estimate(0.98, 0.98, 0.98)
    assert real_row(trained, "torch", "images/processor-s") == [
        *("torch", "images/processor-s", "150", "147", "0.980"),
        "66.7%",  # (200 - 100) / 150
    ]


def test_real_and_fake_runs_of_a_framework_are_neighbours_in_time() -> None:
    runs = [(run.repeat, run.cell.workload, run.cell.framework, run.cell.data) for run in planned_runs(options())]
    assert len(runs) == 12
    assert [run[0] for run in runs] == [0] * 6 + [1] * 6
    pairs = [(runs[first], runs[first + 1]) for first in (2, 4, 8, 10)]
    assert [{one[3], other[3]} for one, other in pairs] == [{FAKE, DATA}] * 4
    assert all(one[:3] == other[:3] for one, other in pairs)


def test_all_runs_have_one_core() -> None:
    assert {run.cell.cores for run in planned_runs(options())} == {((sorted(os.sched_getaffinity(0))[0],),)}


def test_framework_that_cannot_take_part_is_named() -> None:
    with pytest.raises(UserError, match="torhc"):
        planned_runs(options(framework="torhc"))


def test_pipeline_is_measured_on_one_core_and_the_others_are_free_afterwards() -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    with bound_to(core):
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == before


def test_speed_of_a_pipeline_counts_the_images_of_whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    # The clock moves on by 0.5 s at each reading: two batches of 3 images in the second that was asked for.
    readings = iter(range(100))
    monkeypatch.setattr("time.perf_counter", lambda: next(readings) / 2)
    batches = [("images", [0, 1, 2])] * 100
    assert images_per_second(batches, 1.0) == 6.0


def test_every_input_is_one_of_its_workload() -> None:
    assert {name for name, done in INPUTS if done in WORKLOADS[name].pipelines} == {name for name, _ in INPUTS}


@pytest.mark.usefixtures("cifar10")
@pytest.mark.parametrize("name", INPUTS)
def test_batches_are_those_of_the_workload(name: tuple[str, str]) -> None:
    images, labels = next(iter(batches_of(name, Dataset.open(found_folder()))))
    workload = WORKLOADS[name[0]]
    size = next(node["size"] for node in workload.graph().to_json()["nodes"] if node["op"] == "Input")
    assert images.shape == (workload.batch_size, *size)
    assert labels.shape == (workload.batch_size,)


def test_single_round_has_a_difference_without_an_interval() -> None:
    assert compared([0.5], [0.25]) == Estimate(0.25)
    assert visible(Estimate(0.25)) is None


def test_visible_difference_is_a_little_more_than_half_the_interval() -> None:
    assert visible(Estimate(0.0, -0.0196, 0.0196)) == pytest.approx(0.028)  # 1.96 + 0.84 standard errors of 0.01


@pytest.mark.parametrize(
    ("ours", "handwritten", "expected"),
    [
        (GOOD, AROUND, "agree"),
        (GOOD, BAD, "differ"),
        (BAD, GOOD, "differ"),
        (GUESSED, GOOD, "differ"),
        (GUESSED, GUESSED, "cannot tell"),  # nothing was learnt
        (GOOD[:4], AROUND[:4], "cannot tell"),  # too few rounds
        (GOOD[:4], BAD[:4], "differ"),  # for that, they are enough
        (GOOD[:1], GOOD[:1], "cannot tell"),
    ],
)
def test_accuracies_agree_when_the_interval_of_their_difference_contains_zero(
    ours: list[float], handwritten: list[float], expected: str
) -> None:
    assert verdict(ours, handwritten) == expected


def test_verdict_line_says_what_could_have_been_seen() -> None:
    same = "agree: test accuracy, ours - hand-written: +0.00 points"
    assert verdict_line([0.5] * 5, [0.5] * 5) == (
        f"{same} (+0.00 to +0.00); four of five times, 0.00 points would have been seen"
    )
    assert verdict_line([0.5], [0.25]) == "cannot tell: test accuracy, ours - hand-written: +25.00 points"


def test_hand_written_loop_gets_the_settings_of_the_run() -> None:
    run = planned_accuracy(Namespace(epochs=2.0, rounds=3, threads=1)).runs[-1]
    core = sorted(os.sched_getaffinity(0))[0]
    assert " ".join(script_arguments(run, Path("cifar10"))) == (
        f"--data cifar10 --steps 782 --batch-size 128 --seed 3 --cores {core}"  # 2 x 391 steps; seeds from 1 on
    )


def test_epochs_beyond_the_first_drop_of_the_rate_are_refused() -> None:
    with pytest.raises(UserError, match="at most 200"):
        planned_accuracy(Namespace(epochs=201.0, rounds=1, threads=1))


def test_hand_written_loop_imports_nothing_of_ours_but_other_scripts() -> None:
    ours = [name for name in imported("torch_accuracy") if name.startswith(("paceline", "benchmarks"))]
    assert not [name for name in ours if not name.startswith("benchmarks.handwritten.")]


@pytest.mark.slow
@pytest.mark.usefixtures("cifar10")
def test_every_round_measures_all_pipelines_and_all_runs(tmp_path: Path) -> None:
    runs = planned_runs(options(steps=6, framework="fake", real_framework="fake"))
    made, trained = measure(runs, Dataset.open(found_folder()), 0.01, Store(tmp_path))
    assert {name: len(speeds) for name, speeds in made.items()} == dict.fromkeys(INPUTS, 2)
    assert sorted((each.repeat, each.data) for each in trained) == [
        *((0, data) for data in (DATA, "fake:device", FAKE)),
        *((1, data) for data in (DATA, "fake:device", FAKE)),
    ]
    assert all(each.speed.images_per_second > 0 for each in trained)


def rivals() -> list[Run]:
    """The same training on real and on fake images, as a round of duels has it."""
    runs = planned_runs(options(framework="fake", real_framework="fake"))
    return [run for run in runs if run.cell.workload == TRAINED and run.repeat == 0]


@pytest.mark.slow
@pytest.mark.usefixtures("cifar10")
def test_both_sides_of_a_duel_train_in_every_turn() -> None:
    """The fake framework sleeps 0.1 ms for each image. No clock may show less; a busy machine adds to it."""
    turns = turns_of(rivals(), "benchmarks.input_duel", ["3", "6"], print)
    assert len(turns) == 3
    assert min(min(turn) for turn in turns) >= 6 * WORKLOADS[TRAINED].batch_size * 0.0001


@pytest.mark.slow
def test_duel_needs_the_real_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A side that trained on fake images after all would not miss them."""
    runs = rivals()
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"(?s)The duel of fake failed:.*cifar10"):
        turns_of(runs, "benchmarks.input_duel", ["1", "1"], print)


@pytest.mark.parametrize("first", [DATA, FAKE])
def test_duel_knows_which_side_is_real(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    runs = [run for run in planned_runs(options(real_framework="fake")) if run.cell.workload == TRAINED][:2]
    one, other = sorted(runs, key=lambda run: run.cell.data != first)
    seconds = {DATA: 4.0, FAKE: 3.0}
    taken = [(seconds[one.cell.data], seconds[other.cell.data])] * 3
    monkeypatch.setattr("benchmarks.input.turns_of", lambda *_: taken)
    assert duel(one, other, turns=3) == 0.75


def test_rounds_of_a_duel_make_one_target(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {(0, DATA): 4.0, (0, FAKE): 3.0, (1, DATA): 2.0, (1, FAKE): 2.0}

    def taken(runs: Sequence[Run], *_: object) -> list[tuple[float, ...]]:
        return [tuple(seconds[run.repeat, run.cell.data] for run in runs)]

    monkeypatch.setattr("benchmarks.input.turns_of", taken)
    (target,) = duel_targets(planned_runs(options(real_framework="torch")), turns=1)
    assert target.measured == estimate([0.75, 1.0])


def found_folder() -> Path:
    dataset = datasets.find(DATA)
    assert dataset
    return dataset.folder


@pytest.mark.real
@pytest.mark.usefixtures("cifar10")
def test_both_programs_train_and_are_judged_by_the_test_images(tmp_path: Path) -> None:
    """Thirty steps give 0.26 and 0.31: enough to tell from images that were guessed, or judged by other labels."""
    plan = planned_accuracy(Namespace(epochs=0.08, rounds=1, threads=1))
    ours, handwritten = measure_accuracy(plan, found_folder(), Store(tmp_path))  # refuses networks of unequal size
    assert [round(accuracy * 10_000) / 10_000 for accuracy in (*ours, *handwritten)] == [*ours, *handwritten]
    assert all(0.15 < accuracy < 0.5 for accuracy in (*ours, *handwritten))  # 0.1 is guessed
