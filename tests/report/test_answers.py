"""What a report recommends, and how sure it says that is; answers worked out by hand."""

from __future__ import annotations

from paceline.analysis.quantities.chance_accuracy import least_target
from paceline.analysis.quantities.known import TEST_ACCURACY
from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.page.answers import Answer, Times, answers, common_target, silence
from paceline.store.series import Moment
from tests.factories.rows import made_row

SURE = {"images_per_second": Estimate(100.0, 99.0, 101.0), "images_per_second_of_runs": (99.0, 100.0, 101.0, 100.0)}
SLOW = {"images_per_second": Estimate(50.0, 49.0, 51.0), "images_per_second_of_runs": (49.0, 50.0, 51.0, 50.0)}


def _answer(question: str, *rows: Row, times: Times | None = None, target: float | None = None) -> Answer:
    found = answers(rows, times or {}, target)
    return next(answer for answer in found if answer.question.startswith(question))


def test_fastest_is_named_with_its_interval_and_the_next() -> None:
    answer = _answer("Fastest", made_row(**SLOW), made_row(framework="jax", **SURE))
    assert (answer.who, answer.value, answer.sure) == ("jax on 1xcpu", "100 images/s (98.7–101)", "clear")
    assert answer.why.startswith("2.00 (")
    assert answer.why.endswith("times torch, the next")


def test_equals_are_not_ranked() -> None:
    near = made_row(framework="jax", images_per_second_of_runs=(99.5, 100.5, 101.0, 99.0))
    answer = _answer("Fastest", made_row(**SURE), near)
    assert answer.sure == "cannot tell"
    assert answer.who in ("torch or jax on 1xcpu", "jax or torch on 1xcpu")
    assert answer.value.startswith(answer.who.split()[0])  # whose number it is


def test_other_devices_that_chance_could_have_made_slower_are_rivals() -> None:
    # Both runs are above both others: chance does that in one of three cases.
    two = made_row(devices="2xcpu", images_per_second_of_runs=(100.0, 101.0))
    answer = _answer("Fastest", made_row(images_per_second_of_runs=(98.0, 99.0)), two)
    assert (answer.who, answer.sure) == ("torch on 2xcpu or torch on 1xcpu", "cannot tell")
    assert answer.why == "the runs do not tell them apart: 1.02 (0.93–1.12) times torch on 1xcpu"
    far = _answer("Fastest", made_row(**SLOW), two)
    assert (far.who, far.sure) == ("torch on 2xcpu", "clear")


def test_every_other_cell_makes_the_same_difference_less_sure() -> None:
    # t = 3 / sqrt(2 / 3) with 4 degrees of freedom: p is 0.02, enough for one pair, not for the three of three devices.
    one = made_row(images_per_second_of_runs=(100.0, 101.0, 102.0))
    two = made_row(devices="2xcpu", images_per_second_of_runs=(103.0, 104.0, 105.0))
    four = made_row(devices="4xcpu", images_per_second_of_runs=(50.0, 50.5, 51.0))
    assert _answer("Fastest", one, two).sure == "clear"
    assert _answer("Fastest", one, two, four).sure == "cannot tell"


def test_a_single_run_is_a_rival_unless_it_lies_beyond_the_interval_of_the_best() -> None:
    near = made_row(framework="jax", images_per_second_of_runs=(99.9,))
    answer = _answer("Fastest", made_row(**SURE), made_row(framework="mxnet", **SLOW), near)
    assert (answer.who, answer.sure) == ("torch or jax on 1xcpu", "cannot tell")
    assert answer.why == "jax ran once, too little to tell them apart"
    far = made_row(framework="jax", images_per_second_of_runs=(90.0,))
    answer = _answer("Fastest", made_row(**SURE), made_row(framework="mxnet", **SLOW), far)
    assert (answer.who, answer.sure) == ("torch on 1xcpu", "clear")
    assert answer.why.endswith("times mxnet, the next; 1 that ran once is not compared")


