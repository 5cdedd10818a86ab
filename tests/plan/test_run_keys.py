"""Keys last: those of twenty runs are written down here, and no field that is added at its default changes one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, fields, make_dataclass, replace
from typing import Any

import msgspec
import pytest

from paceline.catalog.frameworks import Contestant, Framework
from paceline.catalog.workloads import WORKLOADS, fingerprint
from paceline.environments.virtual_environments import Environment
from paceline.plan.cell import Cell
from paceline.plan.external.command import ExternalCommand, OutputMetric
from paceline.plan.planning import key_anew
from paceline.plan.run_keys import run_key
from paceline.system.hashing import short_key, without_defaults
from paceline_worker.graph import (
    OPS,
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    GlobalPool,
    Graph,
    Init,
    Input,
    MaxPool,
    Relu,
    Tanh,
)
from paceline_worker.input.pipeline import Pipeline
from paceline_worker.protocol import Recipe
from tests.factories.machines import machine

MADE = Framework(
    name="made",
    title="Made",
    package="made",
    devices=("cpu", "cuda"),
    updates=("replicated", "parameter_server"),
    data=("fake:device", "fake:host"),
    precisions=("float32",),
    processes="per device",
    launcher="direct",
    requirements="made==1.0\n",
)
CELL = Cell(
    workload="cifar10-conv",
    framework="made",
    devices="1xcpu",
    update="replicated",
    data="fake:device",
    precision="float32",
    batch_size=128,
    scaling="strong",
    steps=100,
    warmup=10,
    learning_rate=0.01,
    seed=1,
    cores=((0,),),
    oversubscribed=False,
)
# Change one of these constants only together with `KEY_VERSION`: every stored result is orphaned by it.
RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({}, "b99d42efcde734c7"),
    "two devices": ({"devices": "2xcpu", "cores": ((0,), (1,))}, "0bafb42d16aa4dac"),
    "cards": ({"devices": "cuda:0+cuda:1", "cores": ((0, 1), (2, 3))}, "77fa066342499057"),
    "parameter server": ({"update": "parameter_server", "parameter_device": "device"}, "cb4e91a6bb81b67b"),
    "from the host": ({"data": "fake:host"}, "652f905f2b9c3af8"),
    "real images": ({"data": "cifar10", "input": "scaled"}, "bfe63646994b3802"),
    "whitened images": ({"data": "cifar10", "input": "whitened"}, "c83993629b4436df"),
    "bfloat16": ({"precision": "bfloat16"}, "f4322b8f61b14194"),
    "batch": ({"batch_size": 64}, "db953b263a0154c2"),
    "weak": ({"scaling": "weak"}, "1186c05828151cb4"),
    "steps": ({"steps": 7, "warmup": 2}, "1713f804b5a51673"),
    "rate": ({"learning_rate": 0.1 / 8}, "69a8c73acdc6fe74"),
    "seed": ({"seed": 2**31}, "88a5b9c455329c12"),
    "oversubscribed": ({"oversubscribed": True}, "24012444aded68cc"),
    "evaluated": ({"evaluate": "epoch"}, "836431e292859bb4"),
    "shares": ({"shares": "2:1", "devices": "2xcpu", "cores": ((0,), (1,))}, "9f00f65f71d4c855"),
    "slow": ({"slow": (1.0, 2.5), "devices": "2xcpu", "cores": ((0,), (1,))}, "258b9efe3e7cde58"),
    "wrapped": ({"wrapped": True}, "d7741d50bc72be1b"),
    "a residual network": ({"workload": "cifar10-resnet20"}, "15ba59f5e5b58672"),
    "an Inception": ({"workload": "cifar10-inception-v3"}, "2debfc7e08e1367b"),
}


@pytest.fixture(autouse=True)
def nothing_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework and measuring code that nobody edits; no interpreter is registered here."""
    register(monkeypatch, MADE)
    monkeypatch.setattr("paceline.plan.run_keys.code_hash", lambda framework: "c0de")
    monkeypatch.setattr("paceline.environments.virtual_environments.brought", lambda framework: None)


def register(monkeypatch: pytest.MonkeyPatch, framework: Framework) -> None:
    monkeypatch.setattr("paceline.plan.run_keys.find", lambda name: Contestant(framework, ""))


def key(cell: Cell = CELL, repeat: int = 0) -> str:
    return run_key(cell, repeat, machine())


@pytest.mark.parametrize("name", RUNS)
def test_keys_of_these_runs_are_fixed(name: str) -> None:
    changes, fixed = RUNS[name]
    assert key(msgspec.structs.replace(CELL, **changes)) == fixed


