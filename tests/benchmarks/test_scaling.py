"""The benchmark of the exchange: its ratios against answers worked out on paper."""

from __future__ import annotations

from argparse import Namespace

import pytest
from benchmarks.comparison import verdict
from benchmarks.scaling import APART, TOGETHER, Trained, efficiency, in_turn, planned, target_of


def trained(*speeds: tuple[str, int, float]) -> list[Trained]:
    """Three rounds in which all is equally fast."""
    return [Trained(repeat, "torch", *each) for repeat in range(3) for each in speeds]


def test_exchange_is_judged_by_speeds_on_two_devices() -> None:
    runs = trained((TOGETHER, 1, 100.0), (TOGETHER, 2, 171.0), (APART, 2, 180.0))
    target = target_of(runs, "torch")
    assert target.measured
    assert target.measured.median == pytest.approx(0.95)
    assert verdict(target) == "met"
    found = efficiency(runs, "torch", APART)
    assert found
    assert found.median == pytest.approx(0.9)


def test_costly_exchange_misses_the_target() -> None:
    runs = trained((TOGETHER, 1, 100.0), (TOGETHER, 2, 150.0), (APART, 2, 180.0))
    assert verdict(target_of(runs, "torch")) == "not met"


def test_runs_of_a_framework_are_neighbours_and_one_device_runs_once() -> None:
    options = Namespace(workload="cifar10-conv", framework="torch,jax", batch_per_device=8, steps=5, rounds=2)
    order = in_turn(planned(options).runs)
    assert [run.repeat for run in order] == [0] * 6 + [1] * 6
    assert [run.cell.framework for run in order[:6]] == ["jax"] * 3 + ["torch"] * 3
    assert sorted((run.cell.device_set.count, run.cell.update) for run in order[:3]) == [
        (1, TOGETHER),
        (2, APART),
        (2, TOGETHER),
    ]
