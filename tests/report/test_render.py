"""Tables: readable at 80 columns, equal in every form, and safe to paste."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import msgspec
import pytest

from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.tables.columns import joined, tables, utilisation
from paceline.report.tables.layouts import LAYOUTS
from paceline.report.tables.remarks import remarks
from paceline.report.tables.render import FORMATS, as_csv, markdown, text
from paceline.report.tables.render_layouts import FORMATS as GRID_FORMATS
from paceline.system.text.formatting import number
from tests.factories.rows import COMMAND, changed
from tests.factories.rows import made_row as made

FAILED = made(
    framework="torch+compile",
    devices="2xcpu",
    status="failed",
    reason="error in train: RuntimeError: a | b <script>",
    repeats=0,
    images_per_second=None,
    seconds=None,
    seconds_per_epoch=None,
    first_step_seconds=None,
    peak_memory_mib=(),
    scaling=None,
    efficiency=None,
    failed_run="20261115-230959-000001-a00ff3",
)
TWO = made(devices="2xcpu", peak_memory_mib=(134.8, 133.2), scaling=1.407, efficiency=0.7035)


def test_numbers_have_three_digits() -> None:
    assert [number(value) for value in (0.0551, 2.1147, 13.768, 157.25, 3631.7, None)] == [
        "0.06",
        "2.11",
        "13.8",
        "157",
        "3,632",
        "–",
    ]


def test_row_reads_as_it_was_measured() -> None:
    line = next(line for line in text([made(), TWO], width=120).splitlines() if "2xcpu" in line)
    assert " ".join(line.split()) == "torch 2xcpu 3,632 3,469–3,854 2.11 13.8 0.06 1.41× 70% 135+133 ok"


def test_table_fits_80_columns() -> None:
    for rows in ([made(), TWO], [made(), TWO, FAILED]):
        lines = text(rows, width=80).splitlines()
        assert max(map(len, lines)) <= 80
        assert any("3,469" in line for line in lines)


def test_title_says_what_rows_share_and_unlike_rows_stand_apart() -> None:
    weak = made(scaling_kind="weak", devices="2xcpu")
    shown = text([made(), weak], width=200)
    assert "cifar10-conv: 420,096 parameters, batch 128 in all (strong scaling), 60 steps, fake:device" in shown
    assert "batch 64 per device (weak scaling)" in shown


def test_failure_stands_below_with_its_log() -> None:
    assert remarks([FAILED]) == [
        "torch+compile 2xcpu failed: error in train: RuntimeError: a | b <script>",
        "torch+compile 2xcpu log: paceline log 20261115-230959-000001-a00ff3",
    ]


def test_memory_of_one_process_for_all_devices_is_said() -> None:
    (remark,) = remarks([made(framework="jax", devices="2xcpu", memory_of="all devices")])
    assert remark == "jax 2xcpu: one process serves all devices, so its memory is that of all together"


def test_exchange_that_the_framework_has_not_itself_is_said() -> None:
    several = [made(framework="neon", devices=f"{count}xcpu") for count in (1, 2, 3)]
    (remark,) = remarks(several)
    whose = "the exchange between devices is Paceline's own, since neon's add-on for several GPUs was never public"
    assert remark == f"neon 2xcpu, neon 3xcpu: {whose}"
    assert remarks([changed(several[0], wrapped=True)]) == [f"neon 1xcpu wrapped: {whose}"]
    assert remarks([changed(several[1], update="independent")]) == []
    assert remarks([TWO]) == []


def test_verified_frameworks_are_named_once() -> None:
    both = [made(verified=True), changed(TWO, verified=True)]
    assert remarks(both) == ["verified to compute the same network: torch"]
    assert remarks([both[0], TWO]) == ["verified to compute the same network: torch on 1xcpu"]


def test_markdown_has_one_cell_per_column_whatever_a_run_said() -> None:
    lines = markdown([made(), FAILED]).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert [line.replace("\\|", "").count("|") for line in table] == [12] * 4 + [8] * 3  # one of the two ran
    assert "<script>" not in "\n".join(lines)


def test_json_is_a_list_of_rows_with_the_documented_keys() -> None:
    (row,) = json.loads(FORMATS["json"]([made()]))
    documented = (
        "workload framework devices update data batch_size status reason repeats images_per_second seconds "
        "seconds_per_epoch first_step_seconds peak_memory_mib scaling efficiency parameters"
    )
    assert set(documented.split()) <= set(row)
    assert row["images_per_second"] == {"median": 3631.7, "low": 3468.8, "high": 3854.1}
    assert row["peak_memory_mib"] == [157.25]


def test_csv_has_the_interval_in_columns_of_its_own() -> None:
    first, second = csv.DictReader(io.StringIO(as_csv([made(), FAILED])))
    assert (first["images_per_second_median"], first["images_per_second_low"]) == ("3631.7", "3468.8")
    assert second["images_per_second_median"] == ""
    assert second["reason"] == FAILED.reason


ACCURATE = made(
    data="cifar10",
    input="scaled",
    train_accuracy=Estimate(0.81249, 0.8, 0.82),
    test_accuracy=Estimate(0.70351, 0.69, 0.71),
    waiting=0.0123,
    evaluation_seconds=12.3,
)


def test_accuracies_have_a_table_of_their_own() -> None:
    lines = markdown([ACCURATE]).splitlines()
    heading = next(index for index, line in enumerate(lines) if "test accuracy" in line)
    assert lines[heading] == (
        "| framework | devices | batch | training accuracy | test accuracy | waiting | evaluation s |"
    )
    assert lines[heading + 2] == (
        "| torch | 1xcpu | 128 (lr=0.01) | 0.812 (0.800–0.820) | 0.704 (0.690–0.710) | 1.2% | 12.3 |"
    )
    assert "test accuracy" not in markdown([made()])


def test_way_to_the_target_is_shown_and_never_is_said_so() -> None:
    reached = changed(ACCURATE, target=0.7, runs_at_target=3, seconds_to_target=91.24, images_to_target=250_000.0)
    never = changed(ACCURATE, framework="jax", target=0.7)
    unjudged = changed(never, framework="mxnet", test_accuracy=None)
    shown = markdown([reached, never, unjudged])
    lines = [line for line in shown.splitlines() if "(lr=" in line or "s to 0.7" in line]
    assert [line.split("|")[-3:-1] for line in lines] == [
        [" s to 0.7 ", " images to 0.7 "],
        [" 91.2 ", " 250,000 "],
        [" ∞ ", " ∞ "],
        [" – ", " – "],
    ]
    assert "\n* torch 1xcpu: 3 of 5 runs reached the test accuracy 0.7\n" in shown
    assert "∞: half of the runs or more never reached it." in shown
    assert "∞" not in markdown([reached, unjudged])


def test_waiting_and_training_accuracy_are_shown_without_evaluation() -> None:
    unjudged = changed(ACCURATE, test_accuracy=None, evaluation_seconds=None, target=0.7)
    lines = markdown([unjudged]).splitlines()
    heading = lines.index("| framework | devices | batch | training accuracy | waiting |")
    assert lines[heading + 2] == "| torch | 1xcpu | 128 (lr=0.01) | 0.812 (0.800–0.820) | 1.2% |"


IN_TWO = {"devices": "2xcpu", "shares": (64, 64)}


def test_unlike_trainings_are_named_where_accuracies_are_shown() -> None:
    two = changed(ACCURATE, **IN_TWO)
    assert remarks([ACCURATE, two]) == [
        "not quite the same training: each device normalises over its own images: "
        "128 images on 1xcpu, 64 images on 2xcpu"
    ]
    grown = changed(two, batch_size=256, shares=(128, 128))
    assert remarks([ACCURATE, grown]) == [
        "not the same training: the batch grows with the devices: "
        "1xcpu has 128 (lr=0.01), 2xcpu has 128x2=256 (lr=0.01); "
        "the learning rate is not scaled with the batch (--lr-rule linear does)"
    ]
    scaled = changed(grown, learning_rate=0.02)
    assert remarks([ACCURATE, scaled])[0].endswith("2xcpu has 128x2=256 (lr=0.02)")


@pytest.mark.parametrize("form", [text, markdown])
def test_batch_that_grows_with_the_devices_is_said_below_the_table_of_equal_epochs(
    form: Callable[[list[Row]], str],
) -> None:
    one = changed(ACCURATE, scaling_kind="weak", steps=3907, whole_epochs=10)
    two = changed(one, **{**IN_TWO, "shares": (128, 128)}, batch_size=256, steps=1954)
    shown = " ".join(form([one, two]).split())
    assert "batch 128 per device (weak scaling), 10 epochs, cifar10 scaled" in shown
    assert "not the same training: the batch grows with the devices: 1xcpu has 128 (lr=0.01), 2xcpu has" in shown


def test_rows_of_as_many_steps_stay_together_whatever_their_epochs() -> None:
    one = made(scaling_kind="weak", steps=391, whole_epochs=1)
    two = made(scaling_kind="weak", steps=391, whole_epochs=2, batch_size=256, **{**IN_TWO, "shares": (128, 128)})
    ((title, rows),) = tables([one, two])
    assert "weak scaling), 391 steps, " in title
    assert rows == [one, two]
    assert "1 epoch, " in tables([one])[0][0]


def test_trainings_of_one_device_set_are_all_named_up_to_a_limit() -> None:
    sizes = [changed(ACCURATE, batch_size=size, shares=(size,)) for size in range(32, 40)]
    (said,) = remarks(sizes)
    assert said.startswith("not the same training: batches differ: 1xcpu has 32 (lr=0.01), 1xcpu has 33 (lr=0.01), ")
    assert "1xcpu has 37 (lr=0.01), and 2 more; the learning rate is not scaled with the batch" in said
    rates = [changed(ACCURATE, learning_rate=rate) for rate in (0.4, 0.8)]
    other = changed(ACCURATE, workload="cifar10-resnet50", batch_size=512, shares=(512,))
    assert remarks([*rates, other]) == [
        "cifar10-conv: not the same training: learning rates differ: 1xcpu has 128 (lr=0.4), 1xcpu has 128 (lr=0.8)"
    ]


def noisy(**changes: object) -> Row:
    speed = Estimate(100.0, 90.0, 110.0)
    return made(
        status="noisy",
        reason="95 % interval too wide",
        images_per_second=speed,
        **changes,
    )


def test_rows_of_one_name_are_told_apart_by_what_differs() -> None:
    assert remarks([noisy(data="fake:device"), noisy(data="fake:host"), made(data="fake:python")]) == [
        "torch 1xcpu fake:device, torch 1xcpu fake:host are noisy: 95 % interval too wide"
    ]
    assert remarks([noisy(), made(batch_size=64, shares=(64,))])[0].startswith("torch 1xcpu batch 128 is noisy")


def test_many_noisy_rows_have_one_remark() -> None:
    rows = [noisy(framework=f"f{number}") for number in range(6)]
    (said,) = remarks(rows)
    assert said.startswith(
        "f0 1xcpu, f1 1xcpu, f2 1xcpu, f3 1xcpu, f4 1xcpu, f5 1xcpu are noisy: 95 % intervals of 20 to 20 %"
    )
    (shortened,) = remarks([noisy(framework=f"f{number}") for number in range(30)])
    assert ", f7 1xcpu, and 22 more are noisy: 95 % intervals of 20 to 20 % of the median" in shortened
    single = made(framework="f6", status="noisy", reason="a single run", images_per_second=Estimate(100.0))
    assert remarks([*rows, single]) == [said, "f6 1xcpu is noisy: a single run"]


def test_many_noisy_commands_are_judged_by_their_seconds() -> None:
    command = msgspec.structs.replace(COMMAND, real_seconds=Estimate(10.0, 8.0, 12.0))
    (said,) = remarks([noisy(framework=f"f{number}", command=command) for number in range(6)])
    assert "are noisy: 95 % intervals of 40 to 40 % of the median" in said


def test_unlike_shares_are_told_with_their_own_numbers() -> None:
    equal = changed(ACCURATE, **IN_TWO)
    (said,) = remarks([equal, changed(equal, shares=(85, 43))])
    assert said.endswith("over its own images: 64 images on 2xcpu, 85+43 images on 2xcpu")


def test_accuracy_of_independent_devices_is_that_of_no_network() -> None:
    alone = changed(ACCURATE, update="independent", batch_norm=False)
    two = changed(alone, **IN_TWO)
    assert [remark for remark in remarks([alone, two]) if "no single network" in remark] == [
        "torch 2xcpu: each device judged its part of the test images with weights of its own: "
        "the test accuracy is that of no single network"
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_accuracies_fit_a_terminal(width: int) -> None:
    two = changed(ACCURATE, devices="2xcpu", target=0.7, seconds_to_target=1.0, images_to_target=5000.0)
    lines = text([ACCURATE, two], width).splitlines()
    assert max(map(len, lines)) <= width
    assert any("0.704" in line for line in lines)


def test_resources_have_a_table_of_their_own_for_rows_that_ran() -> None:
    lines = markdown([made(), FAILED]).splitlines()
    heading = next(index for index, line in enumerate(lines) if "utilisation" in line)
    assert lines[heading] == (
        "| framework | devices | idle MiB | peak − idle MiB | utilisation | images/CPU-s | noise on its cores |"
    )
    assert lines[heading + 2 : heading + 4] == [
        "| torch | 1xcpu | 302 | 157 | 97% (90-99%) | 3,600 | other 1.2 %, stolen 0.1 % |",
        "",
    ]


def test_utilisation_of_few_devices_is_told_one_by_one() -> None:
    busy = ((0.9, 0.97, 0.99), (0.02, 0.5, 0.9))
    assert utilisation(made(utilisation=busy)) == "97% (90-99%) + 50% (2-90%)"
    assert utilisation(made(utilisation=busy * 4)) == "8 devices: 2-99%"
    assert utilisation(made(utilisation=())) == "–"
    assert [joined(mebibytes) for mebibytes in ((), (9.0, 8.4), (300.0,) * 8, (300.0, 310.2) * 4)] == [
        "–",
        "9+8",
        "8 × 300",
        "8 × 300-310",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_resources_fit_a_terminal(width: int) -> None:
    two = changed(
        TWO, framework="keras-tensorflow", idle_memory_mib=(301.5, 299.0), utilisation=((0.9, 0.97, 0.99),) * 2
    )
    lines = text([made(), two], width).splitlines()
    assert max(map(len, lines)) <= width
    assert any("97% (90-99%)" in line for line in lines)
    assert any("other 1.2 %" in line for line in lines)


def test_resources_are_flat_in_csv() -> None:
    (row,) = csv.DictReader(io.StringIO(as_csv([made(utilisation=((0.9, 0.97, 0.99), (0.1, 0.5, 0.9)))])))
    assert (row["idle_memory_mib"], row["utilisation"]) == ("301.5", "0.9/0.97/0.99 0.1/0.5/0.9")
    assert (row["noise_other"], row["noise_stolen"], row["noise_lowest_mhz"]) == ("0.012", "0.001", "")


def test_preallocated_memory_is_said_with_its_numbers() -> None:
    taken = made(
        devices="cuda:0",
        marks=("preallocated",),
        peak_memory_mib=(10240.0,),
        started_memory_mib=(8192.0,),
        allocator_memory_mib=(2048.0,),
    )
    assert remarks([taken]) == [
        "torch cuda:0 is preallocated: of 10,240 MiB that the driver saw at most, 8,192 MiB were taken "
        "before anything was built; its own allocator needed 2,048 MiB"
    ]


def test_noisy_row_says_what_was_seen() -> None:
    assert remarks([made(status="noisy", reason="the 95 % interval of its 3 runs is 12 % of the median")]) == [
        "torch 1xcpu is noisy: the 95 % interval of its 3 runs is 12 % of the median"
    ]


@pytest.mark.parametrize("layout", ["rows", *LAYOUTS])
def test_names_are_neither_markup_nor_formulas(layout: str) -> None:
    """They may come from another machine's bundle."""
    rows = [made(framework="[/x]"), made(framework="=1+1")]
    grids = LAYOUTS[layout](rows) if layout in LAYOUTS else []
    assert "[/x]" in (GRID_FORMATS["text"](grids) if grids else text(rows))
    table = csv.reader(io.StringIO(GRID_FORMATS["csv"](grids) if grids else as_csv(rows)))
    assert not [value for line in table for value in line if value.startswith("=")]
