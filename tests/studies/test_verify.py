"""A network that is not the same is caught, and the layer where it parts is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.report.studies.certificates import sentence
from paceline.store import certificates
from paceline.store.records.certificate import Certificate, Divergence
from paceline.studies.equivalence.probing import Arrays
from paceline.studies.equivalence.tolerances import END_TO_END, QUANTITIES, compare, derived, differences_of
from paceline_worker import graph as g
from paceline_worker import probe
from paceline_worker.frameworks.reference.backend import FrameworkBackend
from paceline_worker.frameworks.reference.builder import LAYERS, in_bfloat16
from paceline_worker.graph import Graph
from paceline_worker.place import Place, find_place
from paceline_worker.probing_weights import probing_weights
from paceline_worker.protocol import Job, Recipe
from paceline_worker.weights import Weights
from tests.factories import jobs as made_jobs
from tests.factories.every_layer import every_layer

PLANTED: dict[str, Callable[[Any], Any]] = {
    "stem_norm": lambda op: replace(op, epsilon=1e-2),
    "stem": lambda op: replace(op, padding=(1, 0, 2, 1)),
    "max": lambda op: replace(op, padding=(0, 1, 1, 0)),
    "relu": lambda op: g.Tanh(),
    "inside": lambda op: replace(op, count_padding=True),
}
RECIPE = Recipe(learning_rate=0.05, momentum=0.9, weight_decay=1e-2, decayed=("conv.kernel", "dense.kernel"))


def job_of(graph: Graph, recipe: Recipe = RECIPE) -> Job:
    return made_jobs.job(
        graph=graph.to_json(),
        classes=5,
        recipe=recipe,
        devices=("cpu:0", "cpu:1"),
        cores=((0,), (0,)),
        shares=(6, 6),
        rates=(0.05, 0.05, 0.02),
    )


def shown(job: Job, backend_class: type[FrameworkBackend] = FrameworkBackend) -> Arrays:
    """What the probe of a backend gives for a job, in this process."""
    place = find_place(job, {})
    graph = Graph.from_json(job.graph)
    backend = backend_class(job, place)
    weights = probing_weights(graph, job.seed)
    backend.build(graph, weights)
    return derived(graph, probe.whole(backend, job, place, weights))


@pytest.fixture(scope="module")
def truth() -> Arrays:
    return shown(job_of(every_layer()))


def changed(layer: str, change: Callable[[Any], Any]) -> Graph:
    """The network with one layer replaced."""
    graph = Graph()
    for node in every_layer().nodes.values():
        graph.add(node.name, change(node.op) if node.name == layer else node.op, *node.inputs)
    graph.losses = dict(every_layer().losses)
    return graph


class Rounding(FrameworkBackend):
    """As a framework in bfloat16: what each layer gives, forth and back, is rounded; weights and steps are not."""

    def __init__(self, job: Job, place: Place) -> None:
        super().__init__(job, place)
        self._layers = {layer: rounding(*pair) for layer, pair in self._layers.items() if layer is not g.Input}
        self._layers[g.Input] = LAYERS[g.Input]


def rounding(forward: Any, backward: Any) -> tuple[Any, Any]:
    def forth(*arguments: Any) -> Any:
        return in_bfloat16(forward(*arguments))

    def back(*arguments: Any) -> Any:
        slopes, own = backward(*arguments)
        return [in_bfloat16(slope) for slope in slopes], own

    return forth, back


def in_rounding_arithmetic(found: Arrays, job: Job, folder: Path) -> dict[str, set[str]]:
    """Which arrays of each quantity are off, when what was found in bfloat16 is judged layer by layer."""
    graph = Graph.from_json(job.graph)
    np.savez(folder / "given.npz", **{name: found[f"output/{name}"] for name in graph.nodes})  # type: ignore[arg-type]
    local = shown(replace(job, given=str(folder / "given.npz")))
    whole = {name: array for name, array in shown(job).items() if name.startswith(END_TO_END)}
    wrong = {}
    for quantity in QUANTITIES:
        both = (found, {**local, **whole})
        differences = differences_of(quantity, graph, both, "bfloat16")
        off = {name for name, value in differences.items() if not value <= quantity.allowed(graph, "bfloat16")}
        wrong[quantity.name] = {name.partition("/")[2] or name for name in off}
    return wrong


@pytest.fixture(params=[1, 2, 3])
def mixed(request: pytest.FixtureRequest) -> Job:
    """With further steps that are small, as `verify` has them: large ones make more of every rounding."""
    small = (0.01, 0.01, 0.004)
    return replace(job_of(every_layer()), precision="bfloat16", seed=request.param, shares=(8, 4), rates=small)


def test_rounding_alone_is_no_difference(mixed: Job, tmp_path: Path) -> None:
    wrong = in_rounding_arithmetic(shown(mixed, Rounding), mixed, tmp_path)
    assert wrong == {quantity.name: set() for quantity in QUANTITIES}


@pytest.mark.parametrize(("layer", "change"), PLANTED.items())
def test_wrong_layer_is_named_in_bfloat16(mixed: Job, layer: str, change: Callable[[Any], Any], tmp_path: Path) -> None:
    found = shown(replace(mixed, graph=changed(layer, change).to_json()), Rounding)
    assert in_rounding_arithmetic(found, mixed, tmp_path)["output"] == {layer}


@pytest.mark.slow
def test_other_rules_are_caught_in_bfloat16(mixed: Job, tmp_path: Path) -> None:
    recipe = replace(mixed.recipe, nesterov=True)
    assert in_rounding_arithmetic(shown(replace(mixed, recipe=recipe), Rounding), mixed, tmp_path)["update"]
    decayed = replace(mixed.recipe, decayed=(*RECIPE.decayed, "gamma"))
    wrong = in_rounding_arithmetic(shown(replace(mixed, recipe=decayed), Rounding), mixed, tmp_path)
    assert wrong["update"] == {"stem_norm.gamma", "right_norm.gamma", "hidden_norm.gamma"}
    late = changed("hidden_norm", lambda op: replace(op, decay=0.5))
    wrong = in_rounding_arithmetic(shown(replace(mixed, graph=late.to_json()), Rounding), mixed, tmp_path)
    assert wrong["statistics"] == {"hidden_norm.mean", "hidden_norm.variance"}


def test_arithmetic_that_is_too_good_or_too_bad_is_not_bfloat16(mixed: Job, tmp_path: Path) -> None:
    exact = shown(replace(mixed, precision="float32"))
    wrong = in_rounding_arithmetic(exact, mixed, tmp_path)["output"]
    assert {"stem", "wide", "hidden", "logits", "side_logits"} >= wrong >= {"stem", "wide", "hidden"}
    found = shown(mixed, Rounding)
    coarse = {**found, "output/tanh": np.round(found["output/tanh"] * 64) / 64}
    assert "tanh" in in_rounding_arithmetic(coarse, mixed, tmp_path)["output"]


class EqualWeights(Rounding):
    """Takes the plain mean of the devices' gradients, whatever each has got."""

    def _differentiate(self, batch: Any) -> Any:
        traces, loss, _ = super()._differentiate(batch)
        each = [self._backward(trace, labels)[1] for trace, (_, labels) in zip(traces, batch, strict=True)]
        return traces, loss, {name: np.mean([found[name] for found in each], axis=0) for name in each[0]}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_wrong_weight_of_shares_is_caught(mixed: Job, precision: str, tmp_path: Path) -> None:
    found = shown(replace(mixed, precision=precision), EqualWeights)
    wrong = in_rounding_arithmetic(found, mixed, tmp_path)["gradient"]
    assert wrong >= {"logits.kernel", "logits.bias", "side_logits.kernel", "side_logits.bias"}


