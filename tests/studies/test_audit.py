"""An audit finds what contradicts itself, shows the arithmetic, and is silent about what is right."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import hypothesis
import msgspec
import pytest
from hypothesis import strategies

from paceline.analysis.rows.table_rows import table_rows
from paceline.catalog.published import all_benchmarks
from paceline.report.studies import audits
from paceline.report.tables import layouts, render, render_layouts
from paceline.store.store import Store
from paceline.studies.audit import Audit, audit
from paceline.studies.audit.printed_rows import AuditFinding, PrintedBatch, batch, device_count, number, numbers
from paceline.studies.audit.published import document_of
from paceline.studies.audit.rules.all_rules import RULES, examine, judge
from paceline.studies.audit.text.reading import read_csv, read_markdown
from paceline.system.errors import UserError
from tests.factories.command_line import here
from tests.factories.machines import machine
from tests.factories.runs import CELL, cell, on_devices, record, save_plan, save_run, trained

# The tables of four texts as they were published, with the lines around them that say what they are about.
NEON = """
# CIFAR 10 Conv MGPU Benchmark Neon vs. MXNet
### Time
|       | Titan + Titan + 980 | Titan + Titan | Titan   | 980     |
|-------|---------------------|---------------|---------|---------|
| Neon  | N/A                 | 43.526s       | 20.616s | 20.054s |
| MXNet | 34.269s             | 33.149s       | 38.159s | 40.120s |
### Memory
|       | Titan + Titan + 980 | Titan + Titan | Titan  | 980    |
|-------|---------------------|---------------|--------|--------|
| Neon  | N/A                 | 900 + 172 MB  | 903 MB | 869 MB |
| MXNet | 185 + 185 + 152 MB  | 185 + 190 MB  | 212 MB | 180 MB |
### Some Findings
* Neon faster than MXNet in single GPU (1.5X)
* MXNet are memory eficient compared to Neon (4X)
## Neon
### Titan X + Titan X + GTX 980
```
time python cifar10_conv.py -b mgpu -m 3 -e 10 -z 128
```
### Titan X + Titan X
```
time python cifar10_conv.py -b mgpu -m 3 -e 10 -z 128
```
### Titan X
```
$ time python cifar10_conv.py -b gpu -e 10 -z 128 -i 0
```
## MXNet
### Titan X + Titan X
```
$ time python cifar10_mxnet.py --batch-size 128 --lr 0.1 --num-epoch 10 --gpus 0,1
```
### GTX 980
```
$ time python cifar10_mxnet.py --batch-size 128 --lr 0.1 --num-epoch 10 --gpus 2
```
"""
BEEVA = """
* Dataset: CIFAR10. 60000 samples 32x32. Training set: 50000
#### Results:

