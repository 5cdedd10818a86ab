"""Cells that cannot fit the memory, or a container's part of it, are named before they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.cli import actions
from paceline.plan.cell import Cell
from paceline.plan.planning import Run
from paceline.run.memory_warning import memory_warning, needed_bytes
from paceline.store.records.events import AnyEvent
from paceline.store.store import Store
from paceline.system.machine import cgroups
from tests.factories.events import block, entered, finished
from tests.factories.machines import machine
from tests.factories.runs import CELL, cell, on_devices, record, save_run

LIMITED = msgspec.structs.replace(machine(), memory_limit_bytes=2**30)
SMALL = {"framework": ("fake",), "steps": 2, "warmup": 0, "batch_size": (8,), "repeats": 3}


def warning(store: Store, *cells: Cell, on: Any = LIMITED) -> str:
    names = {one: f"{one.framework} {one.devices}" for one in cells}
    return memory_warning(names, [Run(one, 0, "key", 60.0) for one in cells], store, on)


def ran(store: Store, of: Cell, *peaks: int) -> None:
    """An earlier run, whose ranks took so much at most."""
    ranks: list[list[AnyEvent]] = [
        [
            entered("build", idle_memory_bytes=0),
            block("train", 1.0, 100),
            entered("end", peak_memory_bytes=peak),
            finished(),
        ]
        for peak in peaks
    ]
    save_run(store, record(f"run-{of.devices}", f"key-{of.devices}", of), ranks)


def test_cell_that_took_more_in_an_earlier_run_is_named(tmp_path: Path) -> None:
    store, two = Store(tmp_path / "results"), on_devices(2)
    ran(store, CELL, 700 * 2**20)
    ran(store, two, 700 * 2**20, 700 * 2**20)  # each fits, both together do not
    assert warning(store, CELL, two) == (
        "paceline: 1 of 2 cells needs more memory than there is (1 of 16 GiB by limit), and may be killed for it: "
        "fake 2xcpu (1.4 GiB in an earlier run)"
    )
    assert warning(store, CELL, two, on=machine()) == ""
    assert warning(store, CELL) == ""


def test_cell_that_never_ran_is_judged_by_what_any_framework_keeps(tmp_path: Path) -> None:
    large = cell(workload="imagenet-resnet50", batch_size=64)
    said = warning(Store(tmp_path / "results"), large, CELL)
    assert said.endswith("fake 1xcpu (at least 2.2 GiB for weights, gradients and layers' inputs)")


def test_needed_memory_by_hand() -> None:
    # mnist-mlp: 784 inputs, 128 and 64 hidden units, ten classes; momentum is a third number for each weight.
    weights = (784 + 1) * 128 + (128 + 1) * 64 + (64 + 1) * 10
    mlp = cell(workload="mnist-mlp", batch_size=32)
    assert needed_bytes(mlp) == 4 * (3 * weights + 32 * (784 + 128 + 64))
    on_two: Mapping[str, Any] = {"devices": "2xcpu", "precision": "bfloat16"}
    assert needed_bytes(msgspec.structs.replace(mlp, **on_two)) == 4 * 2 * 3 * weights + 2 * 32 * (784 + 128 + 64)
    assert needed_bytes(cell(workload="gone")) == 0


def test_memory_of_gpus_is_no_part_of_the_limit(tmp_path: Path) -> None:
    assert (
        warning(Store(tmp_path / "results"), cell(workload="imagenet-resnet50", devices="cuda:0", batch_size=512)) == ""
    )


def test_many_cells_are_a_short_line(tmp_path: Path) -> None:
    many = [cell(workload="imagenet-resnet50", batch_size=64, seed=seed) for seed in range(5)]
    said = warning(Store(tmp_path / "results"), *many)
    assert said.startswith("paceline: 5 of 5 cells need more memory than there is")
    assert (said.count("GiB for"), said.endswith(", 2 more")) == (3, True)


def test_plan_and_run_respect_the_limit_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cgroups, "memory_limit_bytes", lambda: 2**20)
    monkeypatch.setattr(actions, "measure", lambda *_: None)
    actions.show_plan(["cifar10-conv"], SMALL, tmp_path / "store")
    shown = capsys.readouterr()
    assert "0.000977 of " in shown.out.splitlines()[0]
    assert "1 of 1 cells needs more memory than there is" in shown.err
    actions.run_suite(["cifar10-conv"], SMALL, tmp_path / "store", "all")
    assert capsys.readouterr().err.count("1 of 1 cells needs more memory than there is") == 1
