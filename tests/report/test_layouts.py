"""The shapes of published tables: where each number goes, how it is written, and what stands below."""

from __future__ import annotations

import pytest

from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.formats import as_text
from paceline.report.tables import render_layouts
from paceline.report.tables.layouts import LAYOUTS, Grid, by_source, long, matrix, transposed
from paceline.report.tables.rerun_command import command_line
from tests.factories.rows import COMMAND, changed, made_row

ONE = made_row(utilisation=((0.02, 0.9, 0.99),), test_accuracy=Estimate(0.71, 0.70, 0.72))
TWO = made_row(
    devices="2xcpu",
    batch_size=128,
    shares=(64, 64),
    images_per_second=Estimate(6000.0, 5900.0, 6100.0),
    peak_memory_mib=(140.2, 138.0),
    idle_memory_mib=(300.0, 301.0),
    utilisation=((0.5, 0.8, 0.9), (0.5, 0.7, 0.9)),
)
GONE = made_row(
    framework="keras-jax",
    devices="2xcpu",
    shares=(64, 64),
    status="skipped",
    reason="keras-jax trains on at most 1 device",
    images_per_second=None,
    seconds=None,
    seconds_per_epoch=None,
    peak_memory_mib=(),
    idle_memory_mib=(),
    utilisation=(),
    machine=None,
    machine_description=None,
)


def sources(framework: str, *speeds: float | None) -> list[Row]:
    names = ("fake:device", "fake:host", "fake:python")
    return [
        made_row(
            framework=framework,
            data=name,
            images_per_second=None if speed is None else Estimate(speed),
            status="ok" if speed else "failed",
        )
        for name, speed in zip(names, speeds, strict=True)
    ]


def test_data_sources_are_joined_in_one_place_as_published() -> None:
    (grid,) = by_source([*sources("tensorpack", 228, 228, 219), *sources("tensorflow", 226, None, 225)])
    assert grid.lines == (("", "tensorpack", "tensorflow"), ("1xcpu", "228/228/219", "226/failed/225"))
    assert grid.title.endswith("images/s, device/host/python")
    assert "one run each" in grid.notes[0]


def test_each_value_of_a_place_is_that_of_its_own_cell() -> None:
    first, second = sources("tensorpack", 228, 228, 219), sources("tensorflow", 226, None, 225)
    (grid,) = by_source([*first, *second[:2]])
    assert grid.cells == {(1, 1): tuple(first), (1, 2): (*second[:2], None)}


def test_place_of_a_matrix_is_one_cell_and_stays_so_when_it_is_turned() -> None:
    for grid in matrix([TWO, ONE, GONE]):
        assert grid.cells == {(1, 1): (TWO,), (1, 2): (ONE,), (2, 1): (GONE,), (2, 2): (None,)}
        assert grid.transposed().cells[2, 1] == (ONE,)


def test_line_or_column_of_one_cell_has_its_name() -> None:
    (listed,), (turned,) = long([ONE, TWO]), transposed([ONE, TWO])
    assert listed.cells == {(1, 1): (ONE,), (2, 1): (TWO,)}
    assert turned.cells == {(0, 1): (ONE,), (0, 2): (TWO,)}


def test_each_update_has_a_table_of_its_own() -> None:
    rows = [made_row(update=update) for update in ("replicated", "parameter_server")]
    assert len(by_source(rows)) == 2


def test_nothing_at_all_is_one_word() -> None:
    (grid,) = by_source(sources("keras-jax", None, None, None))
    assert grid.lines[1] == ("1xcpu", "failed")


def test_matrix_has_time_and_memory_with_causes_below() -> None:
    time, memory = matrix([TWO, ONE, GONE])
    assert time.lines == (
        ("", "2xcpu", "1xcpu"),
        ("torch", "2.115s", "2.115s"),
        ("keras-jax", "N/A", "–"),
    )  # no such cell
    assert memory.lines[1] == ("torch", "140 + 138 MiB", "157 MiB")
    said = "\n".join(memory.blocks)
    assert "  training 2.115s, peak memory (440 - 300) MiB + (439 - 301) MiB\n" in said
    assert "keras-jax (2xcpu)\n  $ paceline run cifar10-conv --framework keras-jax --devices 2xcpu " in said
    assert said.endswith("\n  N/A (skipped): keras-jax trains on at most 1 device")


