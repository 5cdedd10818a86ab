"""Every published row has its cell in a suite, every other cell is marked as added, and a command leads to each row."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import msgspec
import pytest

from paceline.catalog.published import NAMES, PublishedRow, all_benchmarks
from paceline.catalog.workloads import known_workload
from paceline.cli import app
from paceline.plan.cell import Cell
from paceline.plan.planning import Plan, make_plan
from paceline.plan.published.cells import added, cell_of, devices_of, fits, planned
from paceline.plan.published.commands import blocks, by_command, command_of, differences
from paceline.plan.requested_suites import read_suite
from paceline.report import catalog_tables
from paceline.report import published_page as commands_page
from paceline.system.errors import UserError
from tests.docs.documented import ROOT
from tests.factories.command_line import CommandLine
from tests.factories.machines import machine

MACHINES = {  # with as many cards as the texts name
    "neon-vs-mxnet": machine(gpus=("Titan X", "Titan X", "GTX 980")),
    "mxnet-multi-gpu": machine(cores=32, gpus=("Tesla K80",) * 8),
    "keras-backends": machine(cores=64, gpus=("Tesla K80",) * 16),
    "tensorpack-vs-tf": machine(cores=40, gpus=("P100",) * 8),
}
RECORDS = [record for benchmark in all_benchmarks().values() for record in benchmark.records]


def name_of(record: PublishedRow) -> str:
    return f"{record.benchmark}, {record.table}, {record.row}"


def of_command(words: list[str], benchmark: str) -> Plan:
    """As the command line plans it."""
    _, bound, _ = app.parse_args(words[1:], exit_on_error=False, print_error=False)
    suite = read_suite(bound.arguments["what"], bound.arguments["choices"].settings())
    return make_plan(suite, MACHINES[benchmark])


def measured_there(cell: Cell, record: PublishedRow) -> dict[str, bool]:
    """By each thing that must be the same, written down once more."""
    workload, devices = known_workload(record.workload), cell.device_set
    counted = 1 if record.row.startswith("34: ") else record.device_count  # (1-97%), under 8 GPUs
    epochs = cell.steps * cell.batch_size / workload.images_per_epoch
    return {
        "workload": cell.workload == record.workload,
        "framework": cell.framework == record.framework,
        "kind of device": devices.kind == record.device_kind,
        "number of devices": devices.count == counted,
        "batch": record.batch_size in (None, cell.batch_size),
        "rate": cell.learning_rate == (record.learning_rate or workload.recipe.learning_rate),
        "epochs": record.epochs is None
        or record.epochs <= epochs < record.epochs * (1 + cell.batch_size / workload.images_per_epoch),
        "update": cell.update == (record.update or "replicated"),
        "data": cell.data == record.data,
        "seed": record.seed in (None, cell.seed),
        "precision": cell.precision == "float32",
        "every device": not cell.slow and not cell.wrapped,
    }


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_every_published_row_has_one_cell_in_its_suite(record: PublishedRow) -> None:
    cell = cell_of(record, MACHINES[record.benchmark])
    assert [what for what, same in measured_there(cell, record).items() if not same] == []


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_command_of_a_row_plans_its_cell_and_no_other(record: PublishedRow) -> None:
    plan = of_command(command_of(record), record.benchmark)
    assert plan.cells == (cell_of(record, MACHINES[record.benchmark]),)
    assert plan.runs or "your own" in differences(record)["version"], plan.skips
    assert {run.timeout_seconds for run in plan.runs} <= {planned(record.benchmark)[0].timeout}


@pytest.mark.parametrize(
    ("row", "devices"),
    [
        ("Neon, GTX 980", ("cuda:2",)),
        ("MXNet, Titan X + Titan X", ("cuda:0", "cuda:1")),
        ("MXNet, Titan X + Titan X + GTX 980", ("cuda:0", "cuda:1", "cuda:2")),
        ("34: 1* | resnet50 | 512 (lr=0.05)", ("cuda:0",)),
        ("32: 4 | resnet50 | 256 (lr=0.05)", ("cpu:0",)),
    ],
)
def test_devices_of_a_row_are_those_that_its_text_means(row: str, devices: tuple[str, ...]) -> None:
    (record,) = [each for each in RECORDS if each.row == row]
    assert devices_of(record) == devices


def rates(cells: list[Cell]) -> set[tuple[str, float]]:
    return {(cell.framework, cell.learning_rate) for cell in cells}


def test_neon_and_mxnet_have_their_published_rates_and_one_in_common() -> None:
    suite, cells = planned("neon-vs-mxnet", MACHINES["neon-vs-mxnet"])
    more = added(suite, cells)
    assert rates([cell for cell in cells if cell not in more]) == {("neon", 0.01), ("mxnet", 0.1)}
    assert rates(more) == {("mxnet", 0.01)}
    sets = {
        framework: {c.devices for c in cells if (c.framework, c.learning_rate) == (framework, 0.01)}
        for framework in ("neon", "mxnet")
    }
    assert sets["neon"] == sets["mxnet"]  # what is compared


def test_only_tensorflow_s_other_sources_are_added_to_tensorpack_s_text() -> None:
    assert {(c.framework, c.data) for c in added(*planned("tensorpack-vs-tf"))} == {
        ("tensorflow", "fake:host"),
        ("tensorflow", "fake:python"),
    }
    for name in ("mxnet-multi-gpu", "keras-backends"):
        assert added(*planned(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_cells_are_added_or_have_a_row(name: str) -> None:
    suite, cells = planned(name, MACHINES[name])
    more = added(suite, cells)
    for cell in cells:
        rows = [record for record in all_benchmarks()[name].records if all(measured_there(cell, record).values())]
        same_devices = [record for record in rows if devices_of(record) == cell.device_set.devices]
        assert bool(same_devices) != (cell in more), cell


@pytest.mark.parametrize(
    "change",
    [
        {"workload": "cifar10-resnet20"},
        {"framework": "torch"},
        {"devices": "cuda:1"},
        {"update": "independent"},
        {"data": "fake:host"},
        {"batch_size": 64},
        {"learning_rate": 0.2},
        {"steps": 3000},
        {"precision": "bfloat16"},
        {"wrapped": True},
    ],
)
def test_cell_of_anything_else_is_not_that_of_the_row(change: dict[str, Any]) -> None:
    (record,) = [each for each in RECORDS if each.row == "MXNet, Titan X"]
    cell = cell_of(record)
    assert fits(cell, record)
    assert not fits(msgspec.structs.replace(cell, **change), record)


@pytest.mark.slow
def test_plan_marks_what_is_added(paceline: CommandLine) -> None:
    shown = paceline("plan", "neon-vs-mxnet").stdout.splitlines()
    marked = [line for line in shown if line.endswith("(added)")]
    assert len(marked) == 4
    assert all(" mxnet " in line and "lr=0.01: " in line for line in marked)
    assert "8 of 12 cells are those of published rows; the rest, marked (added), have none" in shown
    assert "(added)" not in paceline("plan", "neon-vs-mxnet", "--quick").stdout
    assert "(added)" not in paceline("plan", "demo").stdout


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_listed_with_its_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    catalog_tables.show("published", name)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    whole = " ".join(shown.replace("\\\n", " ").split())
    for record in all_benchmarks()[name].records:
        assert " ".join(record.row.split()) in whole
        assert shlex.join(command_of(record)) in whole


def test_texts_are_listed_with_what_is_added(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    catalog_tables.show("published", "")
    shown = capsys.readouterr().out.splitlines()
    counts = {line.split()[0]: [int(word) for word in line.split()[-3:]] for line in shown if line.startswith(NAMES)}
    assert counts == {
        name: [len(all_benchmarks()[name].records), len(planned(name)[1]), len(added(*planned(name)))] for name in NAMES
    }
    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize(
    ("what", "name", "message"),
    [
        ("published", "neon-vs-mxnt", r"Unknown published benchmark 'neon-vs-mxnt'. Did you mean 'neon-vs-mxnet'"),
        ("networks", "neon-vs-mxnet", "A name goes with `paceline list published`, not with networks"),
    ],
)
def test_list_of_something_else_is_refused(what: str, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        catalog_tables.show(what, name)


def test_shell_takes_a_command_of_several_lines_as_one() -> None:
    (record,) = [each for each in RECORDS if each.row == "Neon, Titan X + Titan X"]
    command = [line for line in blocks([record]) if line.endswith("\\") or line.startswith("      ")]
    assert len(command) > 1
    typed = "\n".join(command).strip(" $")
    ended = subprocess.run(
        ["sh", "-c", f'paceline() {{ printf "%s\\n" "$@"; }}\n{typed}'], capture_output=True, text=True, check=True
    )
    assert ["paceline", *ended.stdout.splitlines()] == command_of(record)


def test_rows_of_the_same_cell_share_a_command() -> None:
    shared = [[row.row for row in rows] for rows in by_command(RECORDS).values() if len(rows) > 1]
    assert ["Neon, Titan X", "MXNet, Titan X, second block"] in shared
    assert ["16: 1 | resnet50 | 512x1 (lr=0.05)", "34: 1* | resnet50 | 512 (lr=0.05)"] in shared


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("Neon, Titan X + Titan X + GTX 980", {"exchange", "rate", "nothing to compare"}),
        ("MXNet, Titan X", set()),
        ("5: 1 | resnet50 | 64x1", {"nothing to compare"}),
        ("8, tensorflow/benchmarks", {"rate", "length", "data"}),
    ],
)
def test_differences_say_what_the_command_cannot_make_the_same(row: str, expected: set[str]) -> None:
    (record, *_) = [each for each in RECORDS if each.row == row]
    assert differences(record).keys() - {"hardware there", "version", "counted otherwise there"} == expected


@pytest.mark.parametrize(
    ("row", "otherwise"),
    [
        ("MXNet, Titan X", "s"),  # its peak minus idle is counted as ours is
        ("16: 1 | resnet50 | 512x1 (lr=0.05)", "s/epoch, images/s"),
        ("8, tensorpack gpu", "images/s"),
        ("8, tensorflow/benchmarks", None),
    ],
)
def test_difference_in_counting_is_that_of_the_definitions(row: str, otherwise: str | None) -> None:
    (record, *_) = [each for each in RECORDS if each.row == row]
    assert differences(record).get("counted otherwise there") == otherwise


def test_wrong_network_and_unknown_batch_are_differences() -> None:
    inception = [each for each in RECORDS if each.workload == "cifar10-inception-v3"]
    assert len(inception) == 14
    for record in inception:
        assert differences(record).keys() >= {"network", "batch", "rate"}


def test_page_of_commands_is_up_to_date() -> None:
    written = (ROOT / "docs" / "published-commands.md").read_text(encoding="utf-8")
    assert written == commands_page.page(), "make docs writes it again"
