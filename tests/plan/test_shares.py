"""Batches for unlike devices: told or measured shares, devices slowed down to simulate them, one device wrapped."""

from __future__ import annotations

import json
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.plan.cell import Cell
from paceline.plan.devices import parse_devices
from paceline.plan.pilots import pilots
from paceline.plan.planning import another_round, make_job, make_plan
from paceline.plan.run_keys import run_key
from paceline.plan.shares import divide
from paceline.plan.suite import load_suite, make_suite
from paceline.run.session import measured_shares
from paceline.store.store import Store
from paceline.system.errors import UserError
from tests.factories.command_line import CommandLine, send, wait_until
from tests.factories.machines import machine
from tests.factories.runs import record, save_run, trained


def planned(**choices: Any) -> Any:
    settings = {"workload": "cifar10-conv", "framework": "fake", "devices": "2xcpu", **choices}
    return make_plan(make_suite(settings, "the test"), machine())


def only_cell(**choices: Any) -> Cell:
    (cell,) = planned(**choices).cells
    assert isinstance(cell, Cell)
    return cell


@given(st.integers(1, 5000), st.lists(st.floats(0.01, 100), min_size=1, max_size=16))
def test_shares_add_up_and_are_nearest_to_what_was_told(batch: int, sizes: list[float]) -> None:
    devices = parse_devices(f"{len(sizes)}xcpu")
    exact = [batch * size / sum(sizes) for size in sizes]
    try:
        shares = divide(batch, sizes, devices)
    except UserError:
        assert min(exact) < 1
        return
    assert sum(shares) == batch
    assert min(shares) >= 1
    assert all(abs(share - part) < 1 for share, part in zip(shares, exact, strict=True))


def test_told_shares_reach_the_worker() -> None:
    plan = planned(devices="3xcpu", shares="2:2:1", batch_size=100)
    assert make_job(plan.runs[0]).shares == (40, 40, 20)


def test_one_device_has_the_whole_batch_whatever_the_shares() -> None:
    plan = planned(devices=["1xcpu", "2xcpu"], shares="3:1", batch_size=64)
    assert [make_job(run).shares for run in plan.runs if run.repeat == 0 and run.cell.devices == "1xcpu"] == [(64,)]


def shares_of(**choices: Any) -> list[tuple[str, str]]:
    return [(cell.devices, cell.shares) for cell in planned(**choices).cells]


THREE_SETS = ["3xcpu", "2xcpu", "1xcpu"]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        (["43:43:42"], [("3xcpu", "43:43:42"), ("2xcpu", "equal"), ("1xcpu", "equal")]),
        (["43:43:42", "equal"], [("3xcpu", "43:43:42"), ("2xcpu", "equal"), ("1xcpu", "equal")]),
        (["43:43:42", "3:1"], [("3xcpu", "43:43:42"), ("2xcpu", "3:1"), ("1xcpu", "equal")]),
        (
            ["43:43:42", "equal", "3:1"],
            [("3xcpu", "43:43:42"), ("2xcpu", "equal"), ("2xcpu", "3:1"), ("1xcpu", "equal")],
        ),
        (
            ["43:43:42", "measured"],
            [("3xcpu", "43:43:42"), ("3xcpu", "measured"), ("2xcpu", "measured"), ("1xcpu", "equal")],
        ),
    ],
)
def test_each_set_takes_the_shares_that_fit_it(shares: list[str], expected: list[tuple[str, str]]) -> None:
    """128 images have no three equal parts, so fixed ones stand in their place."""
    assert shares_of(devices=THREE_SETS, shares=shares, batch_size=128) == expected


def test_equal_shares_are_a_cell_of_their_own_where_the_batch_has_equal_parts() -> None:
    assert shares_of(devices="3xcpu", shares=["2:2:1", "equal"], batch_size=[128, 129]) == [
        ("3xcpu", "2:2:1"),
        ("3xcpu", "2:2:1"),
        ("3xcpu", "equal"),
    ]


def test_equal_parts_that_a_batch_has_not_are_refused_where_nothing_else_is_said() -> None:
    with pytest.raises(UserError, match="A batch of 128 cannot be split over 3 devices"):
        planned(devices=THREE_SETS, shares="64:64", batch_size=128)