def test_failed_cell_has_its_command_cause_and_log() -> None:
    failed = changed(GONE, status="failed", reason="crash in train: SIGSEGV\x1b", failed_run="r-1")
    _, memory = matrix([failed])
    assert memory.blocks == (
        "keras-jax (2xcpu)",
        f"  $ {command_line(failed)}",
        "  N/A (failed): crash in train: SIGSEGV\N{REPLACEMENT CHARACTER}",
        "  log: paceline log r-1",
    )
    assert not any("SIGSEGV" in note for note in memory.notes)  # once is enough


def test_block_of_a_command_is_what_was_typed() -> None:
    time, memory = matrix([made_row(framework="mine", command=COMMAND, seconds=20.6, images_per_second=None)])
    assert time.notes == ("95 % intervals of real seconds are 5% of the value wide in the middle and 5% at most",)
    assert memory.blocks[:3] == ("mine (1xcpu)", "  $ python train.py -e 1", "  real 20.6 s, user 17.0 s, sys 3.30 s")
    (listed,) = long([made_row(framework="mine", framework_version=None, command=COMMAND)])
    assert listed.lines[1][:2] == ("1", "mine")
    assert listed.notes[0] == "infrastructure 1: AMD EPYC, 2 cores, 24 GiB, Linux 6.1"


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"learning_rate": 0.1}, "lr=0.1"),
        ({"seed": 2}, "seed 2"),
        ({"machine": "ffff0000"}, "machine ffff0000"),
        ({"framework_version": "2.14.0"}, "2.14.0"),
        ({"input": "level1"}, "level1"),
        ({"slow": (2.0,)}, "simulated"),
        ({"quick": True}, "quick"),
        ({}, "(2)"),  # different in what a row does not keep, such as the warm-up
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_result_is_dropped_and_no_two_look_alike(layout: str, changes: dict[str, object], label: str) -> None:
    other = made_row(**changes, images_per_second=Estimate(777.0), seconds=7.77, seconds_per_epoch=77.7)
    arranged = LAYOUTS[layout]([made_row(), other])
    words = [word for grid in arranged for line in (*grid.lines, (grid.title, *grid.notes)) for word in line]
    shown = "\n".join(words)
    assert any(value in shown for value in ("3,632", "2.115s", "2.11"))
    assert any(value in shown for value in ("777", "7.770s", "7.77"))
    assert label in shown
    for grid in arranged:
        places = [line[:4] if layout == "long" else line[:1] for line in grid.lines]
        assert len(set(places)) == len(places)
        assert layout == "long" or len(set(grid.lines[0])) == len(grid.lines[0])


def test_framework_stands_in_the_line_of_its_own_settings() -> None:
    rows = [made_row(learning_rate=0.1), made_row(learning_rate=0.2), made_row(framework="jax", learning_rate=0.2)]
    (grid,) = by_source(rows)
    assert grid.lines == (("", "torch", "jax"), ("1xcpu lr=0.1", "3,632", "–"), ("1xcpu lr=0.2", "3,632", "3,632"))


def test_rates_that_follow_the_devices_need_no_label() -> None:
    (grid,) = by_source([ONE, changed(TWO, learning_rate=0.02)])
    assert [line[0] for line in grid.lines] == ["", "1xcpu", "2xcpu"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_said_about_sureness_where_nothing_ran(layout: str) -> None:
    notes = [note for grid in LAYOUTS[layout]([GONE]) for note in grid.notes]
    assert not any("one run each" in note or "95 %" in note for note in notes)


def test_long_table_numbers_machines_and_writes_batches_as_published() -> None:
    card = made_row(devices="8xcuda", batch_size=1024, shares=(128,) * 8, learning_rate=0.4, machine="ffff0000")
    grid, other = long([ONE, TWO, card, GONE])
    first, second, third = grid.lines[1:]
    assert "95 % intervals of accuracy are 0.020 wide at most" in grid.notes
    assert first == ("1", "cifar10-conv", "128 (lr=0.01)", "0", "0.710", "0.154", "13.8", "3,632 (1-90%)")
    assert second[2:4] == ("64x2=128 (lr=0.01)", "0")
    assert third[2:4] == ("128x8=1024 (lr=0.4)", "8")
    assert other.lines[1][0] == "?"
    assert other.lines[1][-2:] == ("skipped", "x")
    assert [grid.title, other.title] == [f"{name}, replicated, fake:device, float32" for name in ("torch", "keras-jax")]
    assert grid.notes[0] == "infrastructure 1: AMD EPYC, 2 cores, 24 GiB, Linux 6.1, torch 2.13.0"


def test_long_table_says_how_busy_all_devices_were() -> None:
    uneven = changed(TWO, utilisation=((0.9, 0.97, 0.99), (0.02, 0.5, 0.9)))
    (grid,) = long([uneven])
    assert grid.lines[1][-1] == "6,000 (2-74%)"  # 73.5


@pytest.mark.parametrize("layout", ["long", "transposed"])
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("weak", "weak scaling: the batch grows with the devices"),
        ("strong", "strong scaling: the batch stays the same on more devices"),
    ],
)
def test_kind_of_scaling_is_said_where_it_matters(layout: str, kind: str, words: str) -> None:
    one, two = (changed(row, scaling_kind=kind) for row in (ONE, TWO))
    (several,) = LAYOUTS[layout]([one, two])
    assert [note for note in several.notes if " scaling: " in note] == [words]
    (single,) = LAYOUTS[layout]([one])
    assert not any(" scaling: " in note for note in single.notes)


