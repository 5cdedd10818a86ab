"""Where each published value comes from: what the four texts print was listed here by hand, from the texts alone."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from importlib.resources import files
from typing import Any

import pytest

from paceline.catalog.published import NAMES, Benchmark, PublishedRow, all_benchmarks
from tests.docs.pages import rows_below

BENCHMARKS = all_benchmarks()
RECORDS = [record for benchmark in BENCHMARKS.values() for record in benchmark.records]

# Fields that no text prints as they are stored, and in how many rows.
INFERRED = {
    ("neon-vs-mxnet", "workload"): 9,
    ("neon-vs-mxnet", "framework"): 1,  # the draft's last block: a command of neon under the heading MXNet
    ("mxnet-multi-gpu", "workload"): 34,
    ("mxnet-multi-gpu", "framework_there"): 11,  # infrastructure 2 is a DGX1 of which no version is printed
    ("mxnet-multi-gpu", "learning_rate"): 5,  # those without (lr=...)
    ("mxnet-multi-gpu", "devices"): 2,  # the blank row, and processors of infrastructure 1
    ("mxnet-multi-gpu", "device_count"): 4,  # the blank row, and three of 0 GPUs
    ("mxnet-multi-gpu", "device_kind"): 4,
    ("mxnet-multi-gpu", "epochs"): 1,  # the blank row
    ("mxnet-multi-gpu", "utilisation.devices"): 14,
    ("mxnet-multi-gpu", "utilisation.percent"): 18,
    ("keras-backends", "workload"): 29,
    ("keras-backends", "framework_there"): 20,  # "MXNet Backend" and "Tensorflow Backend", without a version
    ("keras-backends", "devices"): 29,
    ("keras-backends", "memory.device_total"): 29,  # no unit
    ("tensorpack-vs-tf", "workload"): 32,
    ("tensorpack-vs-tf", "batch"): 32,
    ("tensorpack-vs-tf", "batch_size"): 32,
    ("tensorpack-vs-tf", "learning_rate"): 24,
    ("tensorpack-vs-tf", "data"): 8,  # "something similar to this but not the same"
    ("tensorpack-vs-tf", "command"): 6,  # --num_gpus=8 alone is printed
}

COMMANDS = {  # all that are printed, with the words between slashes written out
    "neon-vs-mxnet": [
        "time python cifar10_conv.py -b mgpu -m 3 -e 10 -z 128",
        "time python cifar10_conv.py -b gpu -e 10 -z 128 -i 0",
        "time python cifar10_conv.py -b gpu -e 10 -z 128 -i 2",
        "time python cifar10_conv.py -b gpu -e 10 -z 128",
        *(
            f"time python cifar10_mxnet.py --batch-size 128 --lr 0.1 --num-epoch 10 --gpus {gpus}"
            for gpus in ("0,1,2", "0,1", "0", "2")
        ),
    ],
    "mxnet-multi-gpu": [
        "time python ./example/image-classification/train_cifar10.py --gpus 0 --num-epochs 12 --network resnet "
        "--batch-size 128 --disp-batches 20",
        "time python ./example/image-classification/train_cifar10.py --gpus 0,1,2,3 --num-epochs 12 --network resnet "
        "--num-layers 50 --batch-size 256 --lr=0.2",
    ],
    "keras-backends": [],
    "tensorpack-vs-tf": [
        *(
            f"python resnet-multigpu.py --fake-location {place} --variable_update={update}"
            for place in ("gpu", "cpu", "python")
            for update in ("replicated", "parameter_server")
        ),
        *(
            f"python tf_cnn_benchmarks.py --num_gpus=8 --batch_size=64 --model=resnet50 --variable_update={update} "
            "--local_parameter_device=cpu"
            for update in ("replicated", "parameter_server")
        ),
    ],
}

UNITS = {  # as they are printed; quantities that are not here have none
    "neon-vs-mxnet": {
        "seconds.wall_with_startup": "s",
        "seconds.user": "m s",
        "seconds.system": "m s",
        "memory.peak": "MiB",
        "memory.idle": "MiB",
        "memory.peak_minus_idle": "MB",
    },
    "mxnet-multi-gpu": {
        "seconds_per_epoch.time_cost": "s/epoch",
        "images_per_second.log_window": "samples/s",
        "utilisation.percent": "%",
    },
    "keras-backends": {
        "seconds.fit_with_validation": "secs",
        "seconds_per_epoch.fit_with_validation": "secs",
        "images_per_second.epoch_of_60000": "per sec",
    },
    "tensorpack-vs-tf": {
        "images_per_second.progress_bar": "image/second",
        "images_per_second.timed_loop": "image/second",
    },
}
WITHOUT_UNIT = "part of 1"  # an accuracy needs none


def test_what_no_text_prints_is_marked_and_nothing_else() -> None:
    assert Counter((each.benchmark, name) for each in RECORDS for name in each.inferred) == INFERRED


@pytest.mark.parametrize("name", NAMES)
def test_what_is_inferred_has_a_value_and_a_reason(name: str) -> None:
    raw = tomllib.loads(files("paceline.catalog.published").joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    for table in raw["table"]:
        stored = [each for each in BENCHMARKS[name].records if each.table == table.get("table", each.table)]
        assert {
            field for field in table.get("inferred", {}) if not any(field in each.inferred for each in stored)
        } == set()
        for row in table["row"]:
            (of_row,) = [each for each in stored if each.row == row["row"]]
            assert row.get("inferred", {}).items() <= of_row.inferred.items()
    for why in reasons(raw):
        assert re.fullmatch(r"[A-Z-].{25,}\.", why), why


def reasons(raw: dict[str, Any]) -> set[str]:
    rows = [row for table in raw["table"] for row in table["row"]]
    return {why for each in [raw, *raw["machine"], *raw["table"], *rows] for why in each.get("inferred", {}).values()}


@pytest.mark.parametrize("name", NAMES)
def test_every_printed_command_is_stored_and_others_are_marked(name: str) -> None:
    records = [each for each in BENCHMARKS[name].records if each.command]
    assert {each.command for each in records if "command" not in each.inferred} == set(COMMANDS[name])
    assert not {each.command for each in records if "command" in each.inferred} & set(COMMANDS[name])


def test_two_commands_above_a_table_belong_to_the_rows_that_they_fit() -> None:
    found = {each.row: each.command for each in BENCHMARKS["mxnet-multi-gpu"].records if each.command}
    assert found == {
        "1: 1 | resnet110 | 128": COMMANDS["mxnet-multi-gpu"][0],
        "7: 1 | resnet50 | 64x4 (lr=0.2)": COMMANDS["mxnet-multi-gpu"][1],
    }


def test_figures_keep_the_unit_that_was_printed_or_say_that_there_was_none() -> None:
    for each in RECORDS:
        for name, metric in each.metrics.items():
            assert metric.printed_unit == UNITS[each.benchmark].get(name, ""), (each.row, name)
            assert metric.printed_unit or metric.unit == WITHOUT_UNIT or name in each.inferred, (each.row, name)


def test_machines_have_so_many_gpus() -> None:
    found = {
        (each.name, machine.id): machine.devices for each in BENCHMARKS.values() for machine in each.machines.values()
    }
    assert found == {
        ("neon-vs-mxnet", "max4"): 3,
        ("mxnet-multi-gpu", "1"): 8,
        ("mxnet-multi-gpu", "2"): 8,
        ("mxnet-multi-gpu", "3"): 0,
        ("mxnet-multi-gpu", "4"): None,  # a laptop of which processors alone are printed
        ("mxnet-multi-gpu", "1*"): 8,
        ("keras-backends", "p2.16xlarge"): 16,
        ("keras-backends", "p2.8xlarge"): 8,
        ("tensorpack-vs-tf", "DGX1"): 8,
    }


def test_rows_of_more_devices_than_their_machine_has_are_marked() -> None:
    too_many = {named(each) for each in RECORDS if each.device_kind == "cuda" and each.device_count > gpus_of(each)}
    assert too_many == {
        ("Inception_v3, Reduce Randomization, MXNet Backend", "GPU (16)"),
        ("Inception_v3, Reduce Randomization, Tensorflow Backend", "GPU (16)"),
    }
    assert too_many == {named(each) for each in RECORDS for error in each.errors if error.kind == "too many devices"}


def gpus_of(record: PublishedRow) -> int:
    return BENCHMARKS[record.benchmark].machines[record.machine].devices or 0


def test_blank_cells_of_a_row_that_has_others_are_remarked() -> None:
    words = {
        "accuracy.test": "accuracy",
        "seconds_per_epoch.time_cost": "training time",
        "images_per_second.log_window": "speed",
    }
    blank = [
        (each, name) for each in RECORDS if each.benchmark == "mxnet-multi-gpu" for name in words.keys() - each.metrics
    ]
    assert len(blank) == 8
    assert [each.row for each, name in blank if not re.search(f"{words[name]}|cells are left blank", each.remark)] == []


def named(record: PublishedRow) -> tuple[str, str]:
    return record.table, record.row


def test_page_says_what_is_inferred_and_why() -> None:
    expected = [row for benchmark in BENCHMARKS.values() for row in inferred_rows(benchmark)]
    assert rows_below("published.md", "## What is inferred") == expected


def inferred_rows(benchmark: Benchmark) -> list[str]:
    """Fields that have the same reason in the same rows share a line."""
    found: dict[tuple[str, str], list[str]] = {("all", why): [name] for name, why in benchmark.inferred.items()}
    for machine in benchmark.machines.values():
        for name, why in machine.inferred.items():
            found[f"machine {machine.id}", why] = [name]
    rows = Counter((name, why) for each in benchmark.records for name, why in each.inferred.items())
    for (name, why), count in rows.items():
        found.setdefault(("all" if count == len(benchmark.records) else str(count), why), []).append(name)
    return [f"| `{benchmark.name}` | {', '.join(f)} | {of} | {why} |" for (of, why), f in found.items()]


def test_page_has_the_remarks_on_rows() -> None:
    counts = Counter((each.benchmark, each.remark) for each in RECORDS if each.remark)
    expected = [f"| `{name}` | {count} | {remark} |" for (name, remark), count in counts.items()]
    assert rows_below("published.md", "### Remarks on rows") == expected


def test_page_has_the_known_errors() -> None:
    expected = [row for benchmark in BENCHMARKS.values() for row in error_rows(benchmark)]
    assert rows_below("published.md", "## Known errors") == expected


def error_rows(benchmark: Benchmark) -> list[str]:
    """Those with the same reason share a line."""
    found: dict[tuple[str, str, object, str], list[PublishedRow]] = {}
    for each in benchmark.records:
        for error in each.errors:
            found.setdefault((error.field, error.kind, error.corrected, error.why), []).append(each)
    return [
        f"| `{benchmark.name}` | {where(of)} | {kind}: {field} | {why} | {right(corrected)} |"
        for (field, kind, corrected, why), of in found.items()
    ]


def where(records: list[PublishedRow]) -> str:
    """A row, or the tables that have several of such rows."""
    in_table = Counter(each.table for each in records)
    places = [each.table if in_table[each.table] > 1 else f"{each.table}: {each.row}" for each in records]
    return "; ".join(dict.fromkeys(places)).replace("|", "\\|")


def right(corrected: object) -> str:
    if isinstance(corrected, tuple):
        return " + ".join(f"{value:g}" for value in corrected)
    return f"{corrected:g}" if isinstance(corrected, float) else f"{corrected or '–'}"
