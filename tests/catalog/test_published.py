"""The published figures as data: all of them, as printed, with their definitions and their known errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paceline.catalog.frameworks import all_frameworks
from paceline.catalog.published import Benchmark, PublishedRow, all_benchmarks, definitions
from paceline.catalog.workloads import all_workloads

PAGE = Path(__file__).parents[2] / "docs" / "published.md"
RECORDS = [record for benchmark in all_benchmarks().values() for record in benchmark.records]


def record(benchmark: str, row: str, table: str = "") -> PublishedRow:
    found = [each for each in all_benchmarks()[benchmark].records if each.row == row and table in each.table]
    assert len(found) == 1, [each.table for each in found]
    return found[0]


@pytest.mark.parametrize(
    ("name", "records", "figures"),
    [
        ("neon-vs-mxnet", 9, 47),  # 7 runs x 6, and the run of the draft alone with 5
        ("mxnet-multi-gpu", 34, 126),  # 29 accuracies, 32 times, 33 speeds, 14 + 18 utilisations
        ("keras-backends", 29, 160),  # 15 columns with 6 figures and 14 with 5
        ("tensorpack-vs-tf", 32, 32),  # 2 tables x 4 rows x 4 values
    ],
)
def test_every_figure_is_there(name: str, records: int, figures: int) -> None:
    benchmark = all_benchmarks()[name]
    assert len(benchmark.records) == records
    assert sum(len(each.metrics) for each in benchmark.records) == figures


def test_figures_keep_their_printed_digits_and_their_definition() -> None:
    speed = record("mxnet-multi-gpu", "11: 1 | resnet50 | 128x1 (lr=0.05)")
    assert speed.metrics["accuracy.test"].printed == ("0.810",)
    assert speed.metrics["accuracy.test"].value == 0.81
    assert speed.metrics["images_per_second.log_window"].unit == "images/s"
    assert (speed.device_count, speed.batch_size, speed.batch_per_device, speed.learning_rate) == (1, 128, 128, 0.05)


def test_memory_of_several_devices_is_kept_for_each() -> None:
    memory = record("neon-vs-mxnet", "MXNet, Titan X + Titan X + GTX 980").metrics["memory.peak_minus_idle"]
    assert memory.per_device == (185, 185, 152)
    assert memory.value == 522


def test_run_that_crashed_keeps_its_command_and_what_it_said() -> None:
    crashed = record("neon-vs-mxnet", "Neon, Titan X + Titan X + GTX 980")
    assert "-m 3" in crashed.command
    assert crashed.failure.startswith("Boost.Python.ArgumentError")
    assert not crashed.metrics


def test_run_on_processors_is_one_device() -> None:
    laptop = record("mxnet-multi-gpu", "32: 4 | resnet50 | 256 (lr=0.05)")
    assert (laptop.device_kind, laptop.device_count) == ("cpu", 1)


def test_records_speak_our_language() -> None:
    assert {each.framework for each in RECORDS} <= set(all_frameworks())
    assert {each.workload for each in RECORDS} <= set(all_workloads())
    assert {name for each in RECORDS for name in each.metrics} <= set(definitions())
    for each in RECORDS:
        assert each.machine in all_benchmarks()[each.benchmark].machines
        assert {error.field for error in each.errors} <= {*each.metrics, *each.__struct_fields__}, each.row


def test_what_counts_the_same_is_named_and_is_ours() -> None:
    own = {each.id for each in definitions().values() if each.ours == each.id}
    assert {each.ours for each in definitions().values() if each.ours} == own
    assert all(each.same for each in definitions().values() if each.id in own)
    assert {each.id for each in definitions().values() if each.same} - own == {"images_per_second.timed_loop"}


@pytest.mark.parametrize(
    ("of", "field", "kind", "corrected"),
    [
        # 3040.19 s / 100 epochs
        (
            ("keras-backends", "GPU (16)", "Resnet50, Reduce Randomization, MXNet"),
            "seconds_per_epoch",
            "misprint",
            30.4,
        ),
        # 50000 / 13.9
        (("mxnet-multi-gpu", "26: 2 | resnet50 | 256x1 (lr=0.05)"), "images_per_second", "contradiction", 3597),
        (("mxnet-multi-gpu", "34: 1* | resnet50 | 512 (lr=0.05)"), "device_count", "wrong device count", 1),
        # 50000 / 4.5 = 11111
        (("mxnet-multi-gpu", "28: 2 | resnet50 | 128x4=512 (lr=0.2)"), "images_per_second", "contradiction", None),
        (("keras-backends", "GPU (4)", "Inception_v3, Keras 1.2.2 with MXNet"), "memory", "no sum", None),
        (
            ("keras-backends", "GPU (16)", "Inception_v3, Reduce Randomization, MXNet"),
            "machine",
            "too many devices",
            None,
        ),
        (
            ("keras-backends", "GPU (4)", "Inception_v3, Reduce Randomization, Tensorflow"),
            "workload",
            "wrong network",
            None,
        ),
        (("keras-backends", "GPU (8)", "Inception_v3, Reduce Randomization, MXNet"), "workload", "wrong network", None),
        (("neon-vs-mxnet", "MXNet, Titan X, second block"), "framework_there", "wrong heading", "Neon"),
        (("neon-vs-mxnet", "Neon, GTX 980"), "memory", "wrong unit", "MiB"),
    ],
)
def test_error_stands_beside_its_value(of: tuple[str, ...], field: str, kind: str, corrected: object) -> None:
    errors = [error for error in record(*of).errors if error.field.startswith(field)]
    assert [(error.kind, error.corrected) for error in errors] == [(kind, corrected)]


def test_of_two_errors_of_a_figure_that_of_its_row_comes_first() -> None:
    memory = record("neon-vs-mxnet", "MXNet, Titan X + Titan X")
    assert [error.kind for error in memory.errors] == ["misprint", "wrong unit"]
    found = memory.metrics["memory.peak_minus_idle"].error
    assert found is not None
    assert found.corrected == (190, 190)  # 328 - 138


def test_error_of_a_figure_is_found_at_the_figure() -> None:
    wrong = record("keras-backends", "GPU (16)", "Resnet50, Reduce Randomization, MXNet").metrics
    assert wrong["seconds_per_epoch.fit_with_validation"].error is not None
    assert wrong["seconds.fit_with_validation"].error is None


def test_command_that_was_pasted_is_corrected() -> None:
    (corrected,) = [
        error.corrected
        for error in record("neon-vs-mxnet", "Neon, Titan X + Titan X").errors
        if error.field == "command"
    ]
    assert corrected == "time python cifar10_conv.py -b mgpu -m 2 -e 10 -z 128"


@pytest.mark.parametrize("benchmark", all_benchmarks().values(), ids=lambda each: each.name)
def test_page_names_the_source(benchmark: Benchmark) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"| `{benchmark.name}` | {benchmark.source.title} |" in page
    for commit in re.findall(r"commit (\w+)", benchmark.source.revision):
        assert commit in page


def test_page_has_the_definitions() -> None:
    rows = [f"| `{each.id}` | {each.unit} | {each.counts} | {_ours(each.id)} |" for each in definitions().values()]
    page = PAGE.read_text(encoding="utf-8")
    assert [row for row in rows if row not in page] == []


def _ours(name: str) -> str:
    each = definitions()[name]
    return "ours" if each.ours == name else "none" if not each.ours else "same" if each.same else "differs"
