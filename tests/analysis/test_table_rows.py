"""Every number of a table, worked out by hand from raw blocks."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.analysis.quantities.known import (
    EVALUATION_SECONDS,
    FIRST_STEP,
    IMAGES_TO_TARGET,
    MEMORY,
    PROCESSOR_SPEED,
    SECONDS,
    SECONDS_TO_TARGET,
    SPEED,
    TEST_ACCURACY,
    TRAIN_ACCURACY,
    WAITING,
)
from paceline.analysis.rows.row import Row
from paceline.analysis.rows.table_rows import table_rows
from paceline.analysis.statistics.intervals import Estimate
from paceline.plan.cell import Cell
from paceline.report.tables.columns import scaling
from paceline.store.records.events import AnyEvent
from paceline.store.records.runs import RunRecord
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.machine.hardware import Machine
from tests.factories.events import block, entered, evaluated, finished
from tests.factories.machines import machine
from tests.factories.runs import (
    CELL,
    FAILED,
    OK,
    Ranks,
    begin_run,
    cell,
    on_devices,
    record,
    save_plan,
    save_run,
    trained,
)

MEBIBYTE = 2**20


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def only_row(store: Store, of: Cell, *runs: Ranks) -> Row:
    """The row of a cell with these runs."""
    measure(store, of, *runs)
    save_plan(store, {of: keys(of, len(runs))})
    (row,) = table_rows(store, {})
    return row


def measure(store: Store, of: Cell, *runs: Ranks) -> None:
    for repeat, ranks in enumerate(runs):
        key = keys(of, len(runs))[repeat]
        save_run(store, record(f"{key} {repeat}", key, of, repeat=repeat), ranks)


def keys(of: Cell, count: int) -> list[str]:
    return [f"{hash(of):x}-{repeat}" for repeat in range(count)]


def rows_of(store: Store, speeds: dict[Cell, Sequence[float]]) -> list[Row]:
    """Rows of a plan whose runs trained so many images in a second."""
    for one, values in speeds.items():
        measure(store, one, *([trained(round(100 * speed), 100.0)] for speed in values))
    save_plan(store, {one: keys(one, len(values)) for one, values in speeds.items()})
    return table_rows(store, {})


def memory_events(idle: int, peak: int) -> list[AnyEvent]:
    return [
        entered("build", idle_memory_bytes=idle * MEBIBYTE),
        block("train", 1.0, 10),
        entered("evaluate", peak_memory_bytes=peak * MEBIBYTE),
        finished(),
    ]


def measure_gpus(store: Store, of: Cell, used_mib: list[tuple[int, int]]) -> None:
    """A run with samples of two GPUs, the first from before it was started."""
    (key,) = keys(of, 1)
    folder = begin_run(store, record(key, key, of), [memory_events(1, 999)])
    samples = [
        {
            "time": time,
            "load": 0,
            "ranks": {},
            "gpus": [{"memory_bytes": mib * MEBIBYTE, "busy_percent": 0} for mib in both],
        }
        for time, both in enumerate(used_mib)
    ]
    (folder / "monitor.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    store.finish_run(folder, OK)


def test_images_per_second_are_totals_over_totals(store: Store) -> None:
    row = only_row(store, CELL, [[block("train", 1.0, 100), block("train", 4.0, 100)]])
    assert row.estimate(SPEED) == Estimate(40.0)  # 200 images in 5 s, not the mean of 100 and 25
    assert row.median(SECONDS) == 5.0


def test_slowest_rank_sets_the_time_of_each_block(store: Store) -> None:
    first = [block("train", 1.0, 50), block("train", 3.0, 50)]
    second = [block("train", 2.0, 50), block("train", 1.0, 50)]
    row = only_row(store, on_devices(2), [first, second])
    assert row.median(SECONDS) == 5.0  # 2 s, then 3 s: no rank took as long, but they wait for each other
    assert row.estimate(SPEED) == Estimate(40.0)  # 200 images


def test_only_training_counts(store: Store) -> None:
    ranks: Ranks = [
        [
            entered("compile"),
            block("compile", 9.0, 10),
            entered("warmup"),
            block("warmup", 5.0, 1000),
            block("warmup", 4.0, 1000),
            entered("train"),
            block("train", 2.0, 100),
            block("train", 2.0, 60),
            entered("evaluate"),
            evaluated(5000, 7.0),
            finished(),
        ]
    ]
    row = only_row(store, CELL, ranks)
    assert row.estimate(SPEED) == Estimate(40.0)  # 160 images in 4 s
    assert row.median(SECONDS) == 4.0


def test_first_step_is_that_of_the_slowest_rank(store: Store) -> None:
    later = [block("warmup", 9.0, 50), block("train", 1.0, 10)]
    ranks = [[block("compile", 2.0, 5), *later], [block("compile", 2.5, 5), *later]]
    assert only_row(store, on_devices(2), ranks).median(FIRST_STEP) == 2.5


def test_processor_time_is_that_of_all_ranks_together(store: Store) -> None:
    busy = [block("warmup", 1.0, 10, processor_seconds=50.0), block("train", 1.0, 60, processor_seconds=1.5)]
    idle = [block("warmup", 1.0, 10, processor_seconds=50.0), block("train", 1.0, 60, processor_seconds=0.5)]
    assert only_row(store, on_devices(2), [busy, idle]).median(PROCESSOR_SPEED) == 60.0  # 120 images in 2 s


@pytest.mark.parametrize(("workload", "seconds"), [("cifar10-conv", 1250.0), ("mnist-mlp", 1500.0)])
def test_epoch_takes_its_images_divided_by_the_speed(store: Store, workload: str, seconds: float) -> None:
    row = only_row(store, cell(workload=workload), [trained(80, 2.0)])
    assert row.seconds_per_epoch == seconds  # 50,000 and 60,000 images at 40 a second


def test_numbers_of_a_cell_are_medians_of_its_runs(store: Store) -> None:
    runs: list[Ranks] = [
        [[block("compile", 9.0, 1), block("train", 1.0, 100)]],
        [[block("compile", 3.0, 1), block("train", 2.0, 100)]],
        [[block("compile", 4.0, 1), block("train", 4.0, 100)]],
    ]
    row = only_row(store, CELL, *runs)
    speed = row.estimate(SPEED)
    assert speed is not None
    reach = 2 ** (4.303 / 3**0.5)  # Student's factor; the logarithms deviate by ln 2
    assert (speed.low, speed.high) == pytest.approx((50 / reach, 50 * reach), rel=1e-3)
    assert row.median(SPEED) == 50.0
    assert (row.median(SECONDS), row.median(FIRST_STEP), row.repeats) == (2.0, 4.0, 3)
    assert row.seconds_per_epoch == 1000.0  # from the median speed


def test_row_says_what_was_measured(store: Store) -> None:
    measured = on_devices(2, workload="mnist-mlp", batch_size=64, steps=30, learning_rate=0.2, oversubscribed=True)
    row = only_row(store, measured, [trained(10, 1.0), trained(10, 1.0)])
    said = (
        row.cell.workload,
        row.cell.framework,
        row.cell.devices,
        row.cell.update,
        row.cell.data,
        row.cell.precision,
        row.cell.scaling,
    )
    assert said == ("mnist-mlp", "fake", "2xcpu", "replicated", "fake:device", "float32", "strong")
    assert (
        row.device_count,
        row.cell.batch_size,
        row.cell.steps,
        row.cell.learning_rate,
        row.cores_per_device,
    ) == (2, 64, 30, 0.2, 1)
    assert (row.framework_version, row.parameters, row.marks) == ("2.4.6", 109_386, ("oversubscribed",))


@pytest.mark.parametrize(
    ("workload", "given", "batch_size", "steps", "epochs"),
    [
        ("cifar10-conv", "", 128, 3907, 10),  # 10 times 390.625
        ("cifar10-conv", "", 128, 3906, None),
        ("cifar10-conv", "scaled", 128, 391, 1),
        ("cifar10-conv", "scaled", 4096, 156, None),  # its batches go on: 12.8 epochs
        ("cifar10-resnet20", "level2", 4096, 156, 12),  # 12 times 13, the last of which is filled up
        ("cifar10-resnet20", "level2", 128, 3907, None),
    ],
)
def test_whole_epochs_are_those_that_a_plan_makes_into_these_steps(
    store: Store, workload: str, given: str, batch_size: int, steps: int, epochs: int | None
) -> None:
    measured = cell(workload=workload, input=given, batch_size=batch_size, steps=steps)
    row = only_row(store, measured, [trained(10, 1.0)])
    assert row.whole_epochs == epochs


def test_runs_are_listed_by_repeat(store: Store) -> None:
    save_plan(store, {CELL: ["first", "second"]})
    save_run(store, record("20250101-000001-aaaaaa", "second", repeat=1), [trained(10, 1.0)])
    save_run(store, record("20250101-000002-bbbbbb", "first", repeat=0), [trained(10, 1.0)])
    (row,) = table_rows(store, {})
    assert row.runs == ("20250101-000002-bbbbbb", "20250101-000001-aaaaaa")


def test_strong_scaling_compares_equal_batches(store: Store) -> None:
    one, two, four = rows_of(store, {CELL: [100], on_devices(2): [180], on_devices(4): [200]})
    assert [row.cell.scaling for row in (one, two, four)] == ["strong"] * 3
    assert [row.scaling for row in (one, two, four)] == [1.0, 1.8, 2.0]
    assert [row.efficiency for row in (one, two, four)] == [1.0, 0.9, 0.5]


def test_weak_scaling_compares_equal_shares(store: Store) -> None:
    one = cell(scaling="weak", batch_size=100)
    two = on_devices(2, scaling="weak", batch_size=200)
    four = on_devices(4, scaling="weak", batch_size=400, steps=3)  # fewer steps: an epoch has fewer there
    rows = rows_of(store, {one: [100], two: [180], four: [300]})
    assert [(row.cell.scaling, row.scaling, row.efficiency) for row in rows] == [
        ("weak", 1.0, 1.0),
        ("weak", 1.8, 0.9),
        ("weak", 3.0, 0.75),
    ]


def test_each_batch_size_has_its_own_base(store: Store) -> None:
    speeds: dict[Cell, Sequence[float]] = {
        cell(batch_size=64): [50],
        on_devices(2, batch_size=64): [80],
        cell(batch_size=128): [100],
        on_devices(2, batch_size=128): [190],
    }
    assert [row.scaling for row in rows_of(store, speeds)] == [1.0, 1.6, 1.0, 1.9]


@pytest.mark.parametrize(
    "other",
    [
        {"batch_size": 64},
        {"framework": "torch"},
        {"workload": "mnist-mlp"},
        {"data": "fake:host"},
        {"precision": "bfloat16"},
        {"warmup": 3},
        {"scaling": "weak"},  # the same batch, but said to be something else
        {"cores": ((0, 1),)},  # twice the cores: two devices would not be twice as much
        {"devices": "2xcpu", "cores": ((0,), (1,)), "steps": 5},  # not one device
    ],
    ids=str,
)
def test_other_training_is_no_base(store: Store, other: dict[str, Any]) -> None:
    *_, row = rows_of(store, {cell(**other): [100], on_devices(2): [180]})
    assert (row.scaling, row.scaling_interval, row.efficiency) == (None, None, None)


def test_gpus_are_not_compared_with_processors(store: Store) -> None:
    gpus = cell(devices="cuda:0+cuda:1", framework="torch", cores=((0,), (1,)))
    measure(store, cell(framework="torch"), [trained(100, 1.0)])
    measure_gpus(store, gpus, [(0, 0), (10, 10)])
    save_plan(store, {cell(framework="torch"): keys(cell(framework="torch"), 1), gpus: keys(gpus, 1)})
    on_cpu, on_gpus = table_rows(store, {})
    assert (on_cpu.scaling, on_gpus.scaling) == (1.0, None)
    assert on_gpus.estimate(SPEED) is not None


CARDS = ("Titan X", "Titan X", "GTX 980")


def rows_of_gpus(store: Store, speeds: Mapping[str, Sequence[float]]) -> list[Row]:
    """Rows of device sets of a machine with two equal cards and another one."""
    cells = {
        cell(devices=devices, framework="torch", cores=tuple((core,) for core in range(devices.count("cuda")))): found
        for devices, found in speeds.items()
    }
    for one, found in cells.items():
        for key, speed in zip(keys(one, len(found)), found, strict=True):
            begun = msgspec.structs.replace(record(key, key, one), machine=machine(gpus=CARDS))
            save_run(store, begun, [trained(round(100 * speed), 100.0)])
    save_plan(store, {one: keys(one, len(found)) for one, found in cells.items()})
    return table_rows(store, {})


def test_unlike_cards_have_a_scaling_against_each_of_them_and_none_alone(store: Store) -> None:
    *_, row = rows_of_gpus(store, {"cuda:2": [50], "cuda:1": [100], "cuda:0": [100], "cuda:0+cuda:1+cuda:2": [200]})
    assert (row.scaling, row.scaling_interval) == (None, None)
    assert [(one.devices, one.count, one.scaling.median) for one in row.scaling_against] == [
        ("cuda:0", 2, 2.0),
        ("cuda:2", 1, 4.0),
    ]
    assert row.efficiency == 0.8  # alone they do 100 + 100 + 50
    assert scaling(row) == "2.00× cuda:0, 4.00× cuda:2"


def test_unlike_cards_of_which_one_was_not_measured_have_no_scaling(store: Store) -> None:
    *_, row = rows_of_gpus(store, {"cuda:0": [100], "cuda:0+cuda:2": [150]})
    assert (row.scaling, row.scaling_against, row.efficiency) == (None, (), None)


def test_equal_cards_are_scaled_against_the_first_that_was_measured(store: Store) -> None:
    one, _, two = rows_of_gpus(store, {"cuda:1": [100], "cuda:2": [50], "cuda:0+cuda:1": [180]})
    assert (one.scaling, one.scaling_against) == (1.0, ())
    assert (two.scaling, two.efficiency, [base.devices for base in two.scaling_against]) == (1.8, 0.9, ["cuda:1"])


def test_cards_of_one_name_that_are_surely_unlike_are_no_single_base(store: Store) -> None:
    speeds = {"cuda:0": [100, 101, 99], "cuda:1": [60, 61, 59], "cuda:0+cuda:1": [150, 151, 149]}
    *_, row = rows_of_gpus(store, speeds)
    assert (row.scaling, [base.devices for base in row.scaling_against]) == (None, ["cuda:0", "cuda:1"])
    assert row.efficiency == 0.9375  # of 160


def test_card_that_has_no_number_leaves_its_equal_to_serve(store: Store) -> None:
    *_, two = rows_of_gpus(store, {"cuda:0": [], "cuda:1": [100], "cuda:0+cuda:1": [180]})
    assert two.scaling == 1.8


def test_base_that_has_no_number_gives_no_scaling(store: Store) -> None:
    measure(store, on_devices(2), [trained(100, 1.0)])
    save_plan(store, {CELL: ["never run"], on_devices(2): keys(on_devices(2), 1)})
    assert [(row.scaling, row.efficiency) for row in table_rows(store, {})] == [(None, None), (None, None)]


def test_scaling_is_that_of_medians_with_an_interval_from_both(store: Store) -> None:
    one, two = rows_of(store, {CELL: [99, 100, 101], on_devices(2): [178, 180, 182]})
    assert two.scaling == 1.8
    # In logarithms they deviate by 0.0100 and 0.0111: an error of 0.0086, 3.9 degrees of freedom and a factor of 3.18.
    assert two.scaling_interval == pytest.approx((1.8 * math.exp(-0.0275), 1.8 * math.exp(0.0275)), abs=1e-3)
    assert one.scaling_interval is None  # it is its own base
    assert two.efficiency == 0.9


def test_memory_is_peak_minus_idle_of_each_device(store: Store) -> None:
    row = only_row(store, on_devices(2), [memory_events(50, 80), memory_events(60, 75)])
    assert row.of_each(MEMORY) == (30.0, 15.0)
    assert row.memory_of == "device"


def test_memory_is_the_median_of_runs_device_by_device(store: Store) -> None:
    runs: list[Ranks] = [
        [memory_events(50, 80), memory_events(50, 51)],  # 30 and 1
        [memory_events(40, 50), memory_events(50, 53)],  # 10 and 3
        [memory_events(50, 70), memory_events(50, 52)],  # 20 and 2
    ]
    assert only_row(store, on_devices(2), *runs).of_each(MEMORY) == (20.0, 2.0)


def test_memory_that_nobody_told_is_missing(store: Store) -> None:
    assert only_row(store, CELL, [trained(10, 1.0)]).of_each(MEMORY) == ()


@pytest.mark.parametrize(("devices", "belongs_to"), [(1, "device"), (2, "all devices")])
def test_memory_of_one_process_for_all_devices_is_said_to_be_that(store: Store, devices: int, belongs_to: str) -> None:
    row = only_row(store, on_devices(devices, framework="jax"), [memory_events(100, 130)])
    assert (row.of_each(MEMORY), row.memory_of) == ((30.0,), belongs_to)


def test_memory_of_a_gpu_is_the_drivers(store: Store) -> None:
    second_gpu = cell(framework="torch", devices="cuda:1")
    measure_gpus(store, second_gpu, [(500, 20), (500, 300), (900, 220)])
    save_plan(store, {second_gpu: keys(second_gpu, 1)})
    (row,) = table_rows(store, {})
    assert row.of_each(MEMORY) == (280.0,)  # 300 - 20, and nothing of the first GPU


def test_steady_cell_is_ok(store: Store) -> None:
    (row,) = rows_of(store, {CELL: [100, 101, 102]})
    assert (row.status, row.reason) == ("ok", None)


def test_cell_with_a_wide_interval_is_noisy(store: Store) -> None:
    (row,) = rows_of(store, {CELL: [100, 110, 120]})
    assert (row.status, row.reason) == (
        "noisy",
        "the 95 % interval of its 3 runs is 46 % of the median (10 % is the limit)",
    )


def test_cell_whose_runs_all_failed_says_why(store: Store) -> None:
    save_plan(store, {CELL: ["one", "two"]})
    save_run(store, record("a", "one"), [[entered("start")]], FAILED)
    save_run(store, record("b", "two"), [[entered("start")]], FAILED)
    (row,) = table_rows(store, {})
    assert (row.status, row.reason) == ("failed", "crash in train: killed by SIGSEGV")
    assert (row.repeats, row.estimate(SPEED), row.seconds_per_epoch, row.scaling) == (0, None, None, None)
    assert row.runs == ("a", "b")


def test_cell_that_failed_in_part_says_how_often_and_keeps_its_numbers(store: Store) -> None:
    save_plan(store, {CELL: ["one", "two", "three"]})
    save_run(store, record("a", "one", repeat=0), [trained(100, 2.0)])
    save_run(store, record("b", "two", repeat=1), [trained(999, 1.0)], FAILED)  # what it measured does not count
    save_run(store, record("c", "three", repeat=2), [trained(100, 2.0)])
    (row,) = table_rows(store, {})
    assert (row.status, row.reason) == ("failed", "1 of 3 runs: crash in train: killed by SIGSEGV")
    assert (row.repeats, row.estimate(SPEED)) == (2, Estimate(50.0, 50.0, 50.0))


def test_skipped_cell_has_its_reason_and_no_numbers(store: Store) -> None:
    save_plan(store, {}, skips={cell(precision="bfloat16"): "fake has no bfloat16, only float32"})
    (row,) = table_rows(store, {})
    assert (row.status, row.reason) == ("skipped", "fake has no bfloat16, only float32")
    assert (row.repeats, row.runs, row.estimate(SPEED), row.framework_version) == (0, (), None, None)


def test_cell_that_was_cut_off_is_not_run(store: Store) -> None:
    save_plan(store, {CELL: ["one", "two", "three"], on_devices(2): ["four"]})
    save_run(store, record("a", "one"), [trained(100, 2.0)])
    begun, untouched = table_rows(store, {})
    assert (begun.status, begun.reason) == ("not run", "1 of 3 runs are done; the same command goes on")
    assert begun.estimate(SPEED) == Estimate(50.0)
    assert (untouched.status, untouched.reason) == ("not run", "0 of 1 runs are done; the same command goes on")


def test_no_cell_of_a_plan_is_missing_from_its_table(store: Store) -> None:
    skipped, failing, waiting = cell(precision="bfloat16"), cell(batch_size=7), cell(batch_size=8)
    save_run(store, record("a", "good"), [trained(100, 2.0)])
    save_run(store, record("b", "bad", failing), [[]], FAILED)
    save_plan(store, {CELL: ["good"], failing: ["bad"], waiting: ["later"]}, skips={skipped: "cannot"})
    assert [row.status for row in table_rows(store, {})] == ["ok", "failed", "not run", "skipped"]


def test_runs_of_earlier_plans_count(store: Store) -> None:
    save_run(store, record("a", "one"), [trained(100, 2.0)])
    save_plan(store, {CELL: ["one"]})
    save_plan(store, {CELL: ["one", "two"]})
    save_run(store, record("b", "two", repeat=1), [trained(100, 2.0)])
    (row,) = table_rows(store, {})
    assert (row.status, row.repeats) == ("ok", 2)


def test_empty_store_has_no_rows(store: Store) -> None:
    assert table_rows(store, {}) == []
    assert table_rows(store, {"workload": "cifar10-conv"}) == []


@pytest.fixture
def three_plans(store: Store) -> Store:
    """Nightly, weekly and nightly again, each with a cell or two."""
    save_plan(store, {CELL: ["old"], cell(framework="jax"): ["jax"]}, suite="nightly")
    save_plan(store, {cell(workload="mnist-mlp"): ["mnist"]}, suite="weekly")
    save_plan(store, {CELL: ["new", "newer"], on_devices(2): ["two"]}, suite="nightly")
    return store


@pytest.mark.parametrize(
    ("filters", "chosen"),
    [
        ({}, [("cifar10-conv", "fake", "1xcpu"), ("cifar10-conv", "fake", "2xcpu")]),
        ({"suite": None, "workload": None}, [("cifar10-conv", "fake", "1xcpu"), ("cifar10-conv", "fake", "2xcpu")]),
        ({"suite": "weekly"}, [("mnist-mlp", "fake", "1xcpu")]),
        ({"workload": "mnist-mlp"}, [("mnist-mlp", "fake", "1xcpu")]),
        ({"framework": "jax"}, [("cifar10-conv", "jax", "1xcpu")]),
        ({"framework": "jax,torch"}, [("cifar10-conv", "jax", "1xcpu")]),
        ({"devices": "2xcpu", "workload": "cifar10-conv"}, [("cifar10-conv", "fake", "2xcpu")]),
        ({"devices": "2xcpu", "workload": "mnist-mlp"}, []),
        ({"suite": "weekly", "framework": "jax"}, []),
        ({"suite": "monthly"}, []),
        ({"data": "fake:host"}, []),
    ],
    ids=str,
)
def test_table_is_that_of_the_last_plan_or_of_the_filters(
    three_plans: Store, filters: dict[str, str | None], chosen: list[tuple[str, str, str]]
) -> None:
    rows = table_rows(three_plans, filters)
    assert [(row.cell.workload, row.cell.framework, row.cell.devices) for row in rows] == chosen


def test_cell_of_several_plans_is_that_of_the_newest(three_plans: Store) -> None:
    (row,) = table_rows(three_plans, {"framework": "fake", "devices": "1xcpu", "workload": "cifar10-conv"})
    assert row.reason == "0 of 2 runs are done; the same command goes on"  # the newer plan wants two


def test_everything_is_the_newest_of_each_cell_of_all_plans(three_plans: Store) -> None:
    rows = table_rows(three_plans, {}, everything=True)
    assert [(row.cell.workload, row.cell.framework, row.cell.devices) for row in rows] == [
        ("cifar10-conv", "fake", "1xcpu"),
        ("cifar10-conv", "fake", "2xcpu"),
        ("mnist-mlp", "fake", "1xcpu"),
        ("cifar10-conv", "jax", "1xcpu"),
    ]
    assert rows[0].reason == "0 of 2 runs are done; the same command goes on"
    weekly = table_rows(three_plans, {"suite": "weekly"}, everything=True)
    assert [row.cell.workload for row in weekly] == ["mnist-mlp"]


ELSEWHERE = machine(cores=8)


def on_machine(where: Machine, run_id: str, key: str, of: Cell = CELL) -> RunRecord:
    return msgspec.structs.replace(record(run_id, key, of), machine=where)


@pytest.mark.parametrize("filters", [{}, {"framework": "fake"}], ids=str)
def test_same_cell_of_another_machine_has_a_row_of_its_own(store: Store, filters: dict[str, str | None]) -> None:
    save_run(store, record("a", "here"), [trained(100, 2.0)])
    save_plan(store, {CELL: ["here"]})
    save_run(store, on_machine(ELSEWHERE, "b", "there"), [trained(100, 1.0)])
    save_plan(store, {CELL: ["there"]})
    rows = table_rows(store, filters, everything=True)
    assert [(row.machine, row.estimate(SPEED)) for row in rows] == [
        (ELSEWHERE.id, Estimate(100.0)),
        (machine().id, Estimate(50.0)),
    ]


def test_plan_that_has_not_begun_hides_no_measurement(store: Store) -> None:
    save_run(store, record("a", "old"), [trained(100, 2.0)])
    save_plan(store, {CELL: ["old"]})
    save_plan(store, {CELL: ["new"]})
    (row,) = table_rows(store, {}, everything=True)
    assert (row.status, row.runs) == ("ok", ("a",))


@pytest.mark.parametrize(("where", "scaling"), [(machine(), 1.8), (ELSEWHERE, None)], ids=["here", "elsewhere"])
def test_base_is_of_the_same_machine(store: Store, where: Machine, scaling: float | None) -> None:
    save_run(store, on_machine(where, "a", "one"), [trained(100, 1.0)])
    save_plan(store, {CELL: ["one"]})
    save_run(store, record("b", "two", on_devices(2)), [trained(90, 1.0), trained(90, 1.0)])
    save_plan(store, {on_devices(2): ["two"]})
    two, one = table_rows(store, {}, everything=True)
    assert (two.scaling, one.scaling) == (scaling, 1.0)


def test_more_runs_than_one_question_takes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    speeds: dict[Cell, Sequence[float]] = {CELL: [100, 101, 102], on_devices(2): [180, 181, 182]}
    rows = rows_of(store, speeds)
    monkeypatch.setattr("paceline.store.run_results.MOST_VALUES", 2)
    assert table_rows(store, {}) == rows
    assert rows[1].of_runs(SPEED) == (180.0, 181.0, 182.0)


def test_row_survives_json(store: Store) -> None:
    row = only_row(store, on_devices(2), [memory_events(50, 80), memory_events(60, 75)])
    assert msgspec.json.decode(msgspec.json.encode(row), type=Row) == row


@pytest.mark.parametrize(("correct", "enough"), [((7, 7, 8), False), ((7, 8, 8), True)])
def test_network_that_hardly_beats_guessing_is_not_trained(
    store: Store, correct: tuple[int, ...], enough: bool
) -> None:
    row = only_row(store, REAL, *([accurate((1.0, 50, right))] for right in correct))
    assert (row.chance, row.above_chance) == (0.1, enough)  # of 50 images and ten classes; 0.15 is enough


def test_nothing_is_known_of_what_was_not_evaluated(store: Store) -> None:
    row = only_row(store, CELL, [trained(100, 1.0)])
    assert (row.chance, row.above_chance) == (0.1, None)


@pytest.mark.parametrize("target", [0.05, 0.1])
def test_target_that_guessing_reaches_is_refused(store: Store, target: float) -> None:
    only_row(store, REAL, [accurate((1.0, 50, 50))])
    with pytest.raises(
        UserError, match=f"target {target:g} is no more than guessing on cifar10-conv, .* of 10 classes .* 0.1 of"
    ):
        table_rows(store, {}, target)
    assert table_rows(store, {}, 0.11)[0].target == 0.11


def accurate(*epochs: tuple[float, int, int]) -> list[AnyEvent]:
    """A rank that trains 100 images in each epoch: seconds, images right in training, and right of 50 in the test."""
    events: list[AnyEvent] = [entered("start")]
    for steps, (seconds, right, tested) in enumerate(epochs, start=1):
        events += [block("train", seconds, 100, correct=[right], waited_seconds=seconds / 10)]
        events += [evaluated(50, 7.0, steps=steps, correct=tested)]
    return [*events, finished()]


REAL = cell(data="cifar10", input="scaled", evaluate="epoch")


def test_accuracies_are_those_of_the_last_epoch(store: Store) -> None:
    save_plan(store, {REAL: ["a", "b", "c"]})
    for key, tested in (("a", 30), ("b", 35), ("c", 31)):
        save_run(store, record(f"run-{key}", key, REAL), [accurate((10.0, 40, 20), (20.0, 60, tested))])
    (row,) = table_rows(store, {})
    assert row.estimate(TRAIN_ACCURACY) is not None
    assert row.median(TRAIN_ACCURACY) == 0.6
    after = row.estimate(TEST_ACCURACY)
    assert after is not None
    reach = 4.303 * statistics.stdev([0.6, 0.7, 0.62]) / 3**0.5  # around the mean, with Student's factor
    assert (after.low, after.high) == pytest.approx((0.64 - reach, 0.64 + reach), abs=1e-4)
    assert row.median(TEST_ACCURACY) == 0.62
    assert (row.median(SECONDS), row.median(EVALUATION_SECONDS)) == (30.0, 14.0)
    assert row.median(WAITING) == pytest.approx(0.1)


@pytest.mark.parametrize("tested", [True, False])
def test_training_accuracy_is_of_the_last_epoch_also_without_evaluation_in_between(store: Store, tested: bool) -> None:
    save_plan(store, {REAL: ["a"]})
    blocks = [block("train", 1.0, 100, correct=[right], epoch=epoch) for epoch, right in ((0, 10), (1, 50), (1, 70))]
    test = [evaluated(50, 7.0, steps=3, correct=30, epoch=1)] if tested else []
    save_run(store, record("run-a", "a", REAL), [[entered("start"), *blocks, *test, finished()]])
    (row,) = table_rows(store, {}, target=0.5)
    assert row.estimate(TRAIN_ACCURACY) is not None
    assert row.median(TRAIN_ACCURACY) == 0.6
    assert (row.estimate(TEST_ACCURACY) is not None, row.median(IMAGES_TO_TARGET)) == (
        (True, 300.0) if tested else (False, None)
    )


def test_images_of_all_ranks_count_together(store: Store) -> None:
    both = cell(devices="2xcpu", cores=((0,), (1,)), data="cifar10", input="scaled", evaluate="epoch")
    save_plan(store, {both: ["a"]})
    save_run(store, record("run-a", "a", both), [accurate((10.0, 40, 20)), accurate((12.0, 60, 25))])
    (row,) = table_rows(store, {})
    assert row.estimate(TRAIN_ACCURACY) is not None
    assert row.estimate(TEST_ACCURACY) is not None
    assert (row.median(TRAIN_ACCURACY), row.median(TEST_ACCURACY)) == (0.5, 0.45)
    assert row.median(SECONDS) == 12.0


@pytest.mark.parametrize(
    ("target", "runs", "seconds", "images"),
    [(0.4, 3, 10.0, 100.0), (0.6, 3, 30.0, 200.0), (0.65, 1, None, None), (0.9, 0, None, None)],
)
def test_time_to_target_is_the_median_and_none_if_most_runs_never_got_there(
    store: Store, target: float, runs: int, seconds: float | None, images: float | None
) -> None:
    save_plan(store, {REAL: ["a", "b", "c"]})
    for key, tested in (("a", 30), ("b", 35), ("c", 31)):
        save_run(store, record(f"run-{key}", key, REAL), [accurate((10.0, 40, 20), (20.0, 60, tested))])
    (row,) = table_rows(store, {}, target)
    assert (row.target, row.runs_at_target) == (target, runs)
    assert (row.median(SECONDS_TO_TARGET), row.median(IMAGES_TO_TARGET)) == (seconds, images)


def test_time_to_target_is_none_if_just_half_of_the_runs_got_there(store: Store) -> None:
    save_plan(store, {REAL: ["a", "b"]})
    for key, tested in (("a", 30), ("b", 35)):
        save_run(store, record(f"run-{key}", key, REAL), [accurate((10.0, 40, tested))])
    (row,) = table_rows(store, {}, target=0.65)
    assert (row.runs_at_target, row.median(SECONDS_TO_TARGET)) == (1, None)


def test_single_run_is_not_enough_where_an_interval_is_asked_for(store: Store) -> None:
    save_run(store, record("run-a", "a"), [trained(1000, 10.0)])
    for target, status in ((None, "ok"), (0.03, "noisy")):
        save_plan(store, {CELL: ["a"]}, interval_target=target)
        (row,) = table_rows(store, {})
        assert row.status == status
    assert row.reason == "a single run has no 95 % interval (3 % of the median is the limit)"


def test_target_of_the_plan_decides_what_is_noisy(store: Store) -> None:
    for key, seconds in (("a", 10.0), ("b", 10.1), ("c", 10.2), ("d", 10.3), ("e", 10.4)):  # their range is 4 % wide
        save_run(store, record(f"run-{key}", key), [trained(1000, seconds)])
    for target, status in ((None, "ok"), (0.03, "noisy"), (0.2, "ok")):
        save_plan(store, {CELL: ["a", "b", "c", "d", "e"]}, interval_target=target)
        (row,) = table_rows(store, {})
        assert (row.status, row.sequential) == (status, target is not None)


def test_interval_that_ends_the_rounds_is_wider_than_one_that_is_looked_at_once(store: Store) -> None:
    keys = [str(number) for number in range(9)]
    for key in keys:
        save_run(store, record(f"run-{key}", key), [trained(1000, 10.0 + int(key))])
    widths = []
    for target in (None, 0.9):
        save_plan(store, {CELL: keys}, interval_target=target)
        (row,) = table_rows(store, {})
        speed = row.estimate(SPEED)
        assert speed
        widths.append(speed.width or 0.0)
    assert widths[1] > widths[0]


def test_ratios_of_such_cells_have_wider_intervals_too(store: Store) -> None:
    two, keys = on_devices(2), [str(number) for number in range(9)]
    for key in keys:
        save_run(store, record(f"run-{key}", key), [trained(1000, 10.0 + int(key))])
        save_run(store, record(f"run-two-{key}", f"two-{key}", two), [trained(1000, 5.0 + int(key))])
    widths = []
    for target in (None, 0.9):
        save_plan(store, {CELL: keys, two: [f"two-{key}" for key in keys]}, interval_target=target)
        rows = table_rows(store, {})
        assert rows[1].scaling_interval
        widths.append(rows[1].scaling_interval[1] - rows[1].scaling_interval[0])
    assert widths[1] > widths[0]


def test_few_runs_that_happen_to_agree_do_not_end_the_rounds(store: Store) -> None:
    for key in ("a", "b", "c", "d"):
        save_run(store, record(f"run-{key}", key), [trained(1000, 10.0)])
    save_plan(store, {CELL: ["a", "b", "c", "d"]}, interval_target=0.03)
    (row,) = table_rows(store, {})
    assert row.status == "noisy"
    assert row.reason == (
        "the 95 % interval of its 4 runs is 0 % of the median (3 % is the limit); no cell stops before 5 runs"
    )