def test_no_two_of_them_are_alike() -> None:
    assert len({fixed for _, fixed in RUNS.values()}) == len(RUNS) == 20
    assert key(repeat=1) not in {fixed for _, fixed in RUNS.values()}


def test_setting_of_a_cell_that_is_added_changes_no_key_until_it_is_used() -> None:
    grown: Any = msgspec.defstruct("Cell", [("clipped", float, 0.0)], bases=(Cell,), frozen=True, kw_only=True)
    settings = msgspec.structs.asdict(CELL)
    assert key(grown(**settings)) == key()
    assert key(grown(**settings, clipped=1.0)) != key()


def test_setting_of_a_framework_that_is_added_changes_no_key_until_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    grown: Any = msgspec.defstruct("Framework", [("fused", bool, False)], bases=(Framework,), frozen=True, kw_only=True)
    said, before = msgspec.structs.asdict(MADE), key()
    register(monkeypatch, grown(**said))
    assert key() == before
    register(monkeypatch, grown(**said, fused=True))
    assert key() != before


@pytest.fixture
def grown_workload(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Puts a changed form of a workload into its place, without what was cached of it."""

    def put(**changes: Any) -> None:
        fingerprint.cache_clear()
        monkeypatch.setitem(WORKLOADS, CELL.workload, replace(WORKLOADS[CELL.workload], **changes))
        monkeypatch.setattr("paceline.catalog.workloads.all_workloads", lambda: WORKLOADS)

    yield put
    fingerprint.cache_clear()


def test_setting_of_a_recipe_that_is_added_changes_no_key_until_it_is_used(grown_workload: Any) -> None:
    recipe, before = WORKLOADS[CELL.workload].recipe, key()
    grown = make_dataclass("Recipe", [("clipped", float, field(default=0.0))], bases=(Recipe,), frozen=True)
    known = {one.name: getattr(recipe, one.name) for one in fields(recipe)}
    grown_workload(recipe=grown(**known))
    assert key() == before
    grown_workload(recipe=grown(**known, clipped=5.0))
    assert key() != before


def test_setting_of_an_operation_that_is_added_changes_no_key_until_it_is_used(grown_workload: Any) -> None:
    graph, before = WORKLOADS[CELL.workload].graph(), key()
    grown = make_dataclass("Conv", [("groups", int, field(default=1))], bases=(Conv,), frozen=True)

    def build(groups: dict[str, int]) -> Graph:
        made = Graph()
        for node in graph.nodes.values():
            known = {one.name: getattr(node.op, one.name) for one in fields(node.op)}
            made.add(node.name, grown(**known, **groups) if isinstance(node.op, Conv) else node.op, *node.inputs)
        made.losses = graph.losses
        return made

    grown_workload(build=lambda classes: build({}))
    assert key() == before
    grown_workload(build=lambda classes: build({"groups": 2}))
    assert key() != before


def test_input_that_is_added_to_a_workload_changes_no_key(grown_workload: Any) -> None:
    pipelines, before = WORKLOADS[CELL.workload].pipelines, key()
    real = msgspec.structs.replace(CELL, data="cifar10", input="scaled")
    before_real = key(real)
    grown_workload(pipelines={**pipelines, "added": pipelines["whitened"]})
    assert (key(), key(real)) == (before, before_real)
    grown_workload(pipelines={**pipelines, "scaled": pipelines["whitened"]})
    assert key(real) != before_real


def test_what_a_framework_learns_to_do_changes_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    register(monkeypatch, msgspec.structs.replace(MADE, precisions=("float32", "float16"), modes={"fast": "faster"}))
    assert key() == before
    register(monkeypatch, msgspec.structs.replace(MADE, environment={"MADE_THREADS": "{threads}"}))
    assert key() != before


def test_what_is_installed_for_cards_is_no_part_of_runs_on_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = msgspec.structs.replace(CELL, devices="cuda:0")
    before, before_cards = key(), key(cards)
    register(monkeypatch, msgspec.structs.replace(MADE, cuda_requirements=("made[cuda]==1.0",)))
    assert key() == before
    assert key(cards) != before_cards


def test_comments_on_pins_are_no_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    register(monkeypatch, msgspec.structs.replace(MADE, requirements="# exactly\n\nmade==1.0  # the last\n"))
    assert key() == before
    register(monkeypatch, msgspec.structs.replace(MADE, requirements="made==1.1\n"))
    assert key() != before


def command_key(cell: Cell) -> str:
    """What the keys of all its runs begin with."""
    return key_anew("today", cell, 0).removesuffix("-today-0")


def test_key_of_a_command_lasts_likewise() -> None:
    command = ExternalCommand(arguments=("python", "train.py"), folder="/work")
    cell = msgspec.structs.replace(CELL, workload="command", command=command)
    assert command_key(cell) == "bba8198f56fb3403"
    grown: Any = msgspec.defstruct(
        "ExternalCommand", [("in_shell", bool, False)], bases=(ExternalCommand,), frozen=True
    )
    known = msgspec.structs.asdict(command)
    assert command_key(msgspec.structs.replace(cell, command=grown(**known))) == command_key(cell)
    assert command_key(msgspec.structs.replace(cell, command=grown(**known, in_shell=True))) != command_key(cell)


def test_fingerprint_of_an_environment_stays_what_it_was() -> None:
    """Records and verdicts of all versions have it."""
    packages = {"numpy": "2.4.6", "made": "1.0"}
    made = Environment(framework="made", python="/python", python_version="3.11.7", requirements="", packages=packages)
    assert made.fingerprint == "48d5997f779f"


# What is at its default is in no key, so a default must mean the same for ever. To measure something else where nothing
# is said, let who reads the settings (a suite, framework.toml, a network) say it instead.
DEFAULTS: dict[type, dict[str, Any]] = {
    Cell: {
        "input": "",
        "evaluate": "never",
        "parameter_device": "",
        "shares": "equal",
        "slow": (),
        "wrapped": False,
        "command": None,
    },
    Framework: {
        "max_devices": None,
        "unequal_shares": False,
        "wrapper": False,
        "exchange": "",
        "cuda_requirements": (),
        "modes": {},
        "environment": {},
        "provided": "",
        "hidden": False,
    },
    Recipe: {
        "momentum": 0.0,
        "weight_decay": 0.0,
        "decayed": ("conv.kernel", "dense.kernel"),
        "nesterov": False,
        "drops": (),
        "warmup_epochs": 0.0,
    },
    Pipeline: {},
    Init: {"scale": 1.0},
    ExternalCommand: {"metrics": ()},
    OutputMetric: {"percent": ""},
    Input: {},
    Conv: {"stride": (1, 1), "padding": (0, 0, 0, 0), "bias": False, "init": Init(rule="he_normal_fan_in", scale=1.0)},
    Dense: {"bias": True, "init": Init(rule="he_normal_fan_in", scale=1.0)},
    BatchNorm: {"trained_gamma": True, "unbiased_running_variance": True, "first_running_variance": 1.0},
    Relu: {},
    Tanh: {},
    Dropout: {},
    MaxPool: {"padding": (0, 0, 0, 0)},
    AveragePool: {"padding": (0, 0, 0, 0), "count_padding": True},
    GlobalPool: {},
    Flatten: {},
    Add: {},
    Concat: {},
}


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_defaults_that_keys_leave_out_never_change(kind: Any) -> None:
    assert {name: value for name, value in defaults(kind).items() if name in DEFAULTS[kind]} == DEFAULTS[kind]


def test_defaults_of_all_that_is_in_a_key_are_held() -> None:
    assert set(DEFAULTS) == {Cell, Framework, Recipe, Pipeline, Init, ExternalCommand, OutputMetric, *OPS.values()}
    assert {kind: set(defaults(kind)) for kind in DEFAULTS} == {kind: set(held) for kind, held in DEFAULTS.items()}


def defaults(kind: Any) -> dict[str, Any]:
    if issubclass(kind, msgspec.Struct):
        return {
            one.name: one.default_factory() if one.default is msgspec.NODEFAULT else one.default
            for one in msgspec.structs.fields(kind)
            if not one.required
        }
    # None of those of the worker half has a factory.
    return {one.name: one.default for one in fields(kind) if hasattr(kind, one.name)}


def test_key_has_no_order() -> None:
    assert short_key({"a": 1, "b": [2.0]}) == short_key({"b": [2.0], "a": 1})
    assert short_key([1, 2]) != short_key([2, 1])
    assert short_key({"a": 1}, 6) == short_key({"a": 1})[:6]


def test_value_of_a_default_inside_of_another_value_is_left_out() -> None:
    assert without_defaults(Conv(3, (1, 1), init=Init("uniform"))) == {
        "channels": 3,
        "kernel": [1, 1],
        "init": {"rule": "uniform"},
    }
    assert without_defaults(CELL)["cores"] == [[0]]
    assert "shares" not in without_defaults(CELL)
