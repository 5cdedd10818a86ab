"""Every number of a suite or a flag has a bound with a reason, so that no plan is computed for ever."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.plan.matrix import cells_of
from paceline.plan.planning import make_plan
from paceline.plan.settings import BOUNDS, FIELDS
from paceline.plan.suite import load_suite, make_suite
from paceline.system.errors import UserError
from tests.factories.command_line import here
from tests.factories.machines import machine

DIGITS = "9" * 5000
FAKE = ("plan", "cifar10-conv", "--framework", "fake")


def said(*words: str) -> str:
    """What the command line answers to a mistake."""
    ended = here(*words)
    assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr[-500:]
    assert ended.stderr.startswith("paceline: ")
    assert ended.stderr.count("\n") == 1
    assert len(ended.stderr) < 1000
    return ended.stderr


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ((*FAKE, "--repeats", "1000000"), "repeats is a whole number from 1 to 1,000 ("),
        ((*FAKE, "--cores-per-device", "1000000000"), "cores_per_device is a whole number from 1 to 4,096 ("),
        (("explain", *FAKE[1:], "--devices", "2xcpu", "--rounds", "1000000"), "--rounds is a whole number from 2 to "),
        (("time", "--repeats", "1000000000", "--", "true"), "--repeats is a whole number from 1 to 1,000 ("),
        (("verify", "--framework", "fake", "--batch-size", "-1"), "--batch-size is a whole number from 1 to "),
        (("verify", "--framework", "fake", "--batch-size", "100000000000"), "--batch-size is a whole number from 1 to"),
        (("serve", "--host", "x" * 10_000), "give an address of this machine"),
        ((*FAKE, "--steps", DIGITS), "--steps '999"),
        *(((*command, "--scale", DIGITS), "--scale '999") for command in (FAKE, ("explain", *FAKE[1:]))),
        ((*FAKE, "--scale", "1,10000"), "--scale '1,10000': give numbers of devices from 1 to 256, such as 1,2,4."),
        (("explain", *FAKE[1:], "--rounds", DIGITS), "--rounds"),
    ],
)
def test_flag_beyond_its_bound_is_one_line_with_a_reason(words: tuple[str, ...], answer: str, tmp_path: Path) -> None:
    assert answer in said(*words, "--store", str(tmp_path)) if "--" not in words else answer in said(*words)


HUGE = {name: 10**30 if "int" in str(FIELDS[name]) else 1e300 for name in BOUNDS}


def test_numbers_of_a_suite_are_these() -> None:
    assert sorted(HUGE) == [
        *("batch_per_device", "batch_size", "budget", "cores_per_device", "epochs", "interval_target", "lr"),
        *("repeats", "seed", "steps", "timeout", "warmup"),
    ]


@pytest.mark.parametrize("key", HUGE)
@pytest.mark.parametrize("sign", [1, -1])
def test_number_of_a_suite_is_refused_with_its_bound(key: str, sign: int) -> None:
    with pytest.raises(UserError, match=rf"^here: {key}.* is a .+, not ") as refused:
        make_suite({"workload": "cifar10-conv", key: sign * HUGE[key]}, "here")
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("key", HUGE)
def test_truth_is_no_number(key: str) -> None:
    with pytest.raises(UserError, match="got bool"):
        make_suite({"workload": "cifar10-conv", key: True}, "here")


def test_matrix_has_a_largest_size() -> None:
    many = {"devices": [f"{n}xcpu" for n in range(1, 101)], "batch_per_device": list(range(1, 101)), "repeats": 1}
    with pytest.raises(UserError, match=r"10,000 cells.* at most 5,000"):
        cells_of(make_suite({"workload": "cifar10-conv", "framework": "fake", **many}, "here"), machine())


def test_parts_count_together() -> None:
    many = {"devices": [f"{n}xcpu" for n in range(1, 61)], "batch_per_device": list(range(1, 51))}
    whole = {"workload": "cifar10-conv", "framework": "fake", **many}
    part = make_suite(whole, "here")
    assert len(cells_of(part, machine())) == 3000
    with pytest.raises(UserError, match=r"6,000 cells.* at most 5,000"):
        cells_of(replace(part, parts=(part, part)), machine())


def test_plan_has_a_largest_number_of_runs() -> None:
    many = {"devices": [f"{n}xcpu" for n in range(1, 101)], "repeats": 1000}
    suite = make_suite({"workload": "cifar10-conv", "framework": "fake", "batch_per_device": 1, **many}, "here")
    with pytest.raises(UserError, match=r"100,000 runs.* at most 20,000"):
        make_plan(suite, machine())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"slow": ["1:2"] * 2000}, "here: slow has 2,000 values; at most 256"),
        ({"framework": ["x" * 5000]}, "here: framework has a value of 5,000 letters; at most 4,096"),
        ({"name": "x" * 300}, "here: name has 300 letters; at most 255"),
    ],
)
def test_lists_and_words_have_a_length(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        make_suite({"workload": "cifar10-conv", **settings}, "here")


def test_parts_have_a_number(tmp_path: Path) -> None:
    path = tmp_path / "parts.toml"
    path.write_text("workload = 'cifar10-conv'\n" + "[[part]]\n" * 300)
    with pytest.raises(UserError, match=r"has 300 parts; at most 256"):
        load_suite(path, {})


def test_more_cores_than_there_are_cost_nothing() -> None:
    suite = make_suite({"workload": "cifar10-conv", "framework": "fake", "cores_per_device": 4096}, "here")
    (found,) = cells_of(suite, machine(cores=2))
    assert found.cores == ((0, 1),)
    assert found.oversubscribed
