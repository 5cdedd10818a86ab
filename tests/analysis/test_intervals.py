"""Medians and intervals, worked out by hand, and how often they hold the truth."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from benchmarks.coverage import LEAST, RUNS, TARGETS, TRIALS, held_by_fixed, held_when_stopped, intervals
from benchmarks.noise_shapes import SHAPES, Floats, Shape
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.analysis.statistics import order_statistics, student_t
from paceline.analysis.statistics.intervals import (
    CONFIDENCE,
    FEW,
    NOISY,
    PART_DIFFERENCES,
    PARTS,
    SEQUENTIAL_CONFIDENCE,
    TERMS,
    Estimate,
    difference,
    estimate,
    ratio,
)

SPEEDS = st.lists(st.floats(0.001, 1e6), min_size=2, max_size=12)
MANY_SPEEDS = st.lists(st.floats(0.001, 1e6), min_size=FEW + 1, max_size=FEW + 5)


def bounds(value: Estimate | None) -> tuple[float, float]:
    assert value is not None
    assert value.low is not None
    assert value.high is not None
    return value.low, value.high


def test_nothing_has_no_median() -> None:
    assert estimate([]) is None


def test_single_value_has_no_interval() -> None:
    assert estimate([42.0]) == Estimate(42.0, None, None)


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert estimate([7.0, 7.0, 7.0]) == Estimate(7.0, 7.0, 7.0)


# Student's factors for a two-sided 95 % interval, from a printed table, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 8: 2.306, 11: 2.201, 30: 2.042}


@pytest.mark.parametrize(("freedom", "factor"), STUDENT.items())
def test_quantiles_are_those_of_printed_tables(freedom: int, factor: float) -> None:
    assert student_t.quantile(0.05, freedom) == pytest.approx(factor, abs=5e-4)


def test_interval_of_few_runs_by_hand() -> None:
    # Logarithms 0, ln 2 and 2 ln 2: mean ln 2, deviation ln 2, so its error is ln 2 / sqrt(3).
    reach = 2 ** (STUDENT[2] / math.sqrt(3))
    assert bounds(estimate([2.0, 1.0, 4.0])) == pytest.approx((2 / reach, 2 * reach), rel=1e-3)


def test_interval_of_few_differences_by_hand() -> None:
    # Mean 1, deviation 2; no logarithms, so there may be less than nothing.
    low, high = bounds(estimate([1.0, -1.0, 3.0], TERMS))
    reach = STUDENT[2] * 2 / math.sqrt(3)
    assert (low, high) == pytest.approx((1 - reach, 1 + reach), abs=1e-3)


def test_accuracies_stay_between_nothing_and_all() -> None:
    assert bounds(estimate([0.9, 0.98], PARTS)) == pytest.approx((0.94 - STUDENT[1] * 0.04, 1.0), abs=1e-4)
    assert bounds(estimate([0.1, 0.01], PARTS))[0] == 0.0


def test_accuracies_in_percent_are_not_taken_for_parts() -> None:
    assert estimate([93.1, 94.0, 93.5], PARTS) == estimate([93.1, 94.0, 93.5], TERMS)
    assert difference([93.0, 94.0], [91.0, 92.0], PART_DIFFERENCES) == difference([93.0, 94.0], [91.0, 92.0])


def test_accuracies_are_at_most_one_apart() -> None:
    assert bounds(difference([0.5, 0.9], [0.5, 0.6], PART_DIFFERENCES)) == (-1.0, 1.0)


def test_what_is_not_above_zero_is_taken_as_it_is() -> None:
    assert estimate([0.0, 2.0, 4.0]) == estimate([0.0, 2.0, 4.0], TERMS)


def test_no_interval_goes_beyond_a_tenth_and_ten_times_the_median() -> None:
    # Student's would be 0.0013 to 2139 million.
    assert estimate([300.0, 3000.0]) == Estimate(1650.0, 165.0, 16500.0)
    assert bounds(ratio([300.0, 3000.0], [1650.0, 1650.0])) == pytest.approx((0.1, 10.0))


@pytest.mark.parametrize(
    ("count", "outer", "share"),
    [
        (5, 0, 30 / 32),  # all five on one side of the true median: 2 of 32 cases
        (6, 0, 62 / 64),
        (6, 1, 50 / 64),  # … or five of six: 2 * (1 + 6) of 64
        (9, 1, 492 / 512),  # 2 * (1 + 9) of 512
    ],
)
def test_how_often_the_median_lies_among_ordered_values(count: int, outer: int, share: float) -> None:
    assert order_statistics.held(count, outer) == share


def test_interval_of_five_runs_is_their_range() -> None:
    assert bounds(estimate([3.0, 1.0, 2.0, 4.0, 20.0])) == pytest.approx((1.0, 20.0))


def test_interval_of_more_runs_begins_between_two_of_them() -> None:
    # Of 9, leaving out one on either side holds 96.09 %, leaving out two 82.03 %: 0.0780 of that is too much, and
    # 7 * 0.0780 / (2 + 5 * 0.0780) = 0.2285 of the way from the second value to the third is gone.
    assert bounds(estimate([float(value) for value in range(1, 10)], TERMS)) == pytest.approx(
        (2.2285, 7.7715), abs=1e-3
    )


def test_one_outlier_among_many_moves_nothing() -> None:
    calm, disturbed = [*range(1, 10)], [*range(1, 9), 1000]
    assert estimate(disturbed, TERMS) == estimate(calm, TERMS)


@pytest.mark.parametrize("confidence", [CONFIDENCE, SEQUENTIAL_CONFIDENCE])
@pytest.mark.parametrize("runs", RUNS)
def test_many_trials_at_once_have_the_intervals_of_the_tables(runs: int, confidence: float) -> None:
    stream = np.random.default_rng(runs)
    values = np.concatenate([shape(stream, (10, runs)) for shape in (*SHAPES.values(), far_apart)])
    one_by_one = [bounds(estimate(row, confidence=confidence)) for row in values.tolist()]
    assert np.transpose(intervals(values, confidence)) == pytest.approx(np.array(one_by_one), rel=1e-9)


def far_apart(stream: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """So that intervals reach their ends."""
    return np.exp(3 * stream.normal(size=shape))


@pytest.mark.parametrize("source", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("runs", RUNS[1:])
def test_an_interval_holds_the_true_median_as_often_as_it_promises(source: Shape, runs: int) -> None:
    """The tightest by nature is that of five runs: their range holds it in 30 of 32 cases, here within 0.1 of 100."""
    assert LEAST <= held_by_fixed(source, runs, TRIALS) <= CONFIDENCE + 0.02


def test_of_two_runs_it_does_so_unless_many_runs_are_disturbed() -> None:
    assert held_by_fixed(SHAPES["even"], 2, TRIALS) == pytest.approx(CONFIDENCE, abs=0.01)
    often = SHAPES["three tenths disturbed"]
    assert held_by_fixed(often, 2, TRIALS) == pytest.approx(0.89, abs=0.01)  # neither may have been, or both


@pytest.mark.parametrize("source", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("target", TARGETS)
def test_the_interval_that_ends_further_rounds_holds_it_too(source: Shape, target: float) -> None:
    assert held_when_stopped(source, target, TRIALS) >= LEAST


@pytest.mark.parametrize(("runs", "base_runs"), [(2, 2), (3, 3), (3, 12), (5, 5), (6, 13), (12, 12)])
def test_so_does_that_of_a_ratio_or_difference_however_unlike_both_scatter(runs: int, base_runs: int) -> None:
    stream = np.random.default_rng(runs)
    calm, restless = (stream.normal(size=(1500, count)) * deviation for count, deviation in ((runs, 1), (base_runs, 4)))
    pairs = list(zip(calm.tolist(), restless.tolist(), strict=True))
    differences = [bounds(difference(*pair)) for pair in pairs]
    ratios = [bounds(ratio(*(np.exp(0.02 * np.array(side)).tolist() for side in pair))) for pair in pairs]
    for found, equal in ((differences, 0.0), (ratios, 1.0)):
        assert statistics.fmean(low <= equal <= high for low, high in found) >= CONFIDENCE - 0.03


@pytest.mark.parametrize(
    ("value", "noisy"),
    [
        (Estimate(100.0, 95.0, 105.0), False),  # a tenth, and no more
        (Estimate(100.0, 95.0, 105.5), True),
        (Estimate(100.0, 100.0, 100.0), False),
        (Estimate(100.0), False),  # nothing is known about it
    ],
)
def test_interval_wider_than_a_tenth_of_the_median_is_noisy(value: Estimate, noisy: bool) -> None:
    assert value.wider_than(NOISY) == noisy


def test_ratio_is_that_of_the_medians() -> None:
    # Of [1, 50, 300] the median is 50 and of [1, 10, 11] it is 10; the mean of the ratios would be about 11.
    middle = ratio([1.0, 50.0, 300.0], [1.0, 10.0, 11.0])
    assert middle is not None
    assert middle.median == 5.0


def test_interval_of_a_ratio_by_hand() -> None:
    # Both have the error ln 2 / sqrt(3) in logarithms; together sqrt(2) times that, with 4 degrees of freedom.
    low, high = bounds(ratio([2.0, 4.0, 8.0], [1.0, 2.0, 4.0]))
    reach = 2 ** (STUDENT[4] * math.sqrt(2 / 3))
    assert (low, high) == pytest.approx((2 / reach, 2 * reach), rel=1e-3)


def test_interval_of_a_difference_of_many_runs_by_hand() -> None:
    # Medians 30 and 5, with 3 below and 1 below, 4 above and 3 above: 25 - hypot(3, 3) and 25 + hypot(4, 1).
    low, high = bounds(difference([27.0, 29.0, 30.0, 31.0, 34.0], [4.0, 5.0, 5.0, 6.0, 8.0]))
    assert (low, high) == pytest.approx((25 - 18**0.5, 25 + 17**0.5))


def test_a_side_that_does_not_scatter_leaves_the_freedom_of_the_other() -> None:
    low, high = bounds(difference([1.0, 3.0, 5.0], [1.0, 1.0, 1.0]))
    reach = STUDENT[2] * 2 / math.sqrt(3)
    assert (low, high) == pytest.approx((2 - reach, 2 + reach), abs=1e-3)


def test_interval_that_leaves_out_the_difference_of_medians_is_widened_to_it() -> None:
    # Few runs against many: means 0 and 5/12, medians 0 and 0, and the means are surely apart.
    found = difference([0.0, 0.0, 0.001], [0.0] * 7 + [1.0] * 5)
    assert found is not None
    assert (found.median, found.high) == (0.0, 0.0)
    assert found.low == pytest.approx(-5 / 12 - STUDENT[11] * 0.515 / 12**0.5, abs=2e-3)


def test_equal_values_on_both_sides_leave_no_doubt() -> None:
    assert ratio([6.0, 6.0], [3.0, 3.0]) == Estimate(2.0, 2.0, 2.0)
    assert difference([6.0, 6.0], [3.0, 3.0]) == Estimate(3.0, 3.0, 3.0)


def test_ratio_with_a_single_value_has_no_interval() -> None:
    assert ratio([30.0], [10.0, 20.0]) == Estimate(2.0)
    assert ratio([30.0, 30.0], [10.0]) == Estimate(3.0)


def test_difference_is_that_of_the_medians() -> None:
    found = difference([20.0, 40.0, 90.0], [10.0, 10.0, 60.0])
    assert found is not None
    assert found.median == 30.0
    assert difference([3.0], [1.0, 2.0]) == Estimate(1.5)


def test_nothing_cannot_be_compared() -> None:
    assert difference([], [1.0]) is None
    assert difference([1.0], []) is None
    assert ratio([], [10.0]) is None
    assert ratio([10.0], []) is None


@given(SPEEDS)
@settings(deadline=None)
def test_median_lies_in_its_interval(values: list[float]) -> None:
    found = estimate(values)
    assert found is not None
    low, high = bounds(found)
    assert 0 < low <= found.median <= high


@given(MANY_SPEEDS)
@settings(deadline=None, max_examples=30)
def test_interval_of_many_runs_lies_among_them(values: list[float]) -> None:
    low, high = bounds(estimate(values))
    assert min(values) * (1 - 1e-9) <= low <= high <= max(values) * (1 + 1e-9)


@given(SPEEDS, st.sampled_from([0.125, 0.5, 2.0, 1024.0]))
@settings(deadline=None)
def test_other_unit_gives_the_same_estimate(values: list[float], factor: float) -> None:
    found = estimate([factor * value for value in values])
    assert found is not None
    assert [end / factor for end in bounds(found)] == pytest.approx(list(bounds(estimate(values))), rel=1e-6)


@given(SPEEDS, SPEEDS, st.sampled_from([0.5, 8.0]))
@settings(deadline=None, max_examples=50)
def test_ratio_does_not_depend_on_the_unit(values: list[float], base: list[float], factor: float) -> None:
    scaled = ratio([factor * value for value in values], [factor * value for value in base])
    assert bounds(scaled) == pytest.approx(bounds(ratio(values, base)), rel=1e-6)


@given(SPEEDS)
@settings(deadline=None, max_examples=20)
def test_order_of_runs_changes_nothing(values: list[float]) -> None:
    assert estimate(values[::-1]) == estimate(values)
