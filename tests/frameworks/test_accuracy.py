"""Training on real images, as a user starts it: the same for every framework, and every test image counted once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paceline.catalog.frameworks import all_frameworks, find
from paceline.environments.virtual_environments import hindrance
from tests.factories.command_line import CommandLine

REAL = [name for name, framework in all_frameworks().items() if not framework.hidden]
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("cifar10")]


def run(paceline: CommandLine, *words: str) -> list[dict[str, Any]]:
    """Each device on one core: what it computes is the same, and threads of several would wait for each other."""
    ended = paceline("run", *words, "--cores-per-device", "1", "--warmup", "1", "--repeats", "1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return paceline.rows()


def losses(paceline: CommandLine, run_id: str) -> list[float]:
    (blocks,) = paceline.trained(run_id)
    return [loss for block in blocks for loss in block["losses"]]


@pytest.mark.parametrize(
    ("framework", "devices"), [("fake", "1xcpu,2xcpu,3xcpu"), ("torch", "1xcpu,3xcpu"), ("jax", "1xcpu,3xcpu")]
)
def test_every_test_image_is_counted_once(paceline: CommandLine, framework: str, devices: str) -> None:
    """Batches of 102 images, of which the last of the test is not full: its four go to three devices as 2, 1 and 1."""
    flags = ("--framework", framework, "--devices", devices, "--data", "cifar10", "--evaluate", "end")
    rows = run(paceline, "cifar10-conv", *flags, "--steps", "3", "--batch-size", "102")
    assert [row["devices"] for row in rows] == devices.split(",")
    for row in rows:
        evaluations = paceline.of_kind(row["runs"][0], "evaluation")
        assert [len(rank) for rank in evaluations] == [1] * len(evaluations)
        assert sum(rank[0]["images"] for rank in evaluations) == 10_000
        if framework == "fake":
            assert row["test_accuracy"]["median"] == 0.5  # it knows the classes with even numbers


@pytest.mark.parametrize("framework", ["torch", "mxnet", "neon"])
def test_every_test_image_is_counted_once_by_unlike_shares_of_an_odd_batch(
    paceline: CommandLine, framework: str
) -> None:
    if reason := hindrance(find(framework).framework):
        pytest.skip(reason)
    flags = ("--framework", framework, "--devices", "3xcpu", "--shares", "34:34:33", "--data", "cifar10")
    (row,) = run(paceline, "cifar10-conv", *flags, "--evaluate", "end", "--steps", "3", "--batch-size", "101")
    assert row["shares"] == [34, 34, 33]
    evaluations = paceline.of_kind(row["runs"][0], "evaluation")
    assert sum(event["images"] for rank in evaluations for event in rank) == 10_000


def test_first_hundred_losses_on_real_images_agree(paceline: CommandLine) -> None:
    """At a tenth of the recipe's rate. At the full one no two programs can: rounding grows from step to step.

    PyTorch in float32 is then 4 % away from PyTorch in float64 within the hundred steps; at a fifth of it, 0.9 %.
    """
    names = ["torch", "jax", "tensorflow", "mxnet"]
    flags = ("--framework", ",".join(names), "--data", "cifar10", "--steps", "100", "--lr", "0.001")
    rows = run(paceline, "cifar10-conv", *flags)
    found = {row["framework"]: losses(paceline, row["runs"][0]) for row in rows}
    assert found["torch"][-1] < 0.9 * found["torch"][0]  # it learns
    for name in names:
        assert len(found[name]) == 100
        np.testing.assert_allclose(found[name], found["torch"], rtol=1e-2, err_msg=name)


@pytest.mark.parametrize("framework", REAL)
def test_same_seed_gives_the_same_losses_twice(paceline: CommandLine, framework: str) -> None:
    """On one device; bit by bit."""
    if reason := hindrance(find(framework).framework):
        pytest.skip(reason)
    flags = ("--framework", framework, "--data", "cifar10", "--steps", "5", "--batch-size", "32")
    (first,), (second,) = (run(paceline, "cifar10-conv", *flags, "--again") for _ in range(2))
    assert first["runs"] != second["runs"]
    assert losses(paceline, first["runs"][0]) == losses(paceline, second["runs"][0])