def test_shares_of_one_part_of_a_suite_need_not_fit_the_others(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    parts = "[[part]]\ndevices = '3xcpu'\n[[part]]\ndevices = ['2xcpu', '1xcpu']\n"
    path.write_text(f"workload = 'cifar10-conv'\nframework = 'fake'\n{parts}", encoding="utf-8")
    plan = make_plan(load_suite(path, {"shares": ["43:43:42"]}), machine())
    assert [cell.shares for cell in plan.cells] == ["43:43:42", "equal", "equal"]
    with pytest.raises(UserError, match="shares 1:1:1:1 are for 4 devices, but no device set has so many: 3xcpu, 2xcp"):
        make_plan(load_suite(path, {"shares": ["1:1:1:1"]}), machine())
    assert len(make_plan(load_suite(path, {"shares": ["2:1"], "devices": ["1xcpu"]}), machine()).cells) == 1


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"shares": "2:2:1"}, "are for 3 devices, but 2xcpu has 2"),
        ({"shares": "2:2:1", "devices": ["1xcpu", "2xcpu"]}, "are for 3 devices, but no device set has so many: 1xcpu"),
        ({"shares": "2:1", "devices": "1xcpu"}, "One device has the whole batch, so shares 2:1 need several"),
        ({"shares": "1:0"}, "whole numbers from 1 up such as 2:2:1"),
        ({"shares": "half"}, "write equal, measured, or whole numbers"),
        ({"shares": "1000:1", "batch_size": 64}, "a device would get no image"),
        ({"slow": "1"}, "write DEVICE:TIMES such as 1:2.0"),
        ({"slow": "1:0.5"}, "with times from 1 to 100"),
        ({"slow": "2:2.0"}, "device 2 is no device of any set"),
        ({"devices": "cpu:0+cuda:0"}, "mixes processors and GPUs"),
        ({"devices": "300xcpu"}, "at most 256 train together"),
    ],
)
def test_what_is_no_division_is_refused_in_one_line(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned(**choices)


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"framework": "jax", "shares": "3:1"}, "jax divides a batch equally"),
        ({"framework": "jax", "shares": "measured"}, "jax divides a batch equally"),
        ({"framework": "jax", "shares": "1:1", "batch_size": 65}, "jax divides a batch equally"),
        ({"framework": "jax", "slow": "1:2"}, "all devices of jax are in one process"),
        (
            {"framework": "keras-jax", "devices": "1xcpu", "single": "wrapped"},
            "keras-jax has no wrapper for one device",
        ),
    ],
)
def test_what_a_framework_cannot_do_is_skipped(choices: dict[str, Any], reason: str) -> None:
    (skip,) = planned(**choices).skips
    assert skip.reason.startswith(reason)


def test_equal_shares_may_be_told_to_every_framework() -> None:
    plan = planned(framework="jax", devices="2xcpu", shares="1:1", batch_size=64)
    assert plan.skips == ()
    assert make_job(plan.runs[0]).shares == (32, 32)


def test_each_device_is_tried_alone_before_its_share_is_measured() -> None:
    cell = only_cell(shares="measured", slow="1:2.0", batch_size=64)
    first, second = pilots(cell)
    assert (first.cores, second.cores) == (cell.cores[:1], cell.cores[1:])
    assert (first.slow, second.slow) == ((), (2.0,))
    assert {first.batch_size, second.batch_size} == {32}
    assert pilots(only_cell(shares="3:1")) == []


def test_devices_are_tried_three_times_by_turns_before_the_rest() -> None:
    plan = planned(shares="measured", batch_size=64, repeats=2)
    (cell,) = plan.cells
    *tried, fourth, fifth = plan.runs
    for repeat in range(3):
        turn = tried[2 * repeat : 2 * repeat + 2]
        assert [run.repeat for run in turn] == [repeat, repeat]
        assert {run.cell for run in turn} == set(pilots(cell))
    assert (fourth.cell, fifth.cell, len(tried)) == (cell, cell, 6)


def test_trying_devices_counts_for_no_cell() -> None:
    plan = planned(shares="measured", repeats=1)
    assert another_round(plan, plan.cells, machine()).runs[-1].repeat == 1


def test_share_is_by_the_median_of_what_a_device_did_alone(tmp_path: Path) -> None:
    """One slow moment and one wrong reading change nothing."""
    store, plan = Store(tmp_path), planned(shares="measured", batch_size=64, repeats=1)
    speeds = ((20, 300, 310), (5000, 90, 100))
    for index, pilot in enumerate(pilots(plan.cells[0])):
        for repeat, speed in enumerate(speeds[index]):
            made = record(f"{index}-{repeat}", run_key(pilot, repeat, machine()), pilot, repeat=repeat)
            save_run(store, made, [trained(speed, 1.0)])
    assert measured_shares(plan.cells[0], store, machine()) == (48, 16)


SHORT = ("--steps", "20", "--warmup", "4", "--repeats", "2")


def shares_by_pilots(paceline: CommandLine) -> list[int]:
    """128 images in the proportion of the median speeds that each device had alone, in the store's own records."""
    speeds: dict[int, list[float]] = {0: [], 1: []}
    for path in paceline.store.glob("runs/*/run.json"):
        cell = json.loads(path.read_bytes())["cell"]
        if len(cell["cores"]) == 1:
            (blocks,) = paceline.trained(path.parent.name)
            images, seconds = (sum(block[what] for block in blocks) for what in ("images", "seconds"))
            speeds[cell["slow"] != []].append(images / seconds)
    assert [len(each) for each in speeds.values()] == [3, 3]
    first, second = (statistics.median(each) for each in speeds.values())
    return [round(128 * first / (first + second)), round(128 * second / (first + second))]