def test_rows_of_one_name_are_told_apart_by_what_they_differ_in() -> None:
    near = made_row(learning_rate=0.5, images_per_second_of_runs=(98.0, 99.5, 101.0, 99.5))
    answer = _answer("Fastest", made_row(learning_rate=0.1, **SURE), near)
    assert (answer.who, answer.sure) == ("torch lr=0.1 or torch lr=0.5 on 1xcpu", "cannot tell")
    seeds = [made_row(seed=seed, **SURE) for seed in (1, 9)]
    assert _answer("Fastest", *seeds).who == "torch seed 1 or torch seed 9 on 1xcpu"


def test_equals_of_another_learning_rate_do_not_make_the_best_unsure() -> None:
    equals = [made_row(framework=name, learning_rate=0.5, **SLOW) for name in ("torch", "jax")]
    slow = made_row(framework="jax", learning_rate=0.1, **SLOW)
    answer = _answer("Fastest", made_row(learning_rate=0.1, **SURE), slow, *equals)
    assert (answer.who, answer.sure) == ("torch lr=0.1 on 1xcpu", "clear")


def test_what_was_measured_at_another_time_makes_unsure() -> None:
    best = made_row(runs=("20261116-1", "20261116-4"), **SURE)
    early = made_row(framework="jax", runs=("20261115-1", "20261115-2"), **SLOW)
    answer = _answer("Fastest", best, early)
    assert (answer.who, answer.sure) == ("torch on 1xcpu", "cannot tell")
    assert answer.why.endswith("times jax, the next; not measured in the same rounds as jax")
    nearer = {"images_per_second_of_runs": (79.0, 80.0, 81.0, 80.0), "runs": ("20261116-2", "20261116-3")}
    answer = _answer("Fastest", best, early, made_row(framework="mxnet", **nearer))
    assert answer.sure == "clear"
    assert answer.why.endswith("times mxnet, the next; not measured in the same rounds as jax")


def test_one_run_says_nothing_about_differences() -> None:
    assert _answer("Fastest", made_row(images_per_second_of_runs=(9.0,)), made_row(**SLOW)).sure == "not known"
    once = _answer("Fastest", made_row(images_per_second_of_runs=(90.0,)), made_row(framework="jax", **SLOW))
    assert once.sure == "not known"


def test_simulated_and_failed_cells_are_never_recommended() -> None:
    simulated = made_row(framework="jax", slow=(1.0, 2.0), marks=("simulated",), **SURE)
    failed = made_row(framework="neon", status="failed", **SURE)
    assert _answer("Fastest", made_row(**SLOW), simulated, failed).who == "torch on 1xcpu"


def test_machines_are_not_mixed() -> None:
    other = made_row(framework="jax", machine="beef", machine_description="Imaginary 9000", **SURE)
    rows = [made_row(**SLOW), other]
    found = [answer for answer in answers(rows, {}, None) if answer.question.startswith("Fastest")]
    assert [(answer.question, answer.who, answer.sure) for answer in found] == [
        ("Fastest: AMD EPYC, 2 cores, 24 GiB, Linux 6.1", "torch on 1xcpu", "not known"),
        ("Fastest: Imaginary 9000", "jax on 1xcpu", "not known"),
    ]


def test_memory_that_was_taken_early_is_not_praised() -> None:
    early = made_row(framework="jax", marks=("preallocated",), memory_mib_of_runs=(1.0, 1.0))
    none = made_row(framework="mxnet", memory_mib_of_runs=(0.0, 10.0))  # less than before the start: no ratio
    answer = _answer("Least memory", made_row(memory_mib_of_runs=(200.0, 202.0)), early, none)
    assert (answer.who, answer.value) == ("torch on 1xcpu", "201 MiB, all devices together (189–214)")


def _moments(*accuracies: float) -> list[Moment]:
    return [
        Moment(seconds=10.0 * epoch, images=epoch, train_loss=None, train_accuracy=None, test_accuracy=accuracy)
        for epoch, accuracy in enumerate(accuracies, 1)
    ]


