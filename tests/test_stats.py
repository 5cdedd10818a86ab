"""Medians and intervals, worked out by hand where the resamples can be counted."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.stats import CONFIDENCE, ENOUGH_RUNS, NOISY, RESAMPLES, Estimate, estimate, range_confidence, ratio

SPEEDS = st.lists(st.floats(0.001, 1e6), min_size=2, max_size=12)


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


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # Of the four resamples of two values, one has the smaller twice and one the larger: both ends are in 95 %.
        ([10.0, 20.0], Estimate(15.0, 10.0, 20.0)),
        # The least value is the median of 7 in 27 resamples of three, more than 2.5 %.
        ([3.0, 1.0, 2.0], Estimate(2.0, 1.0, 3.0)),
        # … and of 5.8 % of those of five: three, four or five of its kind.
        ([1.0, 2.0, 3.0, 4.0, 100.0], Estimate(3.0, 1.0, 100.0)),
        # Of nine, the least is it in 0.1 % and the least two in 3.0 %: the second and the eighth bound 95 %.
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], Estimate(5.0, 2.0, 8.0)),
    ],
    ids=["two", "three", "five", "nine"],
)
def test_interval_by_counting_resamples(values: list[float], expected: Estimate) -> None:
    assert estimate(values) == expected


@pytest.mark.parametrize("runs", range(2, ENOUGH_RUNS + 1))
def test_interval_of_few_runs_is_their_range_and_holds_the_median_as_often_as_a_range_can(runs: int) -> None:
    tables = np.random.default_rng(runs).normal(size=(2000, runs))  # of a source whose median is 0
    assert estimate(tables[0].tolist()) == Estimate(float(np.median(tables[0])), tables[0].min(), tables[0].max())
    held = np.mean((tables.min(axis=1) <= 0) & (tables.max(axis=1) >= 0))
    assert held == pytest.approx(range_confidence(runs), abs=0.03)


def test_one_outlier_among_nine_moves_nothing() -> None:
    assert estimate([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1000.0]) == Estimate(5.0, 2.0, 8.0)


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
    assert ratio([20.0, 40.0], [10.0, 10.0]) == Estimate(3.0, 2.0, 4.0)
    # Of [1, 50, 300] the median is 50 and of [1, 10, 11] it is 10; the mean of the ratios would be about 11.
    middle = ratio([1.0, 50.0, 300.0], [1.0, 10.0, 11.0])
    assert middle is not None
    assert middle.median == 5.0


def test_both_sides_of_a_ratio_are_resampled_apart() -> None:
    # One resample in sixteen pairs the 10 of one side with the 20 of the other, more than 2.5 %.
    assert ratio([10.0, 20.0], [10.0, 20.0]) == Estimate(1.0, 0.5, 2.0)


def test_ratio_with_a_single_value_has_no_interval() -> None:
    assert ratio([30.0], [10.0, 20.0]) == Estimate(2.0)
    assert ratio([30.0, 30.0], [10.0]) == Estimate(3.0)


def test_ratio_of_nothing_is_unknown() -> None:
    assert ratio([], [10.0]) is None
    assert ratio([10.0], []) is None


@given(SPEEDS)
@settings(deadline=None)
def test_median_lies_in_its_interval_and_that_among_the_values(values: list[float]) -> None:
    found = estimate(values)
    assert found is not None
    low, high = bounds(found)
    assert min(values) <= low <= found.median <= high <= max(values)


@given(SPEEDS, st.sampled_from([0.125, 0.5, 2.0, 1024.0]))
@settings(deadline=None)
def test_other_unit_gives_the_same_estimate(values: list[float], factor: float) -> None:
    found = estimate(values)
    assert found is not None
    low, high = bounds(found)
    scaled = Estimate(factor * found.median, factor * low, factor * high)  # exact: the factors are powers of two
    assert estimate([factor * value for value in values]) == scaled


@given(SPEEDS, SPEEDS, st.sampled_from([0.5, 8.0]))
@settings(deadline=None, max_examples=50)
def test_ratio_does_not_depend_on_the_unit(values: list[float], base: list[float], factor: float) -> None:
    scaled = ratio([factor * value for value in values], [factor * value for value in base])
    assert scaled == ratio(values, base)


@given(SPEEDS)
@settings(deadline=None, max_examples=20)
def test_same_values_give_the_same_report(values: list[float]) -> None:
    assert estimate(values) == estimate(values)


def resampled(values: Sequence[float], seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The bootstrap as a textbook has it: pick as many values as there are, take their median, again and again."""
    picks = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    medians: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = np.median(np.asarray(values)[picks], axis=1)
    return medians


def within(samples: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float, float]:
    low, high = np.quantile(samples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


@given(SPEEDS)
@settings(deadline=None, max_examples=30)
def test_interval_is_that_of_the_plain_bootstrap_to_the_last_bit(values: list[float]) -> None:
    assert estimate(values) == Estimate(statistics.median(values), *within(resampled(values, seed=0)))


@given(SPEEDS, SPEEDS)
@settings(deadline=None, max_examples=30)
def test_so_is_that_of_a_ratio(values: list[float], base: list[float]) -> None:
    middle = statistics.median(values) / statistics.median(base)
    expected = Estimate(middle, *within(resampled(values, seed=0) / resampled(base, seed=1)))
    assert ratio(values, base) == expected
