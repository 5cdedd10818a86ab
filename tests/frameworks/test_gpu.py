"""The same cells on NVIDIA GPUs; skipped where there is none."""

from __future__ import annotations

import pytest
from paceline.system.machine.hardware import this_machine

from tests.factories.command_line import CommandLine

GPUS = len(this_machine().gpus)
pytestmark = [pytest.mark.gpu, pytest.mark.real]


def devices() -> str:
    return "cuda:0,2xcuda" if GPUS > 1 else "cuda:0"


@pytest.mark.skipif(GPUS == 0, reason="there is no NVIDIA GPU")
@pytest.mark.parametrize("data", ["fake:device", "fake:host", "fake:python"])
def test_gpus_train_and_their_memory_is_seen(paceline: CommandLine, data: str) -> None:
    flags = ("--framework", "torch,jax", "--devices", devices(), "--data", data, "--repeats", "1", "--steps", "50")
    ended = paceline("run", "cifar10-resnet20", *flags)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for row in paceline.rows():
        assert row["status"] == "ok"
        assert len(row["peak_memory_mib"]) == row["device_count"]
        assert min(row["peak_memory_mib"]) > 1
