"""Batches for unlike devices: told or measured shares, devices slowed down to simulate them, one device wrapped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cell import Cell
from paceline.devices import parse_devices
from paceline.errors import UserError
from paceline.pilots import pilots
from paceline.plan import make_job, make_plan
from paceline.shares import divide
from paceline.suite import make_suite
from tests.command_line import CommandLine, send, wait_until
from tests.made_machines import machine


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


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"shares": "2:2:1"}, "are for 3 devices, but 2xcpu has 2"),
        ({"shares": "1:0"}, "whole numbers from 1 up such as 2:2:1"),
        ({"shares": "half"}, "write equal, measured, or whole numbers"),
        ({"shares": "1000:1", "batch_size": 64}, "a device would get no image"),
        ({"slow": "1"}, "write DEVICE:TIMES such as 1:2.0"),
        ({"slow": "1:0.5"}, "with times from 1 to 100"),
        ({"slow": "2:2.0"}, "device 2 is no device of any set"),
        ({"devices": "cpu:0+cuda:0"}, "mixes processors and GPUs"),
    ],
)
def test_what_is_no_division_is_refused_in_one_line(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned(**choices)


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"framework": "jax", "shares": "3:1"}, "jax divides a batch equally"),
        ({"framework": "jax", "slow": "1:2"}, "all devices of jax are in one process"),
        ({"framework": "neon", "devices": "1xcpu", "single": "wrapped"}, "neon has no wrapper for one device"),
    ],
)
def test_what_a_framework_cannot_do_is_skipped(choices: dict[str, Any], reason: str) -> None:
    (skip,) = planned(**choices).skips
    assert skip.reason.startswith(reason)


def test_each_device_is_tried_alone_before_its_share_is_measured() -> None:
    cell = only_cell(shares="measured", slow="1:2.0", batch_size=64)
    first, second = pilots(cell)
    assert (first.cores, second.cores) == (cell.cores[:1], cell.cores[1:])
    assert (first.slow, second.slow) == ((), (2.0,))
    assert {first.batch_size, second.batch_size} == {32}
    plan = planned(shares="measured", slow="1:2.0", batch_size=64, repeats=2)
    assert [run.cell in (first, second) for run in plan.runs] == [True, True, False, False]
    assert pilots(only_cell(shares="3:1")) == []


SHORT = ("--steps", "20", "--warmup", "4", "--repeats", "2")


def test_measured_shares_beat_equal_ones_on_unlike_devices(paceline: CommandLine) -> None:
    flags = ("--devices", "2xcpu", "--shares", "equal,measured", "--slow", "1:2.0")
    ended = paceline("run", "cifar10-conv", "--framework", "fake", *flags, *SHORT)
    assert ended.returncode == 0, ended.stderr
    equal, measured = paceline.rows()
    assert equal["shares"] == [64, 64]
    assert sum(measured["shares"]) == 128
    assert measured["shares"][0] == pytest.approx(85, abs=5)  # twice what the other has
    assert measured["images_per_second"]["median"] > 1.25 * equal["images_per_second"]["median"]  # 1.5 by theory
    assert equal["marks"] == measured["marks"] == ["simulated"]
    assert "simulated: devices were slowed down on purpose (device 1 by 2×)" in " ".join(ended.stdout.split())


def test_device_that_fails_alone_fails_the_cell_with_that_cause(paceline: CommandLine) -> None:
    ended = paceline("run", "cifar10-conv", "--framework", "fake+fail", "--devices", "2xcpu", "--shares", "measured")
    assert ended.returncode == 2, ended.stderr
    (row,) = paceline.rows()
    assert "its shares are not known: device 0 failed alone: RuntimeError: the fake framework" in row["reason"]


def test_one_device_is_measured_plain_and_wrapped(paceline: CommandLine) -> None:
    paceline("run", "cifar10-conv", "--framework", "fake", "--devices", "1xcpu,2xcpu", "--single", "both", *SHORT)
    plain, wrapped, two = paceline.rows()
    assert (plain["wrapped"], wrapped["wrapped"], two["wrapped"]) == (False, True, False)
    assert plain["efficiency"] == wrapped["wrapped_efficiency"] == 1.0
    for row, speed in (("efficiency", plain), ("wrapped_efficiency", wrapped)):
        expected = two["images_per_second"]["median"] / speed["images_per_second"]["median"] / 2
        assert two[row] == pytest.approx(expected)


@pytest.mark.real
def test_real_training_on_a_slowed_device_gains_by_measured_shares(paceline: CommandLine) -> None:
    flags = ("--devices", "2xcpu", "--shares", "equal,measured", "--slow", "1:2.0", "--cores-per-device", "1")
    ended = paceline("run", "cifar10-conv", "--framework", "torch", *flags, *SHORT)
    assert ended.returncode == 0, ended.stderr
    equal, measured = paceline.rows()
    assert measured["shares"][0] > 1.3 * measured["shares"][1]
    assert measured["images_per_second"]["median"] > 1.05 * equal["images_per_second"]["median"]  # 1.5 by theory


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


def test_brake_takes_the_processor_away() -> None:
    """Half of the wall time for a process that would use all of it."""
    busy = "from paceline_worker.brake import Brake\nBrake(2.0).engage()\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", busy])
    try:
        time.sleep(1.0)
        seen = psutil.Process(process.pid)
        before, start = sum(seen.cpu_times()[:2]), time.monotonic()
        time.sleep(2.0)
        used = (sum(seen.cpu_times()[:2]) - before) / (time.monotonic() - start)
    finally:
        send(process.pid, signal.SIGKILL)
        process.wait()
    assert 0.1 < used < 0.6  # on a busy machine it would not have had all of it
