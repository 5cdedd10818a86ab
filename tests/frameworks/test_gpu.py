"""The same cells on NVIDIA GPUs; skipped where there is none."""

from __future__ import annotations

import statistics
from typing import Any

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
    """Each card holds its share of the activations: eight times the batch takes more, and losses are those of a CPU."""
    short = ("--data", data, "--repeats", "1", "--steps", "50", "--warmup", "2")
    flags = ("--framework", "torch,jax", "--devices", f"1xcpu,{devices()}", "--batch-size", "64,512", *short)
    ended = paceline("run", "cifar10-resnet20", *flags)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = {(row["framework"], row["devices"], row["batch_size"]): row for row in paceline.rows()}
    assert {row["status"] for row in rows.values()} <= {"ok", "noisy"}
    for (framework, where, batch), row in rows.items():
        assert len(row["peak_memory_mib"]) == row["device_count"]
        if "cuda" in where and batch == 64:
            assert min(rows[framework, where, 512]["peak_memory_mib"]) > max(row["peak_memory_mib"])
            on_cpu = first_loss(paceline, rows[framework, "1xcpu", 64])
            assert first_loss(paceline, row) == pytest.approx(on_cpu, rel=0.1)


def first_loss(paceline: CommandLine, row: dict[str, Any]) -> float:
    """The mean of the ranks' own, before anything was learnt."""
    ranks = paceline.trained(row["runs"][0])
    return statistics.mean(float(rank[0]["losses"][0]) for rank in ranks)
