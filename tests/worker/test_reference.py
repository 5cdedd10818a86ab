"""The judge itself is judged: its gradients against finite differences, its step against the rule on paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paceline_worker import probe
from paceline_worker.data import fake_batch
from paceline_worker.frameworks.reference.backend import FrameworkBackend, cross_entropy
from paceline_worker.frameworks.reference.builder import in_bfloat16
from paceline_worker.graph import Dense, Graph, Init, Input
from paceline_worker.place import find_place
from paceline_worker.protocol import Job, Recipe
from paceline_worker.weights import Weights, initial_weights
from tests.factories import jobs as made_jobs
from tests.factories.every_layer import every_layer
from tests.factories.jobs import small_graph

STEP = 1e-5


def reference(graph: Graph, recipe: Recipe, devices: int) -> tuple[FrameworkBackend, Job]:
    job = made_jobs.job(
        graph=graph.to_json(),
        classes=5,
        recipe=recipe,
        devices=tuple(f"cpu:{index}" for index in range(devices)),
        cores=tuple((0,) for _ in range(devices)),
        shares=(6,) * devices,
    )
    backend = FrameworkBackend(job, find_place(job, {}))
    backend.build(graph, initial_weights(graph, seed=5))
    return backend, job


def loss_with(backend: FrameworkBackend, weights: Weights, batch: object) -> float:
    backend.write_weights(weights)
    backend.train_step(batch)
    (loss,) = backend.losses()
    return loss


@pytest.mark.parametrize("devices", [1, 2])
def test_gradients_are_those_of_finite_differences(devices: int) -> None:
    backend, job = reference(every_layer(), Recipe(learning_rate=0.0), devices)
    batch = backend.to_device(backend.to_host(*fake_batch(job, find_place(job, {}), 0)))
    gradients = backend.gradients(batch)
    weights = backend.read_weights()
    pick = np.random.RandomState(0)
    for name, gradient in gradients.items():
        for _ in range(3):
            place = tuple(int(pick.randint(size)) for size in gradient.shape)
            up, down = ({**weights, name: weights[name].copy()} for _ in range(2))
            up[name][place] += STEP
            down[name][place] -= STEP
            slope = (loss_with(backend, up, batch) - loss_with(backend, down, batch)) / (2 * STEP)
            assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-7), name


def test_cross_entropy_by_hand() -> None:
    values, slope = cross_entropy(np.log(np.array([[1.0, 3.0], [1.0, 1.0]])), np.array([1, 0]))
    np.testing.assert_allclose(values, [np.log(4 / 3), np.log(2)])
    np.testing.assert_allclose(slope, [[0.25, -0.25], [-0.5, 0.5]])


def test_two_steps_of_momentum_and_decay_by_hand() -> None:
    """One weight pair, no slope of the loss: only decay pulls. v1 = 0.5w, w1 = w - 0.1 v1; v2 = 0.9 v1 + 0.5 w1."""
    graph = Graph()
    graph.add("logits", Dense(1, bias=False, init=Init("constant", 2.0)), graph.add("in", Input((1,))))
    graph.lose("logits")
    recipe = Recipe(learning_rate=0.1, momentum=0.9, weight_decay=0.5, decayed=("dense.kernel",))
    backend, _ = reference(graph, recipe, 1)
    batch = backend.to_device((np.ones((6, 1)), np.zeros(6, dtype=int)))  # one class: its chance is 1, its slope 0
    backend.train_step(batch)
    assert backend.read_weights()["logits.kernel"].item() == pytest.approx(2 - 0.1 * 1.0)
    backend.train_step(batch)
    assert backend.read_weights()["logits.kernel"].item() == pytest.approx(1.9 - 0.1 * (0.9 * 1.0 + 0.5 * 1.9))


@pytest.mark.parametrize("shares", [(8, 4), (2, 10)])
def test_every_image_counts_the_same_whatever_the_shares(shares: tuple[int, ...]) -> None:
    """Without batch normalisation, several devices of any shares do what one with the whole batch does."""
    unequal, whole = (trained(small_graph(), parts) for parts in (shares, (12,)))
    assert unequal["losses"] == pytest.approx(whole["losses"])
    for name in ("gradient", "final"):
        np.testing.assert_allclose(unequal[f"{name}/dense.kernel"], whole[f"{name}/dense.kernel"], rtol=1e-12)


def trained(graph: Graph, shares: tuple[int, ...]) -> dict[str, Any]:
    devices = tuple(f"cpu:{index}" for index in range(len(shares)))
    job = made_jobs.job(
        graph=graph.to_json(), devices=devices, cores=((0,),) * len(shares), shares=shares, rates=(0.1, 0.05)
    )
    place = find_place(job, {})
    backend, weights = FrameworkBackend(job, place), initial_weights(graph, job.seed)
    backend.build(graph, weights)
    batch = probe.device_batch(backend, job, place, 0)
    return {**probe.look(backend, batch), **probe.train(backend, job, place, weights)}


def test_products_of_bfloat16_take_what_it_makes_of_weights_and_inputs() -> None:
    exact = np.array([1.0, 1 + 2.0**-7, -(1 + 2.0**-7), 0.0, 3.0 * 2.0**20])  # eight bits of mantissa
    np.testing.assert_array_equal(in_bfloat16(exact), exact)
    np.testing.assert_array_equal(in_bfloat16(1 + np.array([2.0**-9, 2.0**-8, 3 * 2.0**-8])), [1, 1, 1 + 2.0**-6])
    values = np.random.RandomState(0).standard_normal(10_000)
    assert 0.9 * 2.0**-8 < np.max(np.abs(in_bfloat16(values) / values - 1)) <= 2.0**-8
    job = made_jobs.job(graph=small_graph().to_json(), precision="bfloat16")
    backend, weights = FrameworkBackend(job, find_place(job, {})), initial_weights(small_graph(), 0)
    backend.build(small_graph(), weights)
    images, labels = np.random.RandomState(1).standard_normal((6, 2, 2, 1)), np.zeros(6, int)
    seen = backend.outputs(backend.to_device((images, labels)))
    rounded = in_bfloat16(images.reshape(6, 4)) @ in_bfloat16(weights["dense.kernel"])
    np.testing.assert_allclose(seen["dense"], rounded + in_bfloat16(weights["dense.bias"]), rtol=1e-12)
