"""Faults planted in real frameworks are named, in float32 and in bfloat16, and nothing else is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from paceline.catalog.frameworks import find
from paceline.catalog.workloads import known_workload
from paceline.environments.worker_code import deploy
from paceline.plan.devices import parse_devices
from paceline.run import launchers
from paceline.studies.equivalence.probing import Arrays, probe, reference_probe
from paceline.studies.equivalence.tolerances import END_TO_END, QUANTITIES, derived, differences_of
from paceline.studies.equivalence.verification_cases import VerificationCase
from paceline.studies.equivalence.verify import Verification, make_verification, verify
from paceline.system.machine.hardware import this_machine
from paceline_worker.graph import Graph
from paceline_worker.protocol import Job
from tests.factories.every_layer import every_layer
from tests.frameworks.test_frameworks_agree import every_layer_job
from tests.studies.test_verify import PLANTED

pytestmark = pytest.mark.real
RULES = ("update", "losses")  # where a wrong step shows, and nowhere else


def job(precision: str, devices: int = 1, shares: tuple[int, ...] = (16,)) -> Job:
    """With a decay that can be seen, and further steps that are small, as `verify` has them."""
    made = every_layer_job(devices)
    recipe = replace(made.recipe, weight_decay=0.5)
    return replace(made, precision=precision, recipe=recipe, rates=(0.002, 0.002, 0.001), shares=shares)


def planted() -> Graph:
    graph = Graph()
    for node in every_layer().nodes.values():
        graph.add(node.name, PLANTED[node.name](node.op) if node.name in PLANTED else node.op, *node.inputs)
    graph.losses = dict(every_layer().losses)
    return graph


@cache
def whole_truth(precision: str, devices: int, shares: tuple[int, ...]) -> Arrays:
    return derived(every_layer(), reference_probe(job(precision, devices, shares), print).arrays)


def wrong_arrays(framework: str, given: Job, right: Job) -> dict[str, set[str]]:
    """Of each quantity those that are off, when a framework is given one job and judged by another."""
    seen = probe(find(framework), given, print)
    assert seen.failure is None, seen.outcome.log_end
    outputs = {name.partition("/")[2]: array for name, array in seen.arrays.items() if name.startswith("output/")}
    local = derived(every_layer(), reference_probe(right, print, outputs).arrays)
    truth = whole_truth(right.precision, len(right.devices), right.shares)
    expected = {**local, **{name: array for name, array in truth.items() if name.startswith(END_TO_END)}}
    found = derived(every_layer(), seen.arrays)
    wrong = {}
    for quantity in QUANTITIES:
        differences = differences_of(quantity, every_layer(), (found, expected), right.precision)
        allowed = quantity.allowed(every_layer(), right.precision)
        wrong[quantity.name] = {name.partition("/")[2] or name for name, by in differences.items() if not by <= allowed}
    return wrong


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_five_wrong_layers_at_once_are_all_named_and_no_other(framework: str, precision: str) -> None:
    """At once, since each layer is judged by itself, on what the one before it gave."""
    right = job(precision)
    wrong = wrong_arrays(framework, replace(right, graph=planted().to_json()), right)
    assert wrong["output"] == set(PLANTED)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_wrong_decay_is_the_only_difference_in_bfloat16(framework: str) -> None:
    """Else everything is equal, so this is the network without a fault, too."""
    right = job("bfloat16")
    decayed = replace(right.recipe, decayed=(*right.recipe.decayed, "dense.kernel"))
    wrong = wrong_arrays(framework, replace(right, recipe=decayed), right)
    assert wrong["update"] == {"hidden.kernel", "logits.kernel", "side_logits.kernel"}
    assert not any(names for quantity, names in wrong.items() if quantity not in RULES), wrong


def test_wrong_weight_of_shares_is_caught_in_bfloat16(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(deploy("torch"), tmp_path / "code"))
    protocol = copy / "paceline_worker" / "protocol.py"
    told = "return share * len(self.devices) / self.batch_size"
    assert told in protocol.read_text(encoding="utf-8")
    protocol.write_text(protocol.read_text(encoding="utf-8").replace(told, "return 1.0"), encoding="utf-8")
    monkeypatch.setattr(launchers, "deploy", lambda name: copy if name == "torch" else deploy(name))
    right = job("bfloat16", 2, (10, 5))
    wrong = wrong_arrays("torch", right, right)
    assert wrong["gradient"] >= {"logits.kernel", "side_logits.kernel"}
    assert not wrong["output"]


@cache
def asked(devices: str, precision: str, shares: str) -> Verification:
    """The same of every framework."""
    workload = known_workload("cifar10-conv")
    question = VerificationCase(workload=workload, devices=parse_devices(devices), precision=precision, shares=shares)
    return make_verification(question, this_machine(), print)


@pytest.mark.parametrize(
    ("framework", "devices", "precision", "shares"),
    [
        *((framework, "1xcpu", "bfloat16", "equal") for framework in ("torch", "jax")),
        *((framework, "2xcpu", "float32", "2:1") for framework in ("torch", "tensorflow", "mxnet")),
        ("torch", "2xcpu", "bfloat16", "2:1"),
    ],
)
def test_nothing_is_found_where_nothing_is_planted(framework: str, devices: str, precision: str, shares: str) -> None:
    found = verify(find(framework), asked(devices, precision, shares), print)
    assert found.equal, found
    assert (found.precision, found.shares) == (precision, shares)