def first_divergence(arrays: Arrays, truth: Arrays) -> tuple[str, str | None]:
    findings = list(compare(every_layer(), arrays, truth))
    wrong = next(finding for finding in findings if finding.diverges_at)
    return wrong.quantity, wrong.diverges_at


@pytest.mark.parametrize(("layer", "change"), PLANTED.items())
def test_wrong_layer_is_named(truth: Arrays, layer: str, change: Callable[[Any], Any]) -> None:
    assert first_divergence(shown(job_of(changed(layer, change))), truth) == ("output", layer)


@pytest.mark.parametrize(
    "change",
    [
        lambda op: replace(op, decay=0.5),
        lambda op: replace(op, unbiased_running_variance=not op.unbiased_running_variance),
    ],
)
def test_wrong_running_statistics_are_named(truth: Arrays, change: Callable[[Any], Any]) -> None:
    quantity, place = first_divergence(shown(job_of(changed("hidden_norm", change))), truth)
    assert quantity == "statistics"
    assert place in ("hidden_norm.mean", "hidden_norm.variance")


def test_weight_decay_on_batch_norm_is_named(truth: Arrays) -> None:
    wrong = replace(RECIPE, decayed=(*RECIPE.decayed, "gamma"))
    assert first_divergence(shown(job_of(every_layer(), wrong)), truth) == ("update", "stem_norm.gamma")


