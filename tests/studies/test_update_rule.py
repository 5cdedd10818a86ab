"""The rule of a step, worked out on paper."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.studies.equivalence import update_rule
from paceline_worker.protocol import Recipe
from tests.factories import jobs as made_jobs

WEIGHTS = np.array([[10.0], [9.0], [8.0]])  # before each of two steps, and after
GRADIENTS = np.array([[1.0], [2.0]])


def test_plain_step_is_the_rate_times_the_gradient() -> None:
    assert update_rule.rule(Recipe(0.5), 0.0, WEIGHTS, GRADIENTS, (0.5, 0.1)).tolist() == [[-0.5], [-0.2]]


def test_momentum_gathers_gradients_and_their_decay() -> None:
    changes = update_rule.rule(Recipe(1.0, momentum=0.5), 0.1, WEIGHTS, GRADIENTS, (1.0, 1.0))
    assert changes.ravel() == pytest.approx([-(1 + 1.0), -(0.5 * 2.0 + 2 + 0.9)])


def test_nesterov_looks_a_step_ahead() -> None:
    changes = update_rule.rule(Recipe(1.0, momentum=0.5, nesterov=True), 0.0, WEIGHTS, GRADIENTS, (1.0, 1.0))
    assert changes.ravel() == pytest.approx([-(1 + 0.5 * 1), -(2 + 0.5 * 2.5)])


def test_steps_are_named_by_what_they_can_show() -> None:
    """The first at a set rate, then momentum, then a changed rate; and one of large gradients."""
    job = made_jobs.job(rates=(0.1, 0.1, 0.1, 0.05), recipe=Recipe(0.2))
    weights = -np.array([[0.0], [1.0], [3.0], [6.0], [10.0]])
    arrays = {
        "watched/weights/dense.bias": weights,
        "watched/gradients/dense.bias": np.ones((4, 1)),
        "large/weights/dense.bias": weights[:2],
        "large/gradients/dense.bias": np.ones((1, 1)),
    }
    assert {name: value.ravel().tolist() for name, value in update_rule.seen(job, arrays).items()} == {
        "rate/dense.bias": [-1.0],
        "momentum/dense.bias": [-2.0, -3.0],
        "schedule/dense.bias": [-4.0],
        "large step/dense.bias": [-1.0],
    }
    assert {name: value.ravel().tolist() for name, value in update_rule.ruled(job, arrays).items()} == {
        "rate/dense.bias": [-0.1],
        "momentum/dense.bias": [-0.1, -0.1],
        "schedule/dense.bias": [-0.05],
        "large step/dense.bias": [-0.2],
    }