def test_quickest_to_an_accuracy_that_all_have_reached() -> None:
    first = made_row(runs=("a", "c"), test_accuracy=Estimate(0.765), test_accuracy_of_runs=(0.76, 0.77))
    second = made_row(
        framework="jax", runs=("b", "d"), test_accuracy=Estimate(0.775), test_accuracy_of_runs=(0.8, 0.75)
    )
    times = {"a": _moments(0.2, 0.76), "b": _moments(0.8), "c": _moments(0.3, 0.77), "d": _moments(0.75)}
    assert common_target([first, second]) == 0.75
    answer = _answer("Quickest to test accuracy 0.75", first, second, times=times)
    assert (answer.who, answer.value) == ("jax on 1xcpu", "10.0 s of training (10.0–10.0)")
    alone = _answer("Quickest to test accuracy 0.76", first, second, times=times, target=0.76)
    assert (alone.who, alone.sure) == ("torch on 1xcpu", "not known")
    assert alone.why == "1 other did not reach it in every run"


def test_target_is_one_that_every_run_has_reached() -> None:
    reached = {"test_accuracy": Estimate(0.78, 0.68, 0.79), "test_accuracy_of_runs": (0.68, 0.78, 0.79)}
    uneven = made_row(runs=("a", "b", "c"), **reached)
    assert common_target([uneven]) == 0.65
    times = {"a": _moments(0.68), "b": _moments(0.78), "c": _moments(0.79)}
    assert _answer("Quickest to test accuracy 0.65", uneven, times=times).who == "torch on 1xcpu"
    assert common_target([made_row(test_accuracy_of_runs=(0.04, 0.9))]) is None
    assert common_target([made_row()]) is None


def accurate(framework: str, *accuracies: float, enough: bool) -> Row:
    """Of ten classes."""
    found = Estimate(accuracies[0])
    settings = {"test_accuracy": found, "test_accuracy_of_runs": accuracies, "chance": 0.1, "above_chance": enough}
    return made_row(
        framework=framework, runs=tuple(f"{framework}{place}" for place in range(len(accuracies))), **settings
    )


def test_no_answer_comes_from_chance() -> None:
    rows = [accurate("torch", 0.104, 0.12, enough=False), accurate("jax", 0.11, 0.13, enough=False)]
    times = {run: _moments(0.1, 0.12) for row in rows for run in row.runs}
    assert common_target(rows) is None
    answer = _answer("Quickest", *rows, times=times)
    assert (answer.question, answer.who) == ("Quickest to a test accuracy", "not trained long enough")
    assert (answer.value, answer.sure) == ("", "not known")
    assert answer.why == "a run of torch on 1xcpu ended at 0.104, and guessing gets 0.1"
    assert not [one for one in answers(rows, times, None) if one.question.startswith("Best")]


def test_what_was_not_trained_long_enough_hides_no_answer_about_the_others() -> None:
    rows = [accurate("torch", 0.71, 0.72, enough=True), accurate("jax", 0.101, 0.1, enough=False)]
    times = {run: _moments(row.of_runs(TEST_ACCURACY)[0]) for row in rows for run in row.runs}
    answer = _answer("Quickest to test accuracy 0.7", *rows, times=times)
    assert (answer.who, answer.why) == ("torch on 1xcpu", "1 other did not reach it in every run")
    best = _answer("Best", *rows, times=times)
    assert (best.who, best.why) == ("torch on 1xcpu", "1 other was not trained long enough")


def test_target_is_above_chance_for_any_number_of_classes() -> None:
    assert [least_target(1 / classes) for classes in (1000, 20, 10, 2)] == [0.05, 0.1, 0.15, 0.55]


def test_silence_has_its_reason() -> None:
    simulated, failed = made_row(slow=(1.0, 2.0), **SURE), made_row(status="failed", **SURE)
    skipped = made_row(status="skipped", repeats=0)
    for rows in ([simulated], [failed, skipped], [simulated, failed, skipped]):
        assert answers(rows, {}, None) == []
        assert silence(rows) == (
            "the only cells of this table with a result are simulated, or failed in some of their runs"
        )
    assert silence([skipped]) == "no cell of this table has a result"
