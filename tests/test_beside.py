"""Published figures beside our own: who stands beside whom, and what may be divided by what."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.metrics import Row
from paceline.report import grids
from paceline.report.beside import Pair, beside_published, pairs_of
from paceline.stats import Estimate
from tests.made_rows import made_row


def tensorpack(**changes: Any) -> Row:
    """As published: ResNet-50 on one GPU, batch 64."""
    settings = {
        "workload": "imagenet-resnet50",
        "framework": "tensorpack",
        "devices": "1xcuda",
        "batch_size": 64,
        "shares": (64,),
        "images_per_second": Estimate(456.0),
    }
    return made_row(**{**settings, **changes})


def only_pair(row: Row) -> Pair:
    (pair,) = [pair for pair in pairs_of(row) if pair.kind == "images_per_second"]
    return pair


@pytest.mark.parametrize(
    ("update", "data", "there"),
    [
        ("replicated", "fake:device", 228),
        ("replicated", "fake:python", 219),
        ("parameter_server", "fake:host", 227),
    ],
)
def test_update_and_data_source_choose_the_figure(update: str, data: str, there: float) -> None:
    assert only_pair(tensorpack(update=update, data=data)).there == there


def test_another_network_number_of_devices_or_framework_has_no_figure() -> None:
    for changes in ({"workload": "mnist-mlp"}, {"device_count": 3}, {"framework": "jax"}):
        assert list(pairs_of(tensorpack(**changes))) == []
    assert "none of these cells has a published figure" in beside_published([made_row(workload="mnist-mlp")]).notes[0]


def mxnet(**changes: Any) -> Row:
    """As published: the small network on a Titan X, batch 128, 10 epochs."""
    return made_row(
        **{"framework": "mxnet", "devices": "cuda:0", "epochs": 10.0, "peak_memory_mib": (106.0,), **changes}
    )


def ratios(row: Row) -> set[tuple[str, str]]:
    return {(line[3], line[-1]) for line in beside_published([row]).lines[1:] if "Titan X" in line[2]}


def test_like_is_divided_by_like() -> None:
    assert ("MiB", "0.50") in ratios(mxnet())  # 106 / 212, both peak minus idle of a card


def test_unlike_is_not_divided_and_says_why() -> None:
    grid = beside_published([mxnet(devices="1xcpu", quick=True, batch_size=32)])
    assert all(line[-1].startswith("(") for line in grid.lines[1:])
    said = "\n".join(grid.notes)
    for reason in (
        "the whole process from its start",  # `real` of the shell is not our training time
        "another batch",
        "scaled down here by --quick",
        "memory of a process here, of cards there",
    ):
        assert reason in said


def test_wrong_figure_is_replaced_by_the_right_one_and_marked() -> None:
    row = made_row(
        workload="cifar10-resnet50-keras",
        framework="keras-mxnet",
        devices="16xcuda",
        device_count=16,
        batch_size=512,
        shares=(32,) * 16,
        seconds_per_epoch=30.0,
    )
    grid = beside_published([row])
    shown = [line[5] for line in grid.lines[1:] if line[3] == "s/epoch"]
    assert "30.4!" in shown  # printed as 304.02
    assert not any(value.startswith("304") for value in shown)
    assert any("304.02" in note or "30.40" in note for note in grid.notes)


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(width: int) -> None:
    shown = grids.text([beside_published([mxnet(), tensorpack()])], width)
    assert max(map(len, shown.splitlines())) <= width
