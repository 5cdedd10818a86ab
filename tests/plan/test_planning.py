"""A suite becomes cells, skips and runs: which, in what order, under which keys, and what each worker is told."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paceline.catalog.frameworks import Contestant, all_frameworks, find
from paceline.catalog.workloads import WORKLOADS
from paceline.cli.actions import show_plan
from paceline.environments.virtual_environments import Environment
from paceline.plan.cell import Cell
from paceline.plan.devices import parse_devices
from paceline.plan.matrix import check_split
from paceline.plan.planning import Plan, Run, make_job, make_plan
from paceline.plan.run_keys import run_key
from paceline.plan.suite import make_suite
from paceline.system.errors import UserError
from paceline.system.machine.hardware import Machine
from paceline_worker.graph import Graph
from paceline_worker.protocol import Recipe
from tests.factories.machines import machine


def planned(on: Machine | None = None, /, **choices: Any) -> Plan:
    """A plan of the fake framework for cifar10-conv, unless the choices say otherwise."""
    suite = make_suite({"workload": "cifar10-conv", "framework": "fake", **choices}, "the test")
    return make_plan(suite, on or machine())


def only_cell(on: Machine | None = None, /, **choices: Any) -> Cell:
    (cell,) = planned(on, **choices).cells
    return cell


def keys(on: Machine | None = None, /, **choices: Any) -> set[str]:
    return {run.key for run in planned(on, **choices).runs}


def names(runs: tuple[Run, ...]) -> list[tuple[str, str]]:
    return [(run.cell.framework, run.cell.devices) for run in runs]


def test_matrix_has_a_cell_for_every_combination_in_the_order_of_the_table() -> None:
    plan = planned(
        workload=["cifar10-conv", "mnist-mlp"],
        framework=["torch", "jax"],
        devices=["1xcpu", "2xcpu"],
        batch_size=[64, 128],
    )
    assert [(c.workload, c.batch_size, c.framework, c.devices) for c in plan.cells] == [
        ("cifar10-conv", 64, "torch", "1xcpu"),
        ("cifar10-conv", 64, "torch", "2xcpu"),
        ("cifar10-conv", 64, "jax", "1xcpu"),
        ("cifar10-conv", 64, "jax", "2xcpu"),
        ("cifar10-conv", 128, "torch", "1xcpu"),
        ("cifar10-conv", 128, "torch", "2xcpu"),
        ("cifar10-conv", 128, "jax", "1xcpu"),
        ("cifar10-conv", 128, "jax", "2xcpu"),
        ("mnist-mlp", 64, "torch", "1xcpu"),
        ("mnist-mlp", 64, "torch", "2xcpu"),
        ("mnist-mlp", 64, "jax", "1xcpu"),
        ("mnist-mlp", 64, "jax", "2xcpu"),
        ("mnist-mlp", 128, "torch", "1xcpu"),
        ("mnist-mlp", 128, "torch", "2xcpu"),
        ("mnist-mlp", 128, "jax", "1xcpu"),
        ("mnist-mlp", 128, "jax", "2xcpu"),
    ]


def test_data_sources_and_precisions_span_the_matrix_too() -> None:
    plan = planned(framework="torch", data=["fake:device", "fake:python"], precision=["float32", "bfloat16"])
    assert [(cell.data, cell.precision) for cell in plan.cells] == [
        ("fake:device", "float32"),
        ("fake:device", "bfloat16"),
        ("fake:python", "float32"),
        ("fake:python", "bfloat16"),
    ]


def test_what_is_named_twice_is_measured_once() -> None:
    plan = planned(framework=["fake", "fake"], devices=["1xcpu", "1xcpu"], repeats=3)
    assert (len(plan.cells), len(plan.runs)) == (1, 3)


def test_batch_in_all_stays_and_batch_per_device_grows() -> None:
    strong = planned(devices=["1xcpu", "4xcpu"], batch_size=64).cells
    weak = planned(devices=["1xcpu", "4xcpu"], batch_per_device=64).cells
    assert [(cell.batch_size, cell.scaling) for cell in strong] == [(64, "strong"), (64, "strong")]
    assert [(cell.batch_size, cell.scaling) for cell in weak] == [(64, "weak"), (256, "weak")]


def test_rates_and_epochs_span_the_matrix_too() -> None:
    plan = planned(lr=[0.05, 0.4], epochs=[1, 2.5], batch_size=100, warmup=0, framework=["torch", "fake"])
    assert [(cell.steps, cell.learning_rate, cell.framework) for cell in plan.cells] == [
        (500, 0.05, "torch"),
        (500, 0.05, "fake"),
        (500, 0.4, "torch"),
        (500, 0.4, "fake"),
        (1250, 0.05, "torch"),
        (1250, 0.05, "fake"),
        (1250, 0.4, "torch"),
        (1250, 0.4, "fake"),
    ]


def test_one_rate_of_a_list_has_the_keys_that_it_has_alone() -> None:
    assert keys(lr=[0.05, 0.4], epochs=[1, 2]) > keys(lr=0.4, epochs=1)


def test_workload_gives_what_the_suite_leaves_open() -> None:
    cell = only_cell(workload="cifar10-resnet20")
    assert (cell.batch_size, cell.scaling, cell.learning_rate, cell.steps) == (128, "strong", 0.05, 100)
    assert only_cell(workload="cifar10-resnet20", lr=0.2).learning_rate == 0.2


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"workload": "cifar10-con"}, "Unknown workload 'cifar10-con'. Did you mean 'cifar10-conv'?"),
        ({"framework": "tourch"}, "Unknown framework 'tourch'. Did you mean 'torch'?"),
        ({"framework": "torch+compil"}, "Unknown mode of torch 'compil'. Did you mean 'compile'?"),
        ({"framework": "jax+compile"}, "Unknown mode of jax 'compile'. Known: none, write just jax."),
        ({"devices": "2xgpu"}, "Unknown devices '2xgpu'"),
        ({"devices": "cuda:0"}, "There is no cuda:0 for the device set 'cuda:0'"),
        ({"update": "allreduce"}, "Unknown update in the test: 'allreduce'. Known: replicated"),
        ({"data": "fake:hots"}, "Unknown data source 'fake:hots'. Did you mean 'fake:host'?"),
        ({"precision": "float16"}, "Unknown precision in the test: 'float16'. Did you mean 'bfloat16'?"),
    ],
)
def test_unknown_name_is_refused_with_the_known(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        planned(**choices)


def test_batch_that_cannot_be_split_is_refused_with_one_that_can() -> None:
    expected = "A batch of 64 cannot be split over 3 devices (3xcpu); use a multiple of 3, such as 66."
    with pytest.raises(UserError, match=re.escape(expected)):
        planned(devices=["1xcpu", "3xcpu"], batch_size=64)


@given(st.integers(1, 10_000), st.integers(2, 64))
@settings(deadline=None)
def test_batch_in_the_advice_can_be_split(batch_size: int, devices: int) -> None:
    assume(batch_size % devices)
    with pytest.raises(UserError) as refused:
        check_split(batch_size, parse_devices(f"{devices}xcpu"))
    advice = int(re.findall(r"such as (\d+)", str(refused.value))[0])
    assert advice % devices == 0
    assert batch_size < advice < batch_size + devices


@pytest.mark.parametrize("warmup", [20, 21])
def test_warm_up_as_long_as_the_training_is_refused(warmup: int) -> None:
    expected = f"warmup {warmup} must be less than the 20 steps; use --warmup 19 or more steps."
    with pytest.raises(UserError, match=re.escape(expected)):
        planned(steps=20, warmup=warmup)
    assert only_cell(steps=20, warmup=19).warmup == 19


@pytest.mark.parametrize(
    ("epochs", "batch_size", "steps"),
    [
        (1, 128, 391),  # 50,000 / 128 = 390.6: the last images count, too
        (2, 128, 782),  # 100,000 / 128 = 781.25
        (0.5, 100, 250),
        (0.001, 128, 1),  # 0.4 steps
    ],
)
def test_epochs_become_steps(epochs: float, batch_size: int, steps: int) -> None:
    assert only_cell(epochs=epochs, batch_size=batch_size, warmup=0).steps == steps


def test_epoch_has_fewer_steps_where_the_batch_grows() -> None:
    cells = planned(devices=["1xcpu", "4xcpu"], batch_per_device=125, epochs=1).cells
    assert [cell.steps for cell in cells] == [400, 100]


def test_what_a_framework_cannot_do_is_skipped_with_the_reason() -> None:
    plan = planned(framework=["torch", "fake"], precision=["float32", "bfloat16"], repeats=2)
    assert len(plan.cells) == 4
    assert [(skip.cell.framework, skip.cell.precision, skip.reason) for skip in plan.skips] == [
        ("fake", "bfloat16", "fake has no bfloat16, only float32")
    ]
    assert sorted({(run.cell.framework, run.cell.precision) for run in plan.runs}) == [
        ("fake", "float32"),
        ("torch", "bfloat16"),
        ("torch", "float32"),
    ]
    assert len(plan.runs) == 6


def test_framework_without_gpu_is_skipped_on_gpus() -> None:
    plan = planned(machine(gpus=("T4",)), framework=["fake", "jax"], devices="1xcuda")
    assert [(skip.cell.framework, skip.reason) for skip in plan.skips] == [("fake", "fake has no cuda, only cpu")]


@pytest.mark.parametrize(
    ("lack", "reason"),
    [
        ({"devices": ("cuda",)}, "narrow has no cpu, only cuda"),
        ({"updates": ("independent",)}, "narrow has no replicated, only independent"),
        ({"data": ("fake:host", "fake:python")}, "narrow has no fake:device, only fake:host, fake:python"),
        ({"precisions": ("bfloat16",)}, "narrow has no float32, only bfloat16"),
    ],
    ids=str,
)
def test_any_capability_can_be_missing(
    monkeypatch: pytest.MonkeyPatch, lack: dict[str, tuple[str, ...]], reason: str
) -> None:
    narrow = msgspec.structs.replace(find("fake").framework, name="narrow", **lack)
    monkeypatch.setattr("paceline.plan.planning.find", lambda name: Contestant(narrow, ""))
    plan = planned()
    assert [skip.reason for skip in plan.skips] == [reason]
    assert plan.runs == ()


@pytest.mark.parametrize(
    ("most", "reasons"),
    [
        (None, []),
        (4, []),
        (2, ["fake trains on at most 2 devices"]),
        (1, ["fake trains on at most 1 device", "fake trains on at most 1 device"]),
    ],
)
def test_more_devices_than_a_framework_can_use_are_skipped(
    monkeypatch: pytest.MonkeyPatch, most: int | None, reasons: list[str]
) -> None:
    narrow = msgspec.structs.replace(find("fake").framework, max_devices=most)
    monkeypatch.setattr("paceline.plan.planning.find", lambda name: Contestant(narrow, ""))
    plan = planned(devices=["1xcpu", "2xcpu", "4xcpu"], repeats=1)
    assert [skip.reason for skip in plan.skips] == reasons
    assert len(plan.runs) == 3 - len(reasons)


def test_cores_are_divided_by_the_largest_set() -> None:
    one, two, four = planned(machine(cores=8), devices=["1xcpu", "2xcpu", "4xcpu"]).cells
    assert one.cores == ((0, 1),)  # not all eight: four devices are to be four times as much as one
    assert two.cores == ((0, 1), (2, 3))
    assert four.cores == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert not any(cell.oversubscribed for cell in (one, two, four))


def test_cores_that_do_not_divide_stay_free() -> None:
    assert only_cell(machine(cores=8), devices="3xcpu", batch_size=96).cores == ((0, 1), (2, 3), (4, 5))


def test_number_of_cores_can_be_chosen() -> None:
    assert only_cell(machine(cores=8), devices="1xcpu", cores_per_device=3).cores == ((0, 1, 2),)


@pytest.mark.parametrize(
    ("devices", "cores_per_device", "oversubscribed"),
    [("4xcpu", None, False), ("8xcpu", None, True), ("2xcpu", 2, False), ("2xcpu", 3, True), ("1xcpu", 5, True)],
)
def test_cores_used_twice_are_marked(devices: str, cores_per_device: int | None, oversubscribed: bool) -> None:
    assert only_cell(devices=devices, cores_per_device=cores_per_device).oversubscribed == oversubscribed


def test_cores_of_a_container_are_those_of_its_quota() -> None:
    limited = machine(cores=64, quota_cores=2.5)
    assert limited.cores_in_words == "2.5 of 64 cores by quota"
    assert "Imaginary 9000, 2.5 of 64 cores by quota, 16 GiB" in limited.description
    assert only_cell(limited, devices="1xcpu").cores == ((0, 1),)
    one, two = planned(limited, devices=["1xcpu", "2xcpu"]).cells
    assert (one.cores, two.cores) == (((0,),), ((0,), (1,)))
    assert not one.oversubscribed
    assert not two.oversubscribed


@pytest.mark.parametrize(
    ("quota", "devices", "cores_per_device", "oversubscribed"),
    [
        (2.0, "2xcpu", 1, False),
        (2.0, "4xcpu", None, True),
        (2.5, "1xcpu", 3, True),
        (0.5, "1xcpu", None, True),  # no device has less than one core
        (99.0, "4xcpu", None, False),
    ],
)
def test_more_cores_than_a_quota_gives_are_marked(
    quota: float, devices: str, cores_per_device: int | None, oversubscribed: bool
) -> None:
    cell = only_cell(machine(cores=64, quota_cores=quota), devices=devices, cores_per_device=cores_per_device)
    assert cell.oversubscribed == oversubscribed


def test_cores_beside_gpus_are_those_of_the_quota() -> None:
    limited = machine(cores=64, gpus=("T4",) * 2, quota_cores=4.0)
    assert only_cell(limited, framework="torch", devices="2xcuda").cores == ((0, 1), (2, 3))


def test_plan_says_that_there_is_a_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("paceline.cli.actions.this_machine", lambda: machine(cores=64, quota_cores=2.0))
    show_plan(["cifar10-conv"], {"framework": ["fake"], "devices": ["1xcpu"]}, tmp_path)
    assert "2 of 64 cores by quota: devices that want more" in capsys.readouterr().out
    monkeypatch.setattr("paceline.cli.actions.this_machine", machine)
    show_plan(["cifar10-conv"], {"framework": ["fake"], "devices": ["1xcpu"]}, tmp_path)
    assert "quota" not in capsys.readouterr().out


def test_every_round_has_every_cell_once() -> None:
    plan = planned(framework=["torch", "jax", "fake"], devices=["1xcpu", "2xcpu"], repeats=3)
    assert [run.repeat for run in plan.runs] == [0] * 6 + [1] * 6 + [2] * 6
    assert {run.cell for run in plan.runs[:6]} == set(plan.cells)
    assert {run.cell for run in plan.runs[6:12]} == set(plan.cells)
    assert {run.cell for run in plan.runs[12:]} == set(plan.cells)


def test_every_round_has_an_order_of_its_own() -> None:
    runs = planned(framework=["torch", "jax", "fake"], devices=["1xcpu", "2xcpu"], repeats=3).runs
    first, second, third = names(runs[:6]), names(runs[6:12]), names(runs[12:])
    assert first != second != third != first


def test_order_depends_on_the_seed_alone() -> None:
    choices = {"framework": ["torch", "jax", "fake"], "devices": ["1xcpu", "2xcpu"]}
    assert planned(**choices, seed=4) == planned(**choices, seed=4)
    assert names(planned(**choices, seed=4).runs) != names(planned(**choices, seed=5).runs)


def test_no_two_runs_of_a_plan_share_a_key() -> None:
    plan = planned(framework=["torch", "torch+compile", "jax"], devices=["1xcpu", "2xcpu"], repeats=4)
    assert len({run.key for run in plan.runs}) == len(plan.runs) == 24


@pytest.mark.parametrize(
    "change",
    [
        {"workload": "cifar10-resnet20"},
        {"framework": "fake+shout"},
        {"devices": "2xcpu"},
        {"data": "fake:host"},
        {"batch_size": 64},
        {"steps": 99},
        {"warmup": 9},
        {"data": "cifar10"},
        {"lr": 0.5},
        {"lr": 0.02},
        {"seed": 2},
        {"cores_per_device": 1},
    ],
    ids=str,
)
def test_key_changes_with_what_is_measured(change: dict[str, Any]) -> None:
    assert keys().isdisjoint(keys(**change))


def test_key_changes_with_the_precision() -> None:
    assert keys(framework="torch").isdisjoint(keys(framework="torch", precision="bfloat16"))


@pytest.mark.parametrize(
    "change",
    [
        {"host": "other"},
        {"processor": "Imaginary 9001"},
        {"gpus": ("T4",)},
        {"memory_bytes": 32 * 2**30},
        {"cores": (0, 1, 2)},
    ],
    ids=str,
)
def test_key_changes_with_the_machine(change: dict[str, Any]) -> None:
    other = msgspec.structs.replace(machine(), **change)
    assert keys(cores_per_device=1).isdisjoint(keys(other, cores_per_device=1))


def test_key_changes_with_the_pins_of_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys()
    newer = msgspec.structs.replace(find("fake").framework, requirements="numpy==99\n")
    monkeypatch.setattr("paceline.plan.run_keys.find", lambda name: Contestant(newer, ""))
    assert before.isdisjoint(keys())


def test_key_changes_with_the_measuring_code(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys()
    monkeypatch.setattr("paceline.plan.run_keys.code_hash", lambda framework: "another")
    assert before.isdisjoint(keys())


def test_key_changes_with_the_network_and_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys()
    monkeypatch.setattr("paceline.plan.run_keys.fingerprint", lambda workload, given: "edited")
    assert before.isdisjoint(keys())


def test_key_changes_with_a_registered_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys()
    theirs = Environment(
        framework="fake", python=sys.executable, python_version="3.8", requirements="", packages={}, sites=("/s",)
    )
    monkeypatch.setattr("paceline.environments.virtual_environments.brought", lambda framework: theirs)
    assert before.isdisjoint(keys())


def test_all_stands_for_every_listed_framework() -> None:
    cells = planned(framework=["all", "torch", "torch+compile"]).cells
    listed = [name for name, framework in all_frameworks().items() if not framework.hidden]
    assert [cell.framework for cell in cells] == [*listed, "torch+compile"]
    assert "torch" in listed
    assert "fake" not in listed


def test_framework_that_the_user_must_bring_is_skipped_with_that_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PACELINE_ENVIRONMENTS", str(tmp_path))
    foreign = msgspec.structs.replace(find("fake").framework, provided="it is not on PyPI")
    monkeypatch.setattr("paceline.plan.planning.find", lambda name: Contestant(foreign, ""))
    plan = planned()
    assert [skip.reason for skip in plan.skips] == [
        "it is not on PyPI; `paceline install fake --python PATH` registers a Python that can import it"
    ]
    assert not plan.runs


@pytest.mark.parametrize(
    "same",
    [
        {"name": "nightly"},
        {"timeout": 5.0},
        {"steps": 100, "warmup": 10},  # the defaults, said
        {"batch_size": 128, "lr": 0.01},  # the workload's own, said
    ],
    ids=str,
)
def test_key_stays_with_what_changes_no_measurement(same: dict[str, Any]) -> None:
    assert keys(**same) == keys()


def test_key_stays_when_the_suite_grows() -> None:
    alone = keys(framework="jax", repeats=3)
    among_others = keys(framework=["torch", "jax"], data=["fake:host", "fake:device"], repeats=5)
    assert alone < among_others


def test_key_survives_a_new_host_name_where_the_machine_is_known_without() -> None:
    known = msgspec.structs.replace(machine(), identity="system:1")
    assert keys(msgspec.structs.replace(known, host="4f2a11c0")) == keys(known)
    assert keys(msgspec.structs.replace(known, identity="system:2")).isdisjoint(keys(known))


def test_key_survives_an_update_of_the_kernel() -> None:
    updated = msgspec.structs.replace(machine(), system="Linux 6.2.0", gpu_driver="580")
    assert keys(updated) == keys()


def test_job_says_all_that_the_worker_needs() -> None:
    plan = planned(
        workload="cifar10-resnet20",
        framework="torch+compile",
        devices="2xcpu",
        data="fake:host",
        precision="bfloat16",
        batch_size=96,
        steps=25,
        warmup=5,
        lr=0.3,
        seed=11,
        repeats=1,
    )
    job = make_job(plan.runs[0])
    assert (job.framework, job.mode) == ("torch", "compile")
    assert (job.devices, job.cores, job.shares) == (("cpu:0", "cpu:1"), ((0, 1), (2, 3)), (48, 48))
    assert (job.update, job.data, job.precision) == ("replicated", "fake:host", "bfloat16")
    assert (job.steps, job.warmup, job.evaluate, job.seed) == (25, 5, "never", 11)
    assert job.recipe == Recipe(  # MXNet's, with our rate
        learning_rate=0.3,
        momentum=0.9,
        weight_decay=1e-4,
        decayed=("conv.kernel", "dense.kernel", "gamma"),
        drops=((200, 0.1), (250, 0.1)),
    )
    assert (job.epoch_images, job.dataset, job.count_correct) == (50_000, "", False)
    assert job.classes == 10
    assert Graph.from_json(job.graph).nodes == WORKLOADS["cifar10-resnet20"].graph().nodes


def test_job_keeps_the_order_of_named_gpus() -> None:
    plan = planned(machine(gpus=("T4",) * 3), framework="torch", devices="cuda:2+cuda:0")
    assert make_job(plan.runs[0]).devices == ("cuda:2", "cuda:0")


def test_every_repeat_has_a_seed_of_its_own_and_all_cells_share_it() -> None:
    plan = planned(devices=["1xcpu", "2xcpu"], seed=40, repeats=3)
    assert sorted((run.cell.devices, make_job(run).seed) for run in plan.runs) == [
        ("1xcpu", 40),
        ("1xcpu", 41),
        ("1xcpu", 42),
        ("2xcpu", 40),
        ("2xcpu", 41),
        ("2xcpu", 42),
    ]


def test_largest_seed_starts_over_from_zero() -> None:
    plan = planned(seed=2**32 - 1, repeats=2)  # NumPy takes no seed beyond 32 bits
    assert [make_job(run).seed for run in plan.runs] == [2**32 - 1, 0]


@pytest.mark.parametrize(("steps", "block_steps"), [(100, 10), (101, 11), (25, 3), (10, 1), (3, 1)])
def test_clock_is_read_about_ten_times(steps: int, block_steps: int) -> None:
    assert make_job(planned(steps=steps, warmup=0).runs[0]).block_steps == block_steps


def test_rank_waits_no_longer_for_others_than_the_run_may_take() -> None:
    assert make_job(planned(timeout=20.0).runs[0]).patience_seconds == 20
    assert make_job(planned(timeout=7200.0).runs[0]).patience_seconds == 300


def test_key_of_a_run_is_that_of_its_cell_and_repeat() -> None:
    run = planned(repeats=2).runs[1]
    assert run.key == run_key(run.cell, 1, machine())
    assert run.key != run_key(run.cell, 0, machine())


def test_job_of_real_data_says_where_the_images_are_and_what_is_done_to_them() -> None:
    plan = planned(workload="cifar10-resnet20", data="cifar10", epochs=2, repeats=1)
    job = make_job(plan.runs[0])
    assert job.steps == 2 * 391  # each epoch's last batch is filled up
    assert (job.evaluate, job.count_correct) == ("epoch", True)
    assert Path(job.dataset).name == "cifar10"
    assert job.pipeline["training"] == ("pad4", "crop28", "jitter", "mirror", "mean")


def test_steps_of_epochs_that_run_on_into_each_other() -> None:
    assert only_cell(data="cifar10", epochs=10).steps == 3907  # 500,000 images in batches of 128


def test_inputs_are_cells_of_their_own() -> None:
    cells = planned(data=["cifar10", "fake:python"], input=["scaled", "whitened"]).cells
    assert [(cell.data, cell.input) for cell in cells] == [
        ("cifar10", "scaled"),
        ("cifar10", "whitened"),
        ("fake:python", ""),
    ]


def test_input_that_a_workload_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match=r"Unknown input of cifar10-conv 'level1'\. .*Known: scaled, whitened\."):
        planned(data="cifar10", input="level1")


def test_images_that_a_workload_was_not_made_for_are_skipped() -> None:
    plan = planned(workload="imagenet-resnet50", data="cifar10")
    assert [skip.reason for skip in plan.skips] == ["imagenet-resnet50 is not made for images of cifar10"]


@pytest.mark.parametrize(("rule", "rate"), [("none", 0.01), ("linear", 0.04), ("sqrt", 0.02)])
def test_learning_rate_follows_the_batch_by_the_rule(rule: str, rate: float) -> None:
    cell = only_cell(devices="4xcpu", batch_per_device=128, lr_rule=rule)  # four times the workload's own
    assert cell.learning_rate == pytest.approx(rate)


def test_workload_that_does_nothing_with_its_images_is_skipped_and_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = replace(WORKLOADS["cifar10-conv"], pipelines={})
    monkeypatch.setattr("paceline.plan.matrix.known_workload", lambda name: bare)
    plan = planned(data="cifar10")
    assert [skip.reason for skip in plan.skips] == ["cifar10-conv is not made for images of cifar10"]
