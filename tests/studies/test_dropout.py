"""Dropout by chance: what chance may do raises no alarm, and each way to get it wrong does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.mutants.judging import reference
from numpy.typing import NDArray

from paceline.studies.equivalence import dropout
from paceline.studies.equivalence.probing import Arrays
from paceline_worker.graph import Conv, Dense, Dropout, Flatten, Graph, Input, Relu
from paceline_worker.probing_weights import probing_weights
from paceline_worker.protocol import Job
from tests.factories import jobs as made_jobs

Array = NDArray[np.float64]
Drop = Callable[[np.random.Generator, Array, float], Array]
PASSES = 4


def dropping_net() -> Graph:
    """Dropout on maps, and before the last layer."""
    graph = Graph()
    source = graph.add("relu", Relu(), graph.add("conv", Conv(12, (3, 3)), graph.add("images", Input((8, 8, 3)))))
    source = graph.add("flat", Flatten(), graph.add("map_dropout", Dropout(0.2), source))
    source = graph.add("hidden_relu", Relu(), graph.add("hidden", Dense(64), source))
    return graph.lose(graph.add("logits", Dense(5), graph.add("dropout", Dropout(0.5), source)))


def right(chance: np.random.Generator, values: Array, rate: float) -> Array:
    return np.where(chance.random(values.shape) >= rate, values / (1 - rate), 0.0)


def job_of() -> Job:
    return made_jobs.job(graph=dropout.without(dropping_net()).to_json(), classes=5, shares=(16,), devices=("cpu:0",))


def network_shown(job: Job, drop: Drop, seed: int = 1) -> Arrays:
    """What a framework would show of the network, which computes like the reference but for its dropout."""
    chance = np.random.default_rng(seed)
    calm = reference(job_of(), {}, "probe whole")
    graph = Graph.from_json(job.graph)
    found = {}
    for index in range(PASSES):
        given = {name.removeprefix("output/"): value for name, value in calm.items() if name.startswith("output/")}
        for name, rate in dropout.rates(graph).items():
            given[name] = drop(chance, given[graph.nodes[name].inputs[0]], rate)
            given = layers_behind(job, given, name)
        found.update({f"pass {index}/{name}": value for name, value in given.items()})
    inference = reference(job, {name: found[f"pass 0/{name}"] for name in graph.nodes}, dropout.TASK)["inference"]
    return {**found, "inference": inference}


def layers_behind(job: Job, given: Arrays, dropped: str) -> Arrays:
    """With what follows from this dropout computed anew."""
    graph = Graph.from_json(job.graph)
    names = list(graph.nodes)
    known = names[: names.index(dropped) + 1]
    kept = {name: value for name, value in given.items() if name in known or name in dropout.rates(graph)}
    found = reference(job, kept, dropout.TASK)
    return {name: given[name] if name in known else found[f"pass 0/{name}"] for name in names}


def cell_shown(job: Job, drop: Drop, *, masked: bool = True) -> Arrays:
    graph, chance = Graph.from_json(job.graph), np.random.default_rng(2)
    weights, found = probing_weights(graph, 1), {}
    for name, rate in dropout.rates(graph).items():
        before, after = (name.replace("dropout", side) for side in ("before", "after"))
        values = chance.normal(size=(1, dropout.CELL_UNITS))
        dropped, slope = drop(chance, values, rate), chance.normal(size=job.classes)
        back = weights[f"{after}.kernel"].astype(np.float64) @ slope
        found[f"pass 0/{before}"] = values
        found[f"gradient/{after}.bias"] = slope
        found[f"gradient/{after}.kernel"] = np.outer(dropped[0], slope)
        found[f"gradient/{before}.bias"] = back * (dropped[0] / values[0] if masked else 1.0)
        found[f"written/{after}.kernel"] = weights[f"{after}.kernel"]
    return found


def wrong(drop: Drop = right, *, masked: bool = True, seed: int = 1) -> list[str]:
    """The checks that fail."""
    job, graph = job_of(), dropping_net()
    network, cell = dropout.network_job(job, graph), dropout.cell_job(job, graph)
    shown, in_cell = network_shown(network, drop, seed), cell_shown(cell, drop, masked=masked)
    found = dropout.checks(network, shown, cell, in_cell, reference)
    return [check.quantity for check in found if max(check.differences.values()) > check.tolerance]


@pytest.mark.parametrize("seed", range(5))
def test_chance_raises_no_alarm(seed: int) -> None:
    assert wrong(seed=seed) == []


def by_channel(chance: np.random.Generator, values: Array, rate: float) -> Array:
    shape = (values.shape[0], *[1] * (values.ndim - 2), values.shape[-1])
    return np.where(chance.random(shape) >= rate, values / (1 - rate), 0.0)


@pytest.mark.parametrize(
    ("drop", "quantity"),
    [
        (lambda chance, values, rate: right(chance, values, rate * 1.2), "dropout chance"),
        (by_channel, "dropout chance"),
        (lambda chance, values, rate: right(np.random.default_rng(0), values, rate), "dropout chance"),
        (lambda chance, values, rate: right(chance, values, rate) * (1 - rate), "dropout scale"),
        (lambda chance, values, rate: right(chance, values, rate) / (1 - rate), "dropout scale"),
    ],
    ids=["rate", "by channel", "the same mask in every pass", "not scaled", "scaled twice"],
)
def test_wrong_dropout_is_caught(drop: Drop, quantity: str) -> None:
    assert wrong(drop)[0] == quantity


def test_gradient_that_passes_what_was_dropped_is_caught() -> None:
    assert wrong(masked=False) == ["dropout gradient"]


def test_dropout_in_evaluation_is_caught() -> None:
    job, graph = job_of(), dropping_net()
    network, cell = dropout.network_job(job, graph), dropout.cell_job(job, graph)
    shown = network_shown(network, right)
    shown["inference"] = shown["pass 0/logits"]
    found = list(dropout.checks(network, shown, cell, cell_shown(cell, right), reference))
    failed = [check.quantity for check in found if max(check.differences.values()) > check.tolerance]
    assert failed == ["dropout evaluation"]


def test_what_comes_behind_dropout_is_judged_by_what_it_dropped() -> None:
    job, graph = job_of(), dropping_net()
    network, cell = dropout.network_job(job, graph), dropout.cell_job(job, graph)
    shown = network_shown(network, right)
    shown["pass 0/hidden"] = shown["pass 1/hidden"]  # of other dropped values
    check = list(dropout.checks(network, shown, cell, cell_shown(cell, right), reference))[2]
    assert check.quantity == "dropout outputs"
    assert next(name for name, value in check.differences.items() if value > check.tolerance) == "hidden"


def test_rest_of_the_network_is_compared_without_dropout() -> None:
    calm = dropout.without(dropping_net())
    assert {node.op.rate for node in calm.nodes.values() if isinstance(node.op, Dropout)} == {0.0}
    assert dropout.rates(calm) == {}
    assert dropout.rates(dropping_net()) == {"map_dropout": 0.2, "dropout": 0.5}