def test_long_table_of_each_training_and_mode() -> None:
    changes: tuple[dict[str, object], ...] = (
        {"update": "parameter_server", "parameter_device": "cpu"},
        {"data": "cifar10", "input": "level1"},
        {"precision": "bfloat16"},
        {"framework": "torch+compile"},
    )
    grids_found = long([ONE, *(made_row(**change) for change in changes)])
    assert [grid.title for grid in grids_found] == [
        "torch, replicated, fake:device, float32",
        "torch, parameter_server on cpu, fake:device, float32",
        "torch, replicated, cifar10 level1, float32",
        "torch, replicated, fake:device, bfloat16",
        "torch+compile, replicated, fake:device, float32",
    ]
    assert grids_found[-1].notes[0] == "infrastructure 2: AMD EPYC, 2 cores, 24 GiB, Linux 6.1, torch+compile 2.13.0"


def test_transposed_table_has_devices_across() -> None:
    torch, keras_jax = transposed([ONE, TWO, GONE])
    assert torch.lines[0] == ("", "CPU (1)", "CPU (2)")
    assert torch.lines[3] == ("Images processed per s", "3,632", "6,000")
    assert torch.lines[6] == ("Maximum memory (MiB)", "157", "278")  # all devices together, as published
    assert "batch: CPU (1) 128 (lr=0.01), CPU (2) 64x2=128 (lr=0.01)" in torch.notes
    assert keras_jax.lines[3][1] == "skipped"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", [80, 120])
def test_every_shape_fits_the_terminal_and_pastes_into_markdown(layout: str, width: int) -> None:
    frameworks = [f"framework-{index}" for index in range(9)]
    rows = [made_row(framework=name) for name in frameworks] + [GONE, TWO]
    arranged = LAYOUTS[layout](rows)
    shown = as_text(render_layouts.document(arranged), width)
    whole = [line for line in shown.splitlines() if line.startswith("  $ ")]  # commands are for pasting
    assert max(len(line) for line in shown.splitlines() if line not in whole) <= width
    for name in frameworks:
        assert name in shown
    for grid, block in zip(arranged, render_layouts.markdown(arranged).split("**")[2::2], strict=True):
        table = [line for line in block.splitlines() if line.startswith("|")]
        assert len(table) == len(grid.lines) + 1
        assert {line.count("|") - line.count("\\|") for line in table} == {len(grid.lines[0]) + 1}


@pytest.mark.parametrize("width", [60, 80])
def test_long_names_leave_room_for_the_numbers(width: int) -> None:
    devices = {"devices": "+".join(f"cuda:{index}" for index in range(8)), "shares": (16,) * 8}
    others: dict[str, object] = {"learning_rate": 0.1, "machine": "ffff0000", "seed": 7}
    shown = as_text(render_layouts.document(by_source([made_row(**devices), made_row(**devices, **others)])), width)
    assert shown.count("3,632") == 2
    assert "ffff0000" in shown


def test_markdown_cells_obey_nothing() -> None:
    grid = Grid("<script>", (("", "a|b"), ("x", "1")), ("<b>",))
    shown = render_layouts.markdown([grid])
    assert "<script>" not in shown
    assert "a\\|b" in shown


def test_csv_names_the_table_of_every_line() -> None:
    assert render_layouts.as_csv([Grid("t", (("", "a"), ("x", "1")), ())]) == "table,,a\nt,x,1\n"
