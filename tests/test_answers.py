"""What a report recommends, and how sure it says that is; answers worked out by hand."""

from __future__ import annotations

from paceline.findings import findings
from paceline.metrics import Row
from paceline.series import Moment
from paceline.stats import Estimate
from paceline.web.answers import Answer, Times, answers, common_target
from tests.made_rows import made_row

SURE = {"images_per_second": Estimate(100.0, 99.0, 101.0), "images_per_second_of_runs": (99.0, 100.0, 101.0, 100.0)}
SLOW = {"images_per_second": Estimate(50.0, 49.0, 51.0), "images_per_second_of_runs": (49.0, 50.0, 51.0, 50.0)}


def _answer(question: str, *rows: Row, times: Times | None = None, target: float | None = None) -> Answer:
    found = answers(rows, findings(rows), times or {}, target)
    return next(answer for answer in found if answer.question.startswith(question))


def test_fastest_is_named_with_its_interval_and_the_next() -> None:
    answer = _answer("Fastest", made_row(**SLOW), made_row(framework="jax", **SURE))
    assert (answer.who, answer.value, answer.sure) == ("jax on 1xcpu", "100 images/s (99.0–101)", "clear")
    assert answer.why.startswith("2.00 (")
    assert answer.why.endswith("times torch, the next on the same devices")


def test_equals_are_not_ranked() -> None:
    near = made_row(framework="jax", images_per_second_of_runs=(99.5, 100.5, 101.0, 99.0))
    answer = _answer("Fastest", made_row(**SURE), near)
    assert answer.sure == "cannot tell"
    assert answer.who in ("torch or jax on 1xcpu", "jax or torch on 1xcpu")
    assert answer.value.startswith(answer.who.split()[0])  # whose number it is


def test_other_devices_with_an_interval_that_overlaps_are_rivals() -> None:
    two = made_row(devices="2xcpu", device_count=2, images_per_second_of_runs=(99.0, 100.5, 102.0, 101.0))
    answer = _answer("Fastest", made_row(**SURE), two)
    assert (answer.who, answer.sure) == ("torch on 2xcpu or torch on 1xcpu", "cannot tell")


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
    found = [answer for answer in answers(rows, findings(rows), {}, None) if answer.question.startswith("Fastest")]
    assert [(answer.question, answer.who, answer.sure) for answer in found] == [
        ("Fastest: AMD EPYC, 2 cores, 24 GiB, Linux 6.1", "torch on 1xcpu", "not known"),
        ("Fastest: Imaginary 9000", "jax on 1xcpu", "not known"),
    ]


def test_memory_that_was_taken_early_is_not_praised() -> None:
    early = made_row(framework="jax", marks=("preallocated",), memory_mib_of_runs=(1.0, 1.0))
    answer = _answer("Least memory", made_row(memory_mib_of_runs=(200.0, 202.0)), early)
    assert (answer.who, answer.value) == ("torch on 1xcpu", "201 MiB, all devices together (200–202)")


def _moments(*accuracies: float) -> list[Moment]:
    return [
        Moment(seconds=10.0 * epoch, images=epoch, train_loss=None, train_accuracy=None, test_accuracy=accuracy)
        for epoch, accuracy in enumerate(accuracies, 1)
    ]


def test_quickest_to_an_accuracy_that_all_have_reached() -> None:
    first = made_row(runs=("a", "b"), test_accuracy=Estimate(0.78))
    second = made_row(framework="jax", runs=("c", "d"), test_accuracy=Estimate(0.93))
    times = {"a": _moments(0.2, 0.76), "b": _moments(0.3, 0.77), "c": _moments(0.8), "d": _moments(0.75)}
    assert common_target([first, second]) == 0.75
    answer = _answer("Quickest to test accuracy 0.75", first, second, times=times)
    assert (answer.who, answer.value) == ("jax on 1xcpu", "10.0 s of training (10.0–10.0)")
    assert _answer("Quickest to test accuracy 0.76", first, second, times=times, target=0.76).who == "torch on 1xcpu"