class RateInside(FrameworkBackend):
    """Keeps the rate inside the velocity, so that a new rate holds for new gradients only."""

    def set_learning_rate(self, rate: float) -> None:
        self._velocity = {name: value * self._rate / rate for name, value in self._velocity.items()}
        super().set_learning_rate(rate)


class Nesterov(FrameworkBackend):
    """Takes the other form of momentum, which differs from the first step on."""

    def __init__(self, job: Job, place: Place) -> None:
        super().__init__(replace(job, recipe=replace(job.recipe, nesterov=True)), place)


def test_rate_inside_the_velocity_shows_in_the_losses(truth: Arrays) -> None:
    graph = every_layer()
    right = job_of(graph)
    late = replace(right, rates=(0.05, 0.05, 0.01, 0.01, 0.01))
    assert first_divergence(shown(late, RateInside), shown(late)) == ("losses", "losses")


def test_other_form_of_momentum_shows_in_the_first_step(truth: Arrays) -> None:
    quantity, place = first_divergence(shown(job_of(every_layer()), Nesterov), truth)
    assert (quantity, place) == ("update", "norm.beta")


class Summing(FrameworkBackend):
    """Adds gradients over devices where the mean is wanted."""

    def _differentiate(self, batch: Any) -> Any:
        traces, loss, gradients = super()._differentiate(batch)
        summed: Weights = {name: 2 * value for name, value in gradients.items()}
        return traces, loss, summed


def test_sum_instead_of_mean_over_devices_is_caught_from_the_last_layer_on(truth: Arrays) -> None:
    assert first_divergence(shown(job_of(every_layer()), Summing), truth) == ("gradient", "side_logits.bias")


def test_right_network_is_equal(truth: Arrays) -> None:
    assert all(finding.diverges_at is None for finding in compare(every_layer(), dict(truth), truth))


def test_missing_or_unfinite_arrays_are_no_match(truth: Arrays) -> None:
    missing = {name: value for name, value in truth.items() if name != "output/stem"}
    assert first_divergence(missing, truth) == ("output", "stem")
    assert first_divergence({**truth, "output/max": truth["output/max"] * float("nan")}, truth) == ("output", "max")


def test_difference_that_is_no_number_is_kept_and_said(truth: Arrays, tmp_path: Path) -> None:
    """JSON has none, and a certificate that cannot be read again would hide a whole store."""
    found = tuple(compare(every_layer(), {**truth, "output/max": truth["output/max"] * float("nan")}, truth))
    kept = certificate(findings=found, equal=False)
    certificates.save(tmp_path, kept)
    assert certificates.load(tmp_path) == [kept]
    assert sentence(kept) == "DIFFERS: outputs diverge first at max, by no number (allowed 1e-05)"


def certificate(**changes: Any) -> Certificate:
    settings: dict[str, Any] = {
        "workload": "cifar10-conv",
        "framework": "torch",
        "devices": "1xcpu",
        "version": "2.13.0",
        "fingerprint": "f",
        "worker_code": "c",
        "machine": "m",
        "equal": True,
        "findings": (),
        "failure": None,
    }
    return Certificate(**{**settings, **changes})


def test_sentences() -> None:
    fine = Divergence("output", 1e-4, 2.04e-6, "dense2", None, None)
    wrong = Divergence("gradient", 1e-3, 0.5, "conv1.kernel", "conv2.kernel", 0.123)
    assert sentence(certificate(findings=(fine,))) == "equal: output 2e-06 (dense2)"
    assert sentence(certificate(findings=(fine, wrong), equal=False)) == (
        "DIFFERS: gradients diverge first at conv2.kernel, by 1.2e-01 (allowed 1e-03)"
    )
    assert sentence(certificate(failure="crash in build: killed by SIGSEGV", equal=False)) == (
        "could not be seen: crash in build: killed by SIGSEGV"
    )
