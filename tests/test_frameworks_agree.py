"""The real frameworks, from equal weights and batches: same layers, same gradients, same training."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.environments import installed
from paceline.frameworks import all_frameworks
from paceline.launchers import commands
from paceline_worker.graph import OPS
from paceline_worker.protocol import Job, Recipe
from tests.command_line import CommandLine
from tests.every_layer import every_layer

ROOT = Path(__file__).parent.parent
REAL = [name for name, framework in all_frameworks().items() if not framework.hidden]
pytestmark = pytest.mark.real

Probe = dict[str, Any]


def every_layer_job(framework: str, devices: int) -> Job:
    graph = every_layer()
    return Job(
        framework=framework,
        mode="",
        graph=graph.to_json(),
        classes=5,
        recipe=Recipe(learning_rate=0.05, momentum=0.9, weight_decay=1e-2, decayed=("conv.kernel", "gamma")),
        devices=tuple(f"cpu:{index}" for index in range(devices)),
        cores=tuple((index,) for index in range(devices)),
        shares=(16 // devices,) * devices,
        update="replicated",
        data="fake:device",
        precision="float32",
        seed=3,
        steps=3,
        warmup=0,
        evaluation_steps=0,
        block_steps=3,
        patience_seconds=60.0,
    )


def probe(name: str, devices: int, folder: Path) -> list[Probe]:
    """What each rank of the framework gave."""
    framework = all_frameworks()[name]
    environment = installed(framework)
    assert environment, f"paceline install {name}"
    job = every_layer_job(name, devices)
    (folder / "job.json").write_text(json.dumps(job.to_json()))
    (start,) = commands(framework, job, environment.python, folder, ROOT / "src")
    words = ["tests.contract_probe" if word == "paceline_worker" else word for word in start.arguments]
    variables = {**start.environment, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    ended = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [dict(np.load(path)) for path in sorted(folder.glob("probe-*.npz"))]


@pytest.fixture(scope="module", params=[1, 2], ids=["1 device", "2 devices"])
def probes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Probe]]:
    return {name: probe(name, request.param, tmp_path_factory.mktemp(name)) for name in REAL}


def assert_equal(probes: dict[str, list[Probe]], part: str, tolerance: float) -> None:
    """Each framework against the first, array by array, relative to the array's size; what should be 0 is noise."""
    first, *others = (ranks[0] for ranks in probes.values())
    names = [key for key in first if key.startswith(part)]
    assert names
    for other in others:
        for key in names:
            scale = max(np.abs(first[key]).max(), 0.01)
            assert np.abs(other[key] - first[key]).max() < tolerance * scale, key


def test_every_op_is_in_the_network() -> None:
    assert {type(node.op) for node in every_layer().nodes.values()} == set(OPS.values())


def test_weights_come_back_as_they_were_written(probes: dict[str, list[Probe]]) -> None:
    assert_equal(probes, "written/", 1e-7)


def test_gradients_are_equal(probes: dict[str, list[Probe]]) -> None:
    assert_equal(probes, "gradient/", 1e-4)


def test_gradients_change_nothing(probes: dict[str, list[Probe]]) -> None:
    for ranks in probes.values():
        for key in (key for key in ranks[0] if key.startswith("written/")):
            assert np.array_equal(ranks[0][key], ranks[0][key.replace("written/", "undisturbed/")]), key


def test_weights_and_running_statistics_after_three_steps_are_equal(probes: dict[str, list[Probe]]) -> None:
    assert_equal(probes, "trained/", 1e-4)


def test_losses_are_equal(probes: dict[str, list[Probe]]) -> None:
    losses = [np.mean([rank["losses"] for rank in ranks], axis=0) for ranks in probes.values()]
    for other in losses[1:]:
        np.testing.assert_allclose(other, losses[0], rtol=1e-5)


def test_evaluations_are_equal(probes: dict[str, list[Probe]]) -> None:
    images, losses, correct = np.array([sum(rank["evaluation"] for rank in ranks) for ranks in probes.values()]).T
    assert set(images) == {16}
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)
    assert len(set(correct)) == 1


def test_writing_weights_starts_afresh(probes: dict[str, list[Probe]]) -> None:
    for ranks in probes.values():
        np.testing.assert_allclose(ranks[0]["losses_again"], ranks[0]["losses"], rtol=1e-6)


def test_ranks_agree_only_when_all_are_ready(probes: dict[str, list[Probe]]) -> None:
    for ranks in probes.values():
        assert all(list(rank["agreed"]) == [True, False] for rank in ranks)


@pytest.mark.parametrize(("workload", "rate"), [("cifar10-conv", "0.002"), ("cifar10-resnet20", "0.01")])
def test_first_twenty_losses_of_a_workload_are_equal(paceline: CommandLine, workload: str, rate: str) -> None:
    """Measured runs as a user starts them; batch normalisation is per device, so 1 and 2 devices differ a little.

    The rate is a fifth of the recipe's. At the full rate random labels make training chaotic: PyTorch in float32 is
    then 1e-3 away from PyTorch in float64 within twenty steps, and no two frameworks can be closer than that.
    """
    flags = ("--framework", ",".join(REAL), "--devices", "1xcpu,2xcpu", "--data", "fake:python", "--lr", rate)
    ended = paceline("run", workload, *flags, "--steps", "20", "--warmup", "1", "--repeats", "1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    losses = {(row["framework"], row["devices"]): mean_losses(paceline, row["runs"][0]) for row in paceline.rows()}
    for devices in ("1xcpu", "2xcpu"):
        first, *others = (losses[name, devices] for name in REAL)
        assert len(first) == 20
        assert first[-1] != first[0]
        for other in others:
            np.testing.assert_allclose(other, first, rtol=1e-3)
    assert not np.allclose(losses[REAL[0], "1xcpu"], losses[REAL[0], "2xcpu"], rtol=1e-6)


def mean_losses(paceline: CommandLine, run_id: str) -> Any:
    """Over the ranks, which have equal shares."""
    ranks = []
    for path in sorted((paceline.store / "runs" / run_id).glob("events-*.jsonl")):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        blocks = [event for event in events if event["event"] == "block" and event["phase"] == "train"]
        ranks.append([loss for block in blocks for loss in block["losses"]])
    return np.mean(ranks, axis=0)
