"""Mistakes that hide: behind a zero, a large number, a small step or a layer that is not there. Verify sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.mutants.judging import reference
from benchmarks.mutants.wrong import KINDS, Faithful

from paceline.studies.equivalence.probing import Arrays
from paceline.studies.equivalence.tolerances import findings_of
from paceline.studies.equivalence.verify import gently
from paceline_worker import probe
from paceline_worker.frameworks.reference.backend import FrameworkBackend
from paceline_worker.graph import BatchNorm, Conv, Dense, GlobalPool, Graph, Input, Relu
from paceline_worker.place import find_place
from paceline_worker.probing_weights import probing_weights, strained
from paceline_worker.protocol import Job, Recipe
from paceline_worker.weights import initial_weights
from tests.factories import jobs as made_jobs

RECIPE = Recipe(learning_rate=0.05, momentum=0.9, weight_decay=1e-2, decayed=("conv.kernel", "dense.kernel"))


def small(norm: BatchNorm = BatchNorm(epsilon=1e-5, decay=0.9), size: int = 10, *, bias: bool = True) -> Graph:
    """A convolution with its normalisation and a dense layer."""
    graph = Graph()
    conv = graph.add("conv", Conv(8, (3, 3)), graph.add("images", Input((size, size, 3))))
    relu = graph.add("relu", Relu(), graph.add("norm", norm, conv))
    return graph.lose(graph.add("logits", Dense(5, bias=bias), graph.add("pool", GlobalPool(), relu)))


def job_of(graph: Graph) -> Job:
    job = made_jobs.job(
        graph=graph.to_json(), classes=5, recipe=RECIPE, devices=("cpu:0",), cores=((0,),), shares=(12,), seed=3
    )
    return gently(job, reference(job, {}, "probe whole"))


def shown(
    job: Job, recipe: Recipe = RECIPE, graph: Graph | None = None, kind: str = "Faithful", **about: Any
) -> Arrays:
    """What a backend shows that is right but for what is said."""
    place = find_place(job, {})
    backend = KINDS[kind](FrameworkBackend(replace(job, recipe=recipe), place), job, about)
    weights = probing_weights(Graph.from_json(job.graph), job.seed)
    backend.build(graph or Graph.from_json(job.graph), weights)
    return probe.everything(backend, job, place, weights)


def first_divergence(job: Job, arrays: Arrays) -> tuple[str, str | None] | None:
    truth = reference(job, {}, "probe whole")
    found = findings_of(arrays, truth, job, reference)
    return next(((finding.quantity, finding.diverges_at) for finding in found if finding.diverges_at), None)


def test_what_is_right_raises_no_alarm() -> None:
    job = job_of(small())
    assert first_divergence(job, shown(job)) is None


@pytest.mark.parametrize(("role", "place"), [("bias", "logits.bias"), ("beta", "norm.beta"), ("gamma", "norm.gamma")])
def test_decay_shows_on_what_starts_as_a_constant(role: str, place: str) -> None:
    """On a bias of zero there is nothing to decay."""
    job = job_of(small())
    wrong = replace(RECIPE, decayed=(*RECIPE.decayed, role))
    assert first_divergence(job, shown(job, wrong)) == ("update", place)


def test_epsilon_shows_beside_a_variance_of_one() -> None:
    job = job_of(small())
    other = small(BatchNorm(epsilon=1.3e-5, decay=0.9))
    assert first_divergence(job, shown(job, graph=other)) == ("strained", "norm")


def test_biased_running_variance_shows_although_it_is_of_a_thousand_values() -> None:
    job = job_of(small(size=22))  # of 12 * 20 * 20 values: one part in 4800
    other = small(BatchNorm(epsilon=1e-5, decay=0.9, unbiased_running_variance=False), size=22)
    assert first_divergence(job, shown(job, graph=other)) == ("statistics", "norm.variance")


@pytest.mark.parametrize(
    ("about", "quantity"),
    [
        ({"rule": "clip norm", "limit": 5.0}, "large step"),
        ({"rule": "second step", "factor": 1.1}, "momentum"),
        ({"rule": "dampened later"}, "momentum"),
        ({"rule": "decoupled"}, "momentum"),
        ({"rule": "rate inside"}, "schedule"),
        ({"rule": "forgotten"}, "schedule"),
        ({"rule": "kept"}, "rate"),
    ],
)
def test_rule_of_a_step_is_named_by_the_step_that_shows_it(about: dict[str, Any], quantity: str) -> None:
    job = job_of(small())
    found = first_divergence(job, shown(job, kind="Rule", **about))
    assert found is not None
    assert found[0] == quantity


def test_the_same_rule_written_down_again_raises_no_alarm() -> None:
    job = job_of(small())
    assert first_divergence(job, shown(job, kind="Rule", rule="right")) is None


def test_parameter_that_the_network_does_not_have_is_named() -> None:
    job = job_of(small(bias=False))
    assert first_divergence(job, shown(job, graph=small())) == ("gradient", "logits.bias")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda array: None,
        lambda array: array[:, :-1],
        lambda array: array * float("nan"),
    ],
    ids=["missing", "of another shape", "no number"],
)
def test_layer_that_cannot_be_judged_is_named_and_the_others_are_judged(spoil: Callable[[Any], Any]) -> None:
    """The reference goes on from its own output there."""
    job = job_of(small())
    arrays = shown(job)
    found = spoil(arrays.pop("output/norm"))
    if found is not None:
        arrays["output/norm"] = found
    assert first_divergence(job, arrays) == ("output", "norm")


def test_probing_weights_move_constants_and_nothing_else() -> None:
    graph = small(BatchNorm(epsilon=1e-3, decay=0.9, trained_gamma=False))
    first, probing = initial_weights(graph, 1), probing_weights(graph, 1)
    moved = {name for name in first if not np.array_equal(first[name], probing[name])}
    assert moved == {"norm.beta", "norm.mean", "norm.variance", "logits.bias"}
    assert (probing["norm.variance"] > 0).all()


def test_strained_weights_bring_what_is_normalised_near_to_epsilon() -> None:
    job = job_of(small())
    graph = small()
    weights = probing_weights(graph, job.seed)
    hard = strained(graph, weights)
    assert hard.brightness == 1.0
    np.testing.assert_array_equal(hard.weights["logits.kernel"], weights["logits.kernel"])
    factors = np.unique(hard.weights["conv.kernel"] / weights["conv.kernel"])
    assert len(factors) == 1
    assert np.log2(factors[0]) == round(np.log2(factors[0]))
    variance = shown(job)["strained/conv"].var((0, 1, 2))
    assert 0.05 < np.median(variance) / 1e-5 < 20


def test_images_that_are_normalised_at_once_are_darkened() -> None:
    graph = Graph()
    norm = graph.add("norm", BatchNorm(epsilon=1e-5, decay=0.9), graph.add("images", Input((4, 4, 3))))
    graph.lose(graph.add("logits", Dense(5), graph.add("pool", GlobalPool(), norm)))
    assert strained(graph, probing_weights(graph, 1)).brightness == 2.0**-8


def test_images_are_bright_where_nothing_is_normalised() -> None:
    graph = Graph()
    graph.lose(graph.add("logits", Dense(5), graph.add("pool", GlobalPool(), graph.add("images", Input((4, 4, 3))))))
    weights = probing_weights(graph, 1)
    hard = strained(graph, weights)
    assert hard.brightness == 64.0
    np.testing.assert_array_equal(hard.weights["logits.kernel"], weights["logits.kernel"])
    job = job_of(graph)
    assert first_divergence(job, shown(job)) is None
    assert first_divergence(job, shown(job, kind="Rule", rule="clip norm", limit=5.0)) == (
        "large step",
        "logits.kernel",
    )


def test_faithful_stage_shows_all_that_the_contract_asks() -> None:
    assert not Faithful.__abstractmethods__