@pytest.mark.alone
def test_measured_shares_beat_equal_ones_on_unlike_devices(paceline: CommandLine) -> None:
    flags = ("--devices", "2xcpu", "--shares", "equal,measured", "--slow", "1:2.0")
    ended = paceline("run", "cifar10-conv", "--framework", "fake", *flags, *SHORT)
    assert ended.returncode == 0, ended.stderr
    equal, measured = paceline.rows()
    assert equal["shares"] == [64, 64]
    assert measured["shares"] == shares_by_pilots(paceline)
    assert measured["shares"][0] > 1.2 * measured["shares"][1]  # 2 by theory, less where the machine slows down one
    slept = 0.0128  # seconds that 64 images take the slow device: no step of equal shares can be shorter
    assert paceline.fastest_step(measured["runs"]) < slept <= paceline.fastest_step(equal["runs"])
    assert equal["marks"] == measured["marks"] == ["simulated"]
    assert "simulated: devices were slowed down on purpose (device 1 by 2×)" in " ".join(ended.stdout.split())


@pytest.mark.slow
def test_device_that_fails_alone_fails_the_cell_with_that_cause(paceline: CommandLine) -> None:
    ended = paceline("run", "cifar10-conv", "--framework", "fake+fail", "--devices", "2xcpu", "--shares", "measured")
    assert ended.returncode == 2, ended.stderr
    (row,) = paceline.rows()
    assert "its shares are not known: device 0 failed alone: RuntimeError: the fake framework" in row["reason"]


@pytest.mark.slow
def test_one_device_is_measured_plain_and_wrapped(paceline: CommandLine) -> None:
    paceline("run", "cifar10-conv", "--framework", "fake", "--devices", "1xcpu,2xcpu", "--single", "both", *SHORT)
    plain, wrapped, two = paceline.rows()
    assert (plain["wrapped"], wrapped["wrapped"], two["wrapped"]) == (False, True, False)
    assert plain["efficiency"] == wrapped["wrapped_efficiency"] == 1.0
    for row, speed in (("efficiency", plain), ("wrapped_efficiency", wrapped)):
        expected = two["images_per_second"]["median"] / speed["images_per_second"]["median"] / 2
        assert two[row] == pytest.approx(expected)


@pytest.mark.real
@pytest.mark.alone
def test_real_training_on_a_slowed_device_gains_by_measured_shares(paceline: CommandLine) -> None:
    """By the fastest step of each, since others may use the machine for some of them."""
    flags = ("--devices", "2xcpu", "--shares", "equal,measured", "--slow", "1:3.0", "--cores-per-device", "1")
    shorter = ("--steps", "10", "--warmup", "2", "--repeats", "1")
    ended = paceline("run", "cifar10-conv", "--framework", "torch", *flags, *shorter)
    assert ended.returncode == 0, ended.stderr
    equal, measured = paceline.rows()
    assert measured["shares"] == shares_by_pilots(paceline)
    assert measured["shares"][0] > measured["shares"][1]  # 3 times by theory; 1.5 if another program has half of a core
    assert paceline.fastest_step(measured["runs"]) < paceline.fastest_step(equal["runs"])  # half of it by theory


@pytest.mark.slow
def test_slowed_rank_does_not_outlive_a_killed_orchestrator(paceline: CommandLine) -> None:
    """Nor does its brake, which might have stopped it for ever."""
    long = ("--steps", "2000", "--warmup", "2", "--repeats", "1", "--batch-size", "512")
    running = paceline.start(
        "run", "cifar10-conv", "--framework", "fake", "--devices", "2xcpu", "--slow", "1:2.0", *long
    )
    wait_until(lambda: len(paceline.processes()) == 3)  # two ranks and a brake
    time.sleep(0.5)
    running.kill()
    running.communicate()
    wait_until(lambda: not paceline.processes(), seconds=10)


def stopped_part(times: float) -> float:
    """How often a process that would always run is found stopped by its brake."""
    busy = f"from paceline_worker.brake import Brake\nBrake({times}).engage()\nprint('engaged')\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-uc", busy], stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == b"engaged\n"
            time.sleep(0.5)  # until the brake has heard of it
            return statistics.mean(is_stopped(process.pid) for _ in range(400))
        finally:
            send(process.pid, signal.SIGKILL)


def is_stopped(pid: int) -> bool:
    time.sleep(0.01 * random.random())  # noqa: S311 - so as not to keep step with the brake, nor with other programs
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


@pytest.mark.slow
def test_brake_stops_a_process_for_its_part_of_the_time() -> None:
    """Whatever else the machine does: a stopped process has no processor, and a busy machine does not stop any."""
    assert stopped_part(1.0) == 0
    twice, four_times = stopped_part(2.0), stopped_part(4.0)
    assert 0.25 < twice < 0.7  # half of the time
    assert twice + 0.1 < four_times < 0.95  # three quarters
