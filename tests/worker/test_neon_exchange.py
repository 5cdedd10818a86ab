"""What neon's ranks make of their gradients, without neon: real processes and sockets, and numbers of NumPy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.run.launchers import held_port
from paceline_worker.protocol import JOB_FILE, Job, Recipe, arrays_file
from tests.docs.documented import ROOT

AGREEING = ("replicated", "parameter_server")
SHARES = [(8, 8), (12, 4), (43, 43, 42), (1, 9, 6)]
RATE, MOMENTUM, STEPS = 0.05, 0.9, 5
Numbers = NDArray[np.float64]
pytestmark = pytest.mark.slow


def batch(count: int) -> tuple[Numbers, Numbers]:
    """Later images weigh more, so that it matters whose they are and how many a rank has."""
    random = np.random.default_rng(count)
    size = np.linspace(0.1, 2.0, count)[:, np.newaxis]
    return size * random.normal(size=(count, 4)), size * random.normal(size=(count, 3))


def mean_gradient(images: Numbers, wanted: Numbers, weights: Numbers) -> Numbers:
    total = np.zeros_like(weights)
    for image, target in zip(images, wanted, strict=True):
        total += np.outer(image, image @ weights - target)
    return total / len(images)


def one_device(images: Numbers, wanted: Numbers) -> Numbers:
    """Trained on all of them."""
    weights = velocity = np.zeros((4, 3))
    for _ in range(STEPS):
        velocity = MOMENTUM * velocity + mean_gradient(images, wanted, weights)
        weights = weights - RATE * velocity
    return weights


def ranks(folder: Path, update: str, shares: tuple[int, ...], *, wrapped: bool = False) -> list[dict[str, Numbers]]:
    """What each has in the end."""
    (folder / JOB_FILE).write_text(json.dumps(job(update, shares, wrapped=wrapped).to_json()))
    images, wanted = batch(sum(shares))
    np.savez(folder / "batch.npz", images=images.astype(np.float32), wanted=wanted.astype(np.float32))
    size = len(shares)
    with held_port() as port:
        meeting = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PACELINE_RUN": "it"}
        command = [sys.executable, "-m", "tests.worker.neon_rank", str(folder)]
        started = [
            subprocess.Popen(command, cwd=ROOT, env={**os.environ, **meeting, "RANK": str(rank)})
            for rank in range(size)
        ]
        assert [process.wait(120) for process in started] == [0] * size
    return [dict(np.load(arrays_file(folder, rank))) for rank in range(size)]


def job(update: str, shares: tuple[int, ...], *, wrapped: bool) -> Job:
    return Job(
        framework="neon",
        mode="",
        graph={},
        classes=3,
        recipe=Recipe(learning_rate=RATE, momentum=MOMENTUM),
        devices=tuple(f"cpu:{index}" for index in range(len(shares))),
        cores=((0,),) * len(shares),
        shares=shares,
        update=update,
        data="fake:host",
        precision="float32",
        seed=1,
        steps=STEPS,
        warmup=0,
        block_steps=STEPS,
        patience_seconds=60.0,
        epoch_images=1000,
        wrapped=wrapped,
    )


def assert_close(found: Numbers, expected: Numbers) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("update", AGREEING)
@pytest.mark.parametrize("shares", SHARES, ids=str)
def test_every_image_counts_the_same_whatever_the_shares(tmp_path: Path, update: str, shares: tuple[int, ...]) -> None:
    images, wanted = batch(sum(shares))
    first, *others = ranks(tmp_path, update, shares)
    assert_close(first["weights"], one_device(images, wanted))
    for other in others:
        assert other["weights"].tobytes() == first["weights"].tobytes()


@pytest.mark.parametrize("update", AGREEING)
def test_gradient_that_is_looked_at_is_the_mean_over_all_images(tmp_path: Path, update: str) -> None:
    images, wanted = batch(16)
    expected = mean_gradient(images, wanted, np.zeros((4, 3)))
    for rank in ranks(tmp_path, update, (12, 4)):
        assert_close(rank["gradient"], expected)


@pytest.mark.parametrize("update", AGREEING)
def test_statistics_are_the_mean_of_the_ranks_in_their_shapes(tmp_path: Path, update: str) -> None:
    for rank in ranks(tmp_path, update, (7, 5, 4)):
        np.testing.assert_array_equal(rank["mean"], np.ones((2, 3)))
        np.testing.assert_array_equal(rank["variance"], [10.0])


def test_independent_rank_has_its_own_images_and_statistics_alone(tmp_path: Path) -> None:
    images, wanted = batch(16)
    parts = slice(0, 12), slice(12, 16)
    for number, (rank, mine) in enumerate(zip(ranks(tmp_path, "independent", (12, 4)), parts, strict=True)):
        assert_close(rank["weights"], one_device(images[mine], wanted[mine]))
        assert_close(rank["gradient"], mean_gradient(images[mine], wanted[mine], np.zeros((4, 3))))
        np.testing.assert_array_equal(rank["mean"], np.full((2, 3), number))


@pytest.mark.parametrize("update", AGREEING)
@pytest.mark.parametrize("wrapped", [False, True])
def test_one_rank_is_one_device(tmp_path: Path, update: str, wrapped: bool) -> None:
    (only,) = ranks(tmp_path, update, (16,), wrapped=wrapped)
    assert_close(only["weights"], one_device(*batch(16)))
