"""The real frameworks, from equal weights and batches, against the reference: same layers, gradients and training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from paceline.catalog.frameworks import all_frameworks, find
from paceline.environments.virtual_environments import hindrance
from paceline.studies.equivalence.probing import Probe, probe, reference_probe
from paceline.studies.equivalence.tolerances import QUANTITIES
from paceline.studies.equivalence.verify import Verification, compare_with_reference
from paceline_worker.graph import OPS, AveragePool, Dense, Flatten, Graph, Input
from paceline_worker.protocol import Job, Recipe
from tests.factories.command_line import CommandLine
from tests.factories.every_layer import every_layer

REAL = [name for name, framework in all_frameworks().items() if not framework.hidden]
pytestmark = pytest.mark.real


def every_layer_job(devices: int) -> Job:
    """With Nesterov's momentum on one device and the usual one on two."""
    recipe = Recipe(
        learning_rate=0.05,
        momentum=0.9,
        nesterov=devices == 1,
        weight_decay=1e-2,
        decayed=("conv.kernel", "gamma"),
    )
    return Job(
        framework="",
        mode="",
        graph=every_layer().to_json(),
        classes=5,
        recipe=recipe,
        devices=tuple(f"cpu:{index}" for index in range(devices)),
        cores=tuple((index,) for index in range(devices)),
        shares=(16 // devices,) * devices,
        update="replicated",
        data="fake:device",
        precision="float32",
        seed=3,
        steps=3,
        warmup=0,
        block_steps=3,
        patience_seconds=60.0,
        epoch_images=1000,
        count_correct=True,
        rates=(0.05, 0.05, 0.02, 0.02),
    )


@pytest.fixture(scope="module", params=[1, 2], ids=["1 device", "2 devices"])
def truth(request: pytest.FixtureRequest) -> tuple[Job, Probe]:
    job = every_layer_job(request.param)
    return job, reference_probe(job, print)


@pytest.fixture(scope="module", params=REAL)
def seen(request: pytest.FixtureRequest, truth: tuple[Job, Probe]) -> Probe:
    reason = hindrance(find(request.param).framework)
    if reason:
        pytest.skip(reason)
    if not can_train_on(request.param, len(truth[0].devices)):
        pytest.skip(f"{request.param} does not train on {len(truth[0].devices)} devices")
    found = probe(find(request.param), truth[0], print)
    assert found.outcome.status == "ok", f"{found.outcome.message}\n{found.outcome.log_end}"
    return found


def can_train_on(framework: str, devices: int) -> bool:
    most = find(framework).framework.max_devices
    return most is None or devices <= most


def test_every_op_is_in_the_network() -> None:
    assert {type(node.op) for node in every_layer().nodes.values()} == set(OPS.values())


def test_everything_is_equal_to_the_reference(seen: Probe, truth: tuple[Job, Probe]) -> None:
    trial = Verification("every layer", f"{len(truth[0].devices)}xcpu", "this", *truth)
    findings = list(compare_with_reference(seen, trial, print))
    assert [finding.quantity for finding in findings] == [quantity.name for quantity in QUANTITIES]
    for finding in findings:
        assert finding.diverges_at is None, finding


def test_weights_come_back_as_they_were_written(seen: Probe, truth: tuple[Job, Probe]) -> None:
    for name in (name for name in truth[1].arrays if name.startswith("written/")):
        np.testing.assert_array_equal(seen.arrays[name], truth[1].arrays[name].astype(np.float32), name)


def test_looking_changes_nothing(seen: Probe) -> None:
    for name in (name for name in seen.arrays if name.startswith("written/")):
        np.testing.assert_array_equal(seen.arrays[name], seen.arrays[name.replace("written", "undisturbed")], name)


def test_right_predictions_are_counted(seen: Probe, truth: tuple[Job, Probe]) -> None:
    assert list(seen.arrays["correct"]) == list(truth[1].arrays["correct"])
    assert 0 < sum(truth[1].arrays["correct"]) < 4 * 16


def test_writing_weights_starts_afresh(seen: Probe) -> None:
    np.testing.assert_allclose(seen.arrays["losses again"], seen.arrays["losses"][:2], rtol=1e-5)


def test_ranks_agree_only_when_all_are_ready(seen: Probe) -> None:
    assert list(seen.arrays["agreed"]) == [True, False]


@pytest.mark.parametrize(
    ("workload", "rate", "batch", "frameworks"),
    [("cifar10-conv", "0.002", "32", REAL), ("cifar10-resnet20", "0.01", "32", ["torch", "jax"])],
)
def test_first_twenty_losses_of_a_workload_are_equal(
    paceline: CommandLine, workload: str, rate: str, batch: str, frameworks: list[str]
) -> None:
    """Measured runs as a user starts them; batch normalisation is per device, so 1 and 2 devices differ a little.

    The rate is a fifth of the recipe's. At the full rate random labels make training chaotic: PyTorch in float32 is
    then 1e-3 away from PyTorch in float64 within twenty steps, and no two frameworks can be closer than that.
    """
    flags = ("--framework", ",".join(frameworks), "--devices", "1xcpu,2xcpu", "--data", "fake:python", "--lr", rate)
    short = ("--batch-size", batch, "--cores-per-device", "1", "--steps", "20", "--warmup", "1", "--repeats", "1")
    ended = paceline("run", workload, *flags, *short)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [row for row in paceline.rows() if row["status"] != "skipped"]
    losses = {(row["framework"], row["devices"]): mean_losses(paceline, row["runs"][0]) for row in rows}
    for count, devices in ((1, "1xcpu"), (2, "2xcpu")):
        first, *others = (losses[name, devices] for name in frameworks if (name, devices) in losses)
        assert len(others) + 1 == sum(
            can_train_on(name, count) and not hindrance(find(name).framework) for name in frameworks
        )
        assert len(first) == 20
        assert first[-1] != first[0]
        for other in others:
            np.testing.assert_allclose(other, first, rtol=1e-3)
    assert not np.allclose(losses["torch", "1xcpu"], losses["torch", "2xcpu"], rtol=1e-6)


@pytest.mark.parametrize("framework", ["mxnet", "keras-mxnet"])
def test_uneven_padding_that_does_not_count_is_refused_where_it_would(framework: str) -> None:
    """MXNet pads unevenly only before a pool, whose divisor then counts the padding: the network would be another."""
    graph = Graph()
    images = graph.add("images", Input((5, 5, 3)))
    pooled = graph.add("pool", AveragePool((2, 2), (2, 2), (0, 1, 0, 1), count_padding=False), images)
    graph.lose(graph.add("logits", Dense(5), graph.add("flat", Flatten(), pooled)))
    seen = probe(find(framework), replace(every_layer_job(1), graph=graph.to_json()), print)
    assert seen.failure is not None
    assert "cannot leave uneven padding out of an average pool's divisor" in (seen.outcome.message or "")


def mean_losses(paceline: CommandLine, run_id: str) -> Any:
    """Over the ranks, which have equal shares."""
    ranks = paceline.trained(run_id)
    return np.mean([[loss for block in blocks for loss in block["losses"]] for blocks in ranks], axis=0)