| infra | model | batch size | gpus | Accuracy (validation) | Epochs | Training time (s/epoch) | Throughput (samples/s)
| --- | --- | --- | --- | --- | --- | --- | ---
| 1 | resnet110 | 128 | 1 | 0.818 | 12 | 96.9 | 520
| --- | --- | --- | --- | --- | --- | --- | ---
| 1 | resnet50 | 64x8 | 8 | 0.702 | 12 | 8.1s | 6200
| 1 | resnet50 | 64x1 |   |  |  |  |
| 1 | resnet50 | 128x8=1024 (lr=0.4) |8| 0.786 | 12 | 7.1 | 6800 (8-80%)
| 1 | resnet50 | 256x8=2048 (lr=0.4) |8| 0.722 | 12 | 5.1 | 9400 (8-90%)
| 1 | resnet50 | 512 (lr=0.4) | 0 | ? | 12 | 110.0 | 450
| 2 | resnet50 | 512x8=4096 (lr=0.4) |8| 0.604 | 12 | 2.1s | 24000 (70%)
| 2 | resnet50 | 256x8=2048 (lr=0.4) |8| 0.733 | 12 | 2.8s | 17000 (67%)
| 2 | resnet50 | 256x1 (lr=0.05) |1| 0.782 | 12 | 13.9 | 2600
| 2 | resnet50 | 128x4=512 (lr=0.2) |4| 0.734 | 12 | 4.5 | 12000 (4-80%)
| 4 | resnet50 | 256 (lr=0.05) |0| x | 12 |  | 33
| 1* | resnet50 | 512x8 (lr=0.4) | 8 | 0.611 | 12 | 5.0 | 10000 (8-95%)
| 1* | resnet50 | 512 (lr=0.05) | 8 | x | 12 | 37.1 | 1300 (1-97%)
"""
KERAS = """
## Resnet50
* `Dataset` - [CIFAR10 small image dataset](https://www.cs.toronto.edu/~kriz/cifar.html).
* `Epochs` - 10
### Keras 1.2.2 with MXNet backend
|                               | GPU (1) | GPU (2) | GPU (4) | GPU (8) | GPU (16) |
|-------------------------------|:-------:|:-------:|:-------:|:-------:|:--------:|
| Training time (secs)          | 1609.32 | 971.94  | 514.96  | 418.09  | 413.66   |
| Average time per epoch (secs) | 160.93  | 97.19   | 51.49   | 41.80   | 41.36    |
| Images processed per sec      | 372.82  | 617.32  | 1165.12 | 1435.06 | 1450.43  |
| Training accuracy             | 0.69    | 0.69    | 0.69    | 0.68    | 0.54     |
| Maximum Memory Consumption    | 5086    | 5048    | 5012    | 9786    | 15187    |
### Reduce Randomization
* `random seed` - 1337
* `Epochs` - 100
#### MXNet Backend
|                               | GPU (1) | GPU (2) | GPU (4) | GPU (8) | GPU (16) |
|-------------------------------|:-------:|:-------:|:-------:|:-------:|:--------:|
| Training time (secs)          | 15860.5 | 9456.02 | 4475.55 | 3429.55 | 3040.19  |
| Average time per epoch (secs) | 158.61  | 94.56   | 44.76   | 34.30   | 304.02   |
| Images processed per sec      | 378.30  | 634.52  | 1340.62 | 1749.50 | 1973.56  |
## Inception_v3
* `Epochs` - 25
#### Tensorflow Backend
|                               | GPU (1) | GPU (2) | GPU (4) | GPU(8) | GPU(16) |
|-------------------------------|:-------:|:-------:|:-------:|:------:|:-------:|
| Training time (secs)          |121480   |72657    |49758    |44042   |78247    |
| Average time per epoch (secs) |4859     |2906     |1990     |1761    |3130     |
| Maximum Memory Consumption    |10946    |21890    |43778    |87544   |175088   |
"""
TENSORPACK = """
## Performance (image/second):
| #GPU | tensorpack(GPU/CPU/Python) | tensorflow/benchmarks |
| ---- | -------------------------- | --------------------- |
| 1    | 228/228/219                | 225.73                |
| 2    | 427/423/415                | 424.54                |
| 4    | 802/785/787                | 789.51                |
| 8    | 1612/1579/1551             | 1580.58               |
"""


def found_in(text: str) -> list[AuditFinding]:
    return [each for each in examine(read_markdown("page.md", text)) if each]


def texts(text: str) -> list[str]:
    return [finding.text for finding in found_in(text)]


def checks(csv_text: str, *names: str) -> list[str | None]:
    """What each check of a small table says, by all rules or by these; None for those that pass."""
    document = read_csv("small.csv", csv_text)
    return [each.text for rule in RULES if not names or rule.name in names for each in rule.check(document)]


# The published texts


def test_neon_text_has_a_wrong_claim_a_wrong_command_and_a_claim_that_rounding_saves_in_part() -> None:
    assert [(each.rule, each.counts, each.text) for each in found_in(NEON)] == [
        ("claim", True, "claimed 1.5 times, but 38.159 / 20.616 = 1.85 on Titan and 40.120 / 20.054 = 2.00 on 980"),
        (
            "claim",
            False,
            "claimed 4 times: (900 + 172) / (185 + 190) = 2.86 on Titan + Titan and 903 / 212 = 4.26 on Titan and "
            "869 / 180 = 4.83 on 980; rounding makes it right in 1 of 3",
        ),
        ("command", True, "heading has 2 devices, but `-m 3` asks for 3"),
    ]


def test_beeva_text_has_a_speed_and_a_number_of_gpus_that_are_wrong() -> None:
    assert [(each.where, each.text) for each in found_in(BEEVA)] == [
        (
            "Results, 2 | resnet50 | 256x1 (lr=0.05) (line 16)",
            "printed 2600, but 50,000 images / 13.9 s = 3597 (28% less)",
        ),
        (
            "Results, 1* | resnet50 | 512 (lr=0.05) (line 20)",
            "printed 8 devices, but its utilisation speaks of 1",
        ),
    ]


def test_keras_text_has_a_misprint_too_many_images_and_filled_cards() -> None:
    counted = "but CIFAR-10 has 50,000 to train on: 10,000 test images were counted too"
    product = "images/s x time per epoch = 60,000 images in 5 of 5 rows,"
    assert [(each.where, each.text) for each in found_in(KERAS)] == [
        (
            "Resnet50, Reduce Randomization, MXNet Backend, GPU (16) (line 17)",
            "printed 304.02, but 3040.19 / 100 epochs = 30.40 (10 times as much)",
        ),
        ("Resnet50, Keras 1.2.2 with MXNet backend", f"{product} {counted}"),
        ("Resnet50, Reduce Randomization, MXNet Backend", f"{product} {counted}"),
        (
            "Inception_v3, Tensorflow Backend",
            "memory is devices x nearly a whole card: 10946 / 1 = 10,946 and 175088 / 16 = 10,943; cards that are "
            "filled beforehand say nothing about the network",
        ),
        (
            "Resnet50, Keras 1.2.2 with MXNet backend",
            "memory is not a sum over cards: 5048 on 2 after 5086 on 1",
        ),
        (
            "Resnet50, Keras 1.2.2 with MXNet backend",
            "memory is not a sum over cards: 5012 on 4 after 5048 on 2",
        ),
    ]


def test_tensorpack_text_is_checked_along_its_columns_and_across_them() -> None:
    assert texts(TENSORPACK) == []
    judged = judge(read_markdown("page.md", TENSORPACK))
    assert len(judged.verdicts) >= 32
    assert judged.unchecked == ()
    assert texts(TENSORPACK.replace("785", "985")) == ["printed 985, but its neighbours make 802.1"]
    assert texts(TENSORPACK.replace("785", "1585")) == [
        "images/s of 423 on 2 and 1585 on 4 devices: 3.75 times as fast on 2 times as many",
        "printed 1585, but its neighbours make 802.1",
    ]


def test_right_rows_are_silent() -> None:
    right = BEEVA.replace("13.9 | 2600", "13.9 | 3600").replace("| 8 | x |", "| 1 | x |").replace("12000", "11000")
    assert texts(right) == []
    assert len(examine(read_markdown("page.md", right))) > 20


def test_published_figures_contradict_themselves_where_they_are_marked_and_nowhere_else() -> None:
    marked = {
        f"{each.benchmark}, {each.table}" + ("" if error.kind in WHOLE_TABLES else f", {each.row}")
        for benchmark in all_benchmarks().values()
        for each in benchmark.records
        for error in each.errors
        if error.kind not in UNSEEN
    }
    claimed = {
        f'{b.name}, "{c.text}"'
        for b in all_benchmarks().values()
        for c in b.claims
        for error in c.errors
        if error.kind == "wrong claim"  # one that is true in part is a note
    }
    assert {each.where for each in audit("published").findings} == marked | claimed


INVENTED = {"command": "run.py --num_gpus=99", "device_count": 99, "epochs": 99, "batch": "1x99=7"}


@pytest.mark.parametrize("name", all_benchmarks())
def test_what_no_text_prints_passes_no_check(name: str) -> None:
    """Nothing changes where it is something else."""
    benchmark = all_benchmarks()[name]
    invented = tuple(
        msgspec.structs.replace(each, **{key: INVENTED[key] for key in INVENTED if key in each.inferred})
        for each in benchmark.records
    )
    altered = msgspec.structs.replace(benchmark, records=invented)
    assert judge(document_of(altered)) == judge(document_of(benchmark))


WHOLE_TABLES = {"test images counted", "preallocated", "wrong unit", "no sum"}
UNSEEN = {"wrong network"}  # no arithmetic shows it


@pytest.mark.parametrize(
    "text",
    [
        "printed 304.02, but 3040.19 / 100 epochs = 30.40 (10 times as much)",
        "claimed 1.5 times, but 38.159 / 20.616 = 1.85 on Titan X and 40.120 / 20.054 = 2.00 on GTX 980",
        "printed 2600, but 50,000 images / 13.9 s = 3597 (28% less)",
        "printed 8 devices, but its utilisation speaks of 1",
        "heading has 2 devices, but `-m 3` asks for 3",
        "printed 185, but 328 - 138 = 190 (3% less)",
        "printed 900 MB, but 1038 - 138 MiB = 944 MB",
        "heading is MXNet, but `cifar10_conv.py` is the program of Neon",
        "printed 12000, but 50,000 images / 4.5 s = 11111 (8% more)",
        "memory is not a sum over cards: 10961 on 2 after 10896 on 1, and 83 MiB of weights came with them",
    ],
)
def test_published_error_is_found_once(text: str) -> None:
    assert [each.text for each in audit("published").findings].count(text) == 1


# The rules, one by one


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("1000,10,100.0", [None]),
        ("418.09,10,41.80", [None]),  # 41.809, cut off instead of rounded
        ("1000,10,10.0", ["printed 10.0, but 1000 / 10 epochs = 100.0 (90% less)"]),
        ("1000,,100", []),
        ("1000,0,100", []),
    ],
)
def test_time_per_epoch_is_time_divided_by_epochs(rows: str, said: list[str | None]) -> None:
    assert checks(f"training time (s),epochs,s/epoch\n{rows}\n") == said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("cifar10,500,100", [None]),
        ("cifar10,540,100", ["printed 540, but 50,000 images / 100 s = 500 (8% more)"]),
        ("cifar10,512,100", [None]),
        ("cifar10,250,100", ["printed 250, but 50,000 images / 100 s = 500 (50% less)"]),
        ("mnist,600,100", [None]),  # which has 60,000 to train on
        ("unheard of,1,1", []),
        ("cifar10,500,", []),
    ],
)
def test_speed_times_epoch_is_the_data_set(row: str, said: list[str | None]) -> None:
    assert checks(f"workload,images/s,s/epoch\n{row}\n") == said


def test_a_row_that_is_off_among_rows_of_60000_is_measured_against_60000() -> None:
    rows = "".join(f"cifar10,{speed},100\n" for speed in (600, 600, 600, 300))
    told, *others = checks(f"workload,images/s,s/epoch\n{rows}")
    assert told is not None
    assert "60,000 images in 3 of 4 rows" in told
    assert others == [None, None, None, "printed 300, but 60,000 images / 100 s = 600 (50% less)"]


@pytest.mark.parametrize(
    ("size", "devices", "said"),
    [
        ("128x8=1024 (lr=0.4)", "8", [None, None]),
        ("128x8=1000", "8", ["printed 128x8=1000, but that makes 1024", None]),
        ("128x8", "4", ["printed 4 devices, but the batch 128x8 is that of 8"]),
        ("85+43=128", "2", [None, None]),
        ("512", "8", []),
        ("64x1", "0", []),  # 0 GPUs: a processor
        ("128x8", "", []),
    ],
)
def test_batch_is_the_sum_of_its_shares_and_has_one_for_each_device(
    size: str, devices: str, said: list[str | None]
) -> None:
    assert checks(f"batch,gpus\n{size},{devices}\n", "batch", "devices") == said


def test_busy_devices_stand_behind_a_speed() -> None:
    assert checks("gpus,samples/s\n8,6800 (8-80%)\n8,1300 (1-97%)\n8,24000 (70%)\n", "devices") == [
        None,
        "printed 8 devices, but its utilisation speaks of 1",
    ]


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ((11000, 22000, 44000), 1),
        ((1000, 2000, 4000), 0),  # no card is so small: each holds the same network
        ((11000, 20000, 38000), 0),
        ((11000, 22000), 0),  # two counts may be chance
        ((11000, 22000, 44000, 88000, 88000), 2),  # the table, and the last row
    ],
)
def test_memory_that_is_devices_times_one_card_is_filled_cards(memory: tuple[int, ...], said: int) -> None:
    rows = "".join(f"{2**power},{value}\n" for power, value in enumerate(memory))
    verdicts = checks(f"gpus,memory (MiB)\n{rows}", "filled memory")
    assert sum(each is not None for each in verdicts) == said


def test_speed_up_and_efficiency_are_against_one_device() -> None:
    rows = "a,1,100,1.00,100%\na,2,190,1.90,95%\na,4,200,3.00,50%\nb,2,150,1.50,99%\n"
    assert checks(f"framework,gpus,images/s,speed-up,efficiency\n{rows}", "speed-up", "efficiency") == [
        None,  # 190 / 100
        "printed 3.00, but 200 / 100 = 2.00 (1.5 times as much)",
        None,  # 1.90 / 2
        "printed 50%, but 3.00 / 4 devices = 75% (33% less)",
        "printed 99%, but 1.50 / 2 devices = 75% (32% more)",  # b has no row of one device, but its own speed-up
    ]


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("92%", None),
        ("0.92", None),
        ("92", None),  # in per cent
        ("92.0", None),
        ("46", "printed 46, but 100 x 1.84 / 2 devices = 92 (50% less)"),
        ("0.46", "printed 0.46, but 1.84 / 2 devices = 0.92 (50% less)"),
        ("2", "printed 2, but 1.84 / 2 devices = 0.92 (2.17 times as much)"),
        ("5", "printed 5, but 1.84 / 2 devices = 0.92 (5.43 times as much)"),
        ("46%", "printed 46%, but 1.84 / 2 devices = 92% (50% less)"),
    ],
)
def test_efficiency_is_a_part_or_a_percentage(printed: str, said: str | None) -> None:
    assert checks(f"gpus,speed-up,efficiency\n2,1.84,{printed}\n") == [said]


def test_efficiency_of_1_is_never_a_percentage() -> None:
    assert checks("gpus,speed-up,efficiency\n16,1.00,1.0\n") == [
        "printed 1.0, but 1.00 / 16 devices = 0.062 (16 times as much)"
    ]


def test_speed_up_by_time_is_the_other_way_round() -> None:
    assert checks("gpus,time (s),speed-up\n1,100,1\n4,25,4.0\n8,25,8.0\n", "speed-up") == [
        None,
        "printed 8.0, but 100 / 25 = 4.0 (2 times as much)",
    ]


def test_two_rows_of_one_device_leave_the_speed_up_open() -> None:
    assert checks("gpus,images/s,speed-up\n1,100,1\n1,150,1\n2,190,9\n", "speed-up") == []


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        (["0.5", "0.93"], []),
        (["0.5", "-0.1"], ["printed -0.1, but accuracy lies between 0 and 1"]),
        (["50.0", "93.1"], []),  # all of them in per cent
        (["92.5"], []),  # likewise, in a table of one row
        (["92.5", "0.9"], []),  # likewise; one run has diverged
        (["0.5", "1.2"], ["printed 1.2, but accuracy lies between 0 and 1"]),  # no percentage is so small by chance
        (["0.817", "8.17"], ["printed 8.17, but accuracy lies between 0 and 1"]),
        (["0.81", "0.79", "78.1"], ["printed 78.1, but accuracy lies between 0 and 1"]),
        (["81", "79", "78", "0.76"], ["printed 0.76 among percentages"]),  # a note
        (["50.0", "131"], ["printed 131, but accuracy lies between 0 and 100"]),
        (["93%", "131%"], ["printed 131%, but accuracy lies between 0 and 1"]),
        (["93.5", "131%"], ["printed 131%, but accuracy lies between 0 and 1"]),
        (["x", "?"], []),
    ],
)
def test_accuracy_is_a_part(values: list[str], wrong: list[str]) -> None:
    assert [each for each in checks("accuracy\n" + "\n".join(values) + "\n") if each] == wrong


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "A is 2.0x faster than B",
            [
                "claimed 2.0 times: 20 / 10 = 2.00 on Titan and 15 / 9 = 1.67 on Titan + Titan; "
                "rounding makes it right in 1 of 2"
            ],
        ),
        (
            "A is 3.0x faster than B",
            ["claimed 3.0 times, but 20 / 10 = 2.00 on Titan and 15 / 9 = 1.67 on Titan + Titan"],
        ),
        ("A is 3.0x faster than C", []),  # of which there is no figure
        ("Single GPU: A is 3.0x faster than B", ["claimed 3.0 times, but 20 / 10 = 2.00 on Titan"]),
        ("A's speed 2GPU > 1GPU", []),
        ("A's speed 1GPU > 2GPU", ["claimed 1 GPU before 2 GPU, but 10 against 9"]),
        ("A's multi gpu slower than single", ["claimed a single one before several, but 10 against 9"]),
        ("B's multi gpu faster than single", []),
    ],
)
def test_ratio_in_the_prose_is_that_of_the_table(line: str, said: list[str]) -> None:
    table = "### Time\n|   | Titan | Titan + Titan |\n|---|---|---|\n| A | 10 | 9 |\n| B | 20 | 15 |\n"
    assert texts(f"{table}\n{line}\n") == said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("train --gpus 0,1", []),
        ("train --gpus 0,1,2", ["heading has 2 devices, but `--gpus 0,1,2` asks for 3"]),
        ("train --gpus 2", []),  # a count or an index: nobody knows
        ("train --num_gpus=8", ["heading has 2 devices, but `--num_gpus=8` asks for 8"]),
        ("python -m 3", []),
        ("train", []),
    ],
)
def test_command_asks_for_the_devices_of_its_heading(command: str, said: list[str]) -> None:
    assert texts(f"### Titan + Titan\n```\n{command}\n```\n") == said


def test_heading_that_names_no_devices_says_nothing_about_a_command() -> None:
    assert texts("## Scripts\n```\ntrain --num_gpus=8\n```\n") == []


def test_page_says_what_every_rule_checks() -> None:
    page = (Path(__file__).parents[2] / "docs" / "published.md").read_text(encoding="utf-8")
    assert [rule.name for rule in RULES if f"| {rule.name} | {rule.meaning} |" not in page] == []


# Reading


@pytest.mark.parametrize(
    ("text", "value", "step"),
    [
        ("43.526s", 43.526, 0.001),
        ("1,234", 1234, 1),
        ("**1.85×**", 1.85, 0.01),
        ("92%", 0.92, 0.01),
        ("6800 (8-80%)", 6800, 1),
    ],
)
def test_number_is_read_with_its_last_digit(text: str, value: float, step: float) -> None:
    found = number(text)
    assert found is not None
    assert found.value == pytest.approx(value)
    assert found.step == pytest.approx(step)


@pytest.mark.parametrize("text", ["", "N/A", "x", "?", "–", "228/228/219", "64x8", "1e3", "59 + 2 of 61", "28 of 38"])
def test_what_is_no_plain_number_is_none(text: str) -> None:
    assert number(text) is None


def test_figures_of_devices_are_joined_by_plus() -> None:
    assert [each.value for each in numbers("900 + 172 MB")] == [900, 172]
    assert numbers("900 + many") == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("128x2=256 (lr=0.1)", PrintedBatch("128x2=256 (lr=0.1)", (128, 128), 256)),
        ("64x2", PrintedBatch("64x2", (64, 64), None)),
        ("512 (lr=0.4)", PrintedBatch("512 (lr=0.4)", (), 512)),
        ("32 per GPU", PrintedBatch("32 per GPU", (), 32)),
        ("large", None),
    ],
)
def test_batch_is_read_as_tables_write_it(text: str, found: PrintedBatch | None) -> None:
    assert batch(text) == found


@pytest.mark.parametrize(
    ("text", "count"),
    [("8", 8), ("2xcpu wrapped", 2), ("GPU (16)", 16), ("GPU(8)", 8), ("4 GPUs", 4), ("cuda:0+cuda:2", 2), ("", None)],
)
def test_devices_are_counted_as_tables_write_them(text: str, count: int | None) -> None:
    assert device_count(text) == count


def test_epochs_of_the_prose_that_fit_no_row_are_those_of_something_else() -> None:
    text = "It was tuned for 7 epochs.\n\n| time (s) | s/epoch |\n|---|---|\n| 100 | 10 |\n| 200 | 20 |\n"
    assert examine(read_markdown("page.md", text)) == []


def test_epochs_of_the_prose_that_fit_one_row_check_the_others_and_not_that_one() -> None:
    """It was the row that said they belong here, so it cannot contradict them."""
    table = "It was trained for 10 epochs.\n\n| time (s) | s/epoch |\n|---|---|\n| 100 | 10 |\n"
    assert examine(read_markdown("page.md", table)) == []
    assert [each and each.text for each in examine(read_markdown("page.md", f"{table}| 200 | 30 |\n"))] == [
        "printed 30, but 200 / 10 epochs = 20 (1.5 times as much)"
    ]
    assert examine(read_markdown("page.md", f"{table}| 200 | 20 |\n")) == [None, None]


def test_table_of_words_about_quantities_has_no_figures() -> None:
    assert checks("rule,what must be true\ndevices,devices = shares\nbatch,128x8=1000 is wrong\n") == []


PIECES = [
    "|",
    "---",
    "\n",
    "\n|---|---|\n",
    "images/s",
    "s/epoch",
    "time",
    "batch",
    "gpus",
    "memory",
    "speed-up",
    "efficiency",
]
PIECES += [
    "epochs",
    "accuracy",
    "cifar10",
    "0",
    "1",
    "-3",
    "9" * 400,
    "128x8=9",
    "1x99999999999",
    "1+2",
    "```",
    "# A + B\n",
]


@hypothesis.given(strategies.lists(strategies.sampled_from(PIECES)).map(" ".join))
def test_no_text_is_too_strange(text: str) -> None:
    assert all(each is None or each.text for each in examine(read_markdown("page.md", text)))
    assert all(each is None or each.text for each in examine(read_csv("page.csv", text.replace("|", ","))))


def test_table_in_a_block_of_code_is_no_table() -> None:
    assert read_markdown("page.md", "```\n| a |\n|---|\n| 1 |\n```\n").tables == ()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_has_the_separator_of_its_headings(separator: str) -> None:
    text = "training time (s),epochs,s/epoch\n1000,10,10.0\n".replace(",", separator)
    assert len(checks(text)) == 1


# A store against itself


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One device with 100 and 125 images/s and two with 200 and 250: 10 steps of 100 images, two runs of each."""
    made = Store(tmp_path / "results")
    for name, of, seconds in (
        ("1xcpu-0", CELL, 10.0),
        ("1xcpu-1", CELL, 8.0),
        ("2xcpu-0", on_devices(2), 5.0),
        ("2xcpu-1", on_devices(2), 4.0),
    ):
        count = of.device_set.count
        run = msgspec.structs.replace(record(name, name, of, repeat=int(name[-1])), shares=(100 // count,) * count)
        save_run(made, run, [trained(1000 // count, seconds)] * count)
    save_plan(made, {CELL: ["1xcpu-0", "1xcpu-1"], on_devices(2): ["2xcpu-0", "2xcpu-1"]})
    return made


def tampered(store: Store, sql: str) -> Audit:
    with sqlite3.connect(store.folder / "index.sqlite") as index:
        index.execute(sql)
    index.close()
    return audit(str(store.folder))


def test_healthy_store_is_checked_and_silent(store: Store) -> None:
    found = audit(str(store.folder))
    assert found.findings == ()
    assert found.checked == 9  # speed, epoch, efficiency and batch of both, scaling of the second


def test_index_that_is_not_what_the_runs_left_is_found(store: Store) -> None:
    found = tampered(store, "UPDATE value SET value = 500 WHERE name = 'images_per_second' AND run_id LIKE '2xcpu%'")
    assert [each.text for each in found.findings] == ["images/s shown 500, but the events of its runs (2) make 225"]


def test_shares_that_do_not_make_the_batch_are_found(store: Store) -> None:
    found = tampered(store, "UPDATE run SET shares = '[50, 40]' WHERE id LIKE '2xcpu%'")
    assert [each.text for each in found.findings] == ["batch shown 100, but shares 50 + 40 = 90"]


def test_events_that_were_changed_after_the_run_are_found(store: Store) -> None:
    path = store.folder / "runs" / "1xcpu-0" / "events-0.jsonl"
    path.write_text(path.read_text().replace('"seconds":10.0', '"seconds":1.0'))
    (only,) = audit(str(store.folder)).findings
    assert only.where == "cifar10-conv, fake 1xcpu, batch 100"


def test_run_whose_folder_is_gone_is_found(store: Store) -> None:
    (store.folder / "runs" / "1xcpu-0" / "outcome.json").unlink()
    (only,) = audit(str(store.folder)).findings
    assert only.text == "images/s shown of 2 runs, but 1 run folders have them"


@pytest.mark.parametrize(("form", "suffix"), [("markdown", "md"), ("csv", "csv")])
def test_own_report_is_read_and_right(store: Store, tmp_path: Path, form: str, suffix: str) -> None:
    path = tmp_path / f"report.{suffix}"
    path.write_text(render.FORMATS[form](table_rows(store, {})))
    found = audit(str(path))
    assert found.findings == ()
    assert found.checked >= 4  # images per epoch of both, speed-up and efficiency of the second


def test_speed_up_against_each_of_unlike_cards_is_no_single_figure() -> None:
    rows = "| cuda:0 | 100 | 1.00× | 100% |\n| cuda:2 | 50 | 1.00× | 100% |\n"
    table = f"| devices | images/s | scaling | efficiency |\n|---|---|---|---|\n{rows}"
    assert texts(f"{table}| cuda:0+cuda:2 | 120 | 1.20× cuda:0, 2.40× cuda:2 | 80% |\n") == []


def test_store_is_audited_against_the_base_of_each_row(tmp_path: Path) -> None:
    gpus = machine(gpus=("Titan X", "Titan X", "GTX 980"))
    store, speeds = Store(tmp_path / "results"), {"cuda:0": 100, "cuda:2": 50, "cuda:0+cuda:2": 120}
    cells = {name: cell(devices=name, cores=((0,), (1,))[: name.count("cuda")]) for name in speeds}
    for name, of in cells.items():
        shares = (100 // of.device_set.count,) * of.device_set.count
        run = msgspec.structs.replace(record(name, name, of), machine=gpus, shares=shares)
        save_run(store, run, [trained(1000, 1000 / speeds[name])])
    save_plan(store, {of: [name] for name, of in cells.items()})
    found = audit(str(store.folder))
    assert found.findings == ()
    assert found.checked == 13  # speed, epoch and batch of all, efficiency of two, two scalings of the third


@pytest.mark.parametrize("layout", layouts.LAYOUTS)
def test_own_report_is_right_in_every_shape(store: Store, layout: str) -> None:
    page = render_layouts.FORMATS["markdown"](layouts.LAYOUTS[layout](table_rows(store, {})))
    assert texts(page) == []


# The command


def test_command_ends_with_2_where_something_is_wrong() -> None:
    done = here("audit", "published")
    assert done.returncode == 2
    assert "3040.19 / 100 epochs = 30.40" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_command_ends_with_0_where_nothing_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "right.csv").write_text("training time (s),epochs,s/epoch\n1000,10,100\n")
    done = here("audit", str(tmp_path / "right.csv"))
    assert done.returncode == 0
    last_line = "right.csv: 1 check passed, nothing contradicts, 0 notes, 0 figures not checkable."
    assert " ".join(done.stdout.split()).endswith(last_line)


def test_command_says_when_it_cannot_tell(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("| gpus | images/s |\n|---|---|\n| 1 | 100 |\n")
    done = here("audit", str(tmp_path / "page.md"))
    assert done.returncode == 4
    assert "cannot tell: no two figures of it say the same thing; 1 figure not" in " ".join(done.stdout.split())
    assert "no time in its row" in done.stdout


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "prose.md").write_text("No table.\n")
    done = here("audit", str(tmp_path / "prose.md"))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("gone.md", None, "There is no"),
        ("noise.md", b"\xff\xfe\x00", "is no Markdown or CSV file: 'utf-8' codec"),
        ("empty.csv", b"", "has no table"),
        ("huge.csv", b"a\n" + b"1" * 200_000, "is not CSV"),
    ],
)
def test_unreadable_file_is_a_users_error(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=said):
        audit(str(path))


def test_what_is_no_file_is_a_users_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "table.md")
    for path, kind in ((tmp_path / "table.md", "a pipe"), (Path("/dev/zero"), "a device")):
        ended = here("audit", str(path))
        assert (
            ended.stderr == f"paceline: Cannot read the Markdown or CSV file {path}: it is {kind}, not a plain file.\n"
        )


def test_file_without_an_end_is_a_users_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the kernel says that it has no bytes, and has as many as somebody reads."""
    monkeypatch.setattr("paceline.studies.audit.text.reading.LARGEST", 100)
    with pytest.raises(UserError, match=r"/proc/self/smaps is no Markdown or CSV file: it has more than 100 bytes"):
        audit("/proc/self/smaps")


def test_link_to_a_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("gpus,time,speedup\n1,100,1\n2,50,2\n")
    (tmp_path / "link.csv").symlink_to("table.csv")
    assert audit(str(tmp_path / "link.csv")).checked


def test_folder_that_is_no_store_is_a_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no store"):
        audit(str(tmp_path))


def test_formats_say_the_same() -> None:
    found = audit("published")
    as_json = json.loads(audits.FORMATS["json"](found))
    assert [each["text"] for each in as_json["findings"]] == [each.text for each in found.findings]
    markdown = audits.FORMATS["markdown"](found)
    assert "| epoch time | printed 304.02, but 3040.19 / 100 epochs = 30.40 (10 times as much) |" in markdown
    assert "256x1 (lr=0.05) | images per epoch |" in markdown
    assert "26: 2 \\| resnet50" in markdown  # a bar in a row's name ends no cell
