"""The command under a cell: whether it makes the same cell when it is read back."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec
import pytest

from paceline.analysis.rows.command_rows import command_row
from paceline.analysis.rows.row import Row
from paceline.plan.cell import Cell
from paceline.plan.external.command import ExternalCommand
from paceline.plan.matrix import cells_of
from paceline.plan.requested_suites import read_suite
from paceline.plan.shares import given_shares
from paceline.report.tables.rerun_command import command_line, once_more
from tests.factories.flags import settings_of
from tests.factories.machines import machine
from tests.factories.rows import changed, made_row

MACHINE = machine(cores=8, gpus=("Imaginary X",) * 3)


def cell_of(line: str) -> Cell:
    """What the command line makes of it."""
    program, command, workload, *flags = shlex.split(line)
    assert (program, command) == ("paceline", "run")
    (cell,) = cells_of(read_suite([workload], settings_of(*flags)), MACHINE)
    return cell


def row_of(cell: Cell) -> Row:
    """As a table has it, as far as the cell decides."""
    return made_row(
        cell=cell,
        shares=given_shares(cell.shares, cell.batch_size, cell.device_set),
        evaluation_seconds=None if cell.evaluate == "never" else 1.0,
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"framework": "torch+compile", "seed": 7, "lr": 0.1 / 3, "steps": 4692, "precision": "bfloat16"},
        {"devices": "2xcpu", "batch_per_device": 24, "cores_per_device": 1, "lr_rule": "linear"},
        {"devices": "3xcpu", "batch_size": 128, "shares": "43:43:42"},
        {"devices": "2xcpu", "slow": "1:2.125", "update": "parameter_server", "parameter_device": "device"},
        {"devices": "2xcpu", "update": "parameter_server"},
        {"single": "wrapped", "data": "fake:python"},
        {"devices": "cuda:0+cuda:2", "batch_size": 64},
        {"data": "cifar10", "epochs": 10.0, "evaluate": "end"},
        {"data": "cifar10", "workload": "cifar10-resnet50", "input": "level2", "evaluate": "never"},
    ],
)
def test_command_yields_its_cell(settings: dict[str, Any]) -> None:
    name = settings.get("workload", "cifar10-conv")
    others = {key: value for key, value in settings.items() if key != "workload"}
    (cell,) = cells_of(read_suite([name], {"framework": "torch", **others}), MACHINE)
    assert cell_of(command_line(row_of(cell))) == cell


def test_measured_shares_are_told() -> None:
    (cell,) = cells_of(read_suite(["cifar10-conv"], {"framework": "torch", "devices": "2xcpu"}), MACHINE)
    measured = changed(row_of(cell), shares=(85, 43))
    assert cell_of(command_line(measured)) == msgspec.structs.replace(cell, shares="85:43")


def test_words_are_quoted_for_a_shell() -> None:
    assert "'a b'" in command_line(made_row(workload="a b"))


def timed(*runs: str) -> Row:
    command = ExternalCommand(arguments=("python", "train it.py", "--lr", "$LR"), folder="/")
    return made_row(framework="train it.py", devices="2xcpu", runs=runs, command=command_row(command, []))


def test_command_that_has_run_is_replayed() -> None:
    assert once_more(timed("first", "second")) == "paceline replay first --repeats 2"


def test_command_that_has_not_run_is_timed() -> None:
    flags, command = once_more(timed()).split(" -- ")
    assert shlex.split(flags) == [
        *("paceline", "time", "--repeats", "1"),
        *("--name", "train it.py", "--devices", "2xcpu"),
    ]
    assert shlex.split(command) == ["python", "train it.py", "--lr", "$LR"]


def test_cell_is_measured_as_often_as_it_was() -> None:
    row = made_row(runs=("first", "second"))
    assert once_more(row) == f"{command_line(row)} --repeats 2 --again"
