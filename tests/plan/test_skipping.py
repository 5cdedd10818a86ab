"""What a machine cannot measure is said in one line, with what would run there."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.plan.planning import Plan, make_plan
from paceline.plan.requested_suites import read_suite
from paceline.plan.skipping import check_wanted, skip_summary
from paceline.system.errors import UserError
from paceline.system.machine.hardware import this_machine  # noqa: F401 - for the condition below
from tests.factories.command_line import CommandLine
from tests.factories.machines import machine

SMALL_FORM = "; add --quick for this suite's small form, which runs on CPUs"
TWO_CARDS = machine(gpus=("A100", "T4"))


def suite(name: str, **flags: Any) -> Plan:
    return make_plan(read_suite([name], flags), machine())


def test_suite_for_gpus_alone_points_to_its_small_form() -> None:
    plan = suite("keras-backends")
    said = skip_summary(plan, machine(), small_form=True)
    assert said == (
        f"paceline: nothing to measure, all {len(plan.cells)} cells are skipped: this machine has no GPU{SMALL_FORM}"
    )
    assert skip_summary(plan, machine(), small_form=False) == said.removesuffix(SMALL_FORM)


def test_suite_of_which_some_runs_points_to_its_small_form_too() -> None:
    plan = suite("mxnet-multi-gpu")
    assert skip_summary(plan, machine(), small_form=True) == f"paceline: cells that need GPUs are skipped{SMALL_FORM}"
    assert not skip_summary(plan, machine(), small_form=False)


def test_machine_with_fewer_gpus_is_not_sent_to_the_small_form() -> None:
    plan = make_plan(read_suite(["mxnet-multi-gpu"], {}), TWO_CARDS)
    assert plan.skips
    assert not skip_summary(plan, TWO_CARDS, small_form=True)


def test_nothing_is_said_where_all_runs() -> None:
    assert not skip_summary(suite("demo", framework=["fake"]), machine(), small_form=False)


def test_single_cell_that_cannot_run_is_called_the_only_one() -> None:
    plan = make_plan(
        read_suite(["cifar10-conv"], {"framework": ["fake"], "precision": ["bfloat16"], "devices": ["2xcpu"]}),
        machine(),
    )
    said = skip_summary(plan, machine(), small_form=False)
    assert said == "paceline: nothing to measure, the only cell is skipped: fake has no bfloat16, only float32"


@pytest.mark.parametrize("devices", [["cuda:9"], ["cuda:0+cuda:7", "cuda:8"]])
def test_flag_for_devices_that_are_not_here_is_refused_in_a_suite_too(devices: list[str]) -> None:
    flags = {"devices": devices}
    plan = make_plan(read_suite(["demo"], flags), TWO_CARDS)
    with pytest.raises(UserError, match=r"There is no cuda:\d for .*; this machine has cuda:0 \(A100\), cuda:1 \(T4\)"):
        check_wanted(plan, TWO_CARDS, flags)


def test_flag_for_devices_of_which_some_are_here_makes_skips_of_the_others() -> None:
    flags = {"devices": ["cuda:1", "cuda:2"], "framework": ["torch"]}
    plan = make_plan(read_suite(["demo"], flags), TWO_CARDS)
    check_wanted(plan, TWO_CARDS, flags)
    assert [skip.reason for skip in plan.skips] == ["this machine has no cuda:2"]


@pytest.mark.skipif("this_machine().gpus", reason="needs a machine without GPUs")
@pytest.mark.parametrize("command", ["plan", "run"])
def test_suite_for_gpus_ends_well_without_any(paceline: CommandLine, command: str) -> None:
    ended = paceline(command, "keras-backends")
    assert ended.returncode == 0
    assert "this machine has no cuda:0" in ended.stdout
    assert ended.stderr.splitlines()[-1].endswith(SMALL_FORM)
