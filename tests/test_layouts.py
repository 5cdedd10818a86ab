"""The shapes of published tables: where each number goes, how it is written, and what stands below."""

from __future__ import annotations

import pytest

from paceline.metrics import Row
from paceline.report import grids
from paceline.report.layouts import LAYOUTS, Grid, by_source, long, matrix, transposed
from paceline.stats import Estimate
from tests.made_rows import made_row

ONE = made_row(utilisation=((0.02, 0.9, 0.99),), test_accuracy=Estimate(0.71, 0.70, 0.72))
TWO = made_row(
    devices="2xcpu",
    device_count=2,
    batch_size=128,
    shares=(64, 64),
    images_per_second=Estimate(6000.0, 5900.0, 6100.0),
    peak_memory_mib=(140.2, 138.0),
    idle_memory_mib=(300.0, 301.0),
    utilisation=((0.5, 0.8, 0.9), (0.5, 0.7, 0.9)),
)
GONE = made_row(
    framework="neon",
    devices="2xcpu",
    device_count=2,
    shares=(64, 64),
    status="skipped",
    reason="neon trains on at most 1 device",
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


def test_each_update_has_a_table_of_its_own() -> None:
    rows = [made_row(update=update) for update in ("replicated", "parameter_server")]
    assert len(by_source(rows)) == 2


def test_nothing_at_all_is_one_word() -> None:
    (grid,) = by_source(sources("neon", None, None, None))
    assert grid.lines[1] == ("1xcpu", "failed")


def test_matrix_has_time_and_memory_with_causes_below() -> None:
    time, memory = matrix([TWO, ONE, GONE])
    assert time.lines == (("", "2xcpu", "1xcpu"), ("torch", "2.115s", "2.115s"), ("neon", "N/A", "N/A"))
    assert memory.lines[1] == ("torch", "140 + 138 MiB", "157 MiB")
    assert "neon 2xcpu: N/A (skipped): neon trains on at most 1 device" in memory.notes
    assert ("torch 2xcpu: real 2.115s in training, peak memory (440 - 300) MiB + (439 - 301) MiB") in memory.notes


def test_long_table_numbers_machines_and_writes_batches_as_published() -> None:
    card = made_row(
        devices="8xcuda", device_count=8, batch_size=1024, shares=(128,) * 8, learning_rate=0.4, machine="ffff0000"
    )
    (grid,) = long([ONE, TWO, card, GONE])
    first, second, third, gone = grid.lines[1:]
    assert first == ("1", "cifar10-conv", "128 (lr=0.01)", "0", "0.710 (0.700–0.720)", "0.154", "13.8", "3,632 (1-90%)")
    assert second[2:4] == ("64x2=128 (lr=0.01)", "0")
    assert third[2:4] == ("128x8=1024 (lr=0.4)", "8")
    assert gone[-2:] == ("skipped", "x")
    assert grid.notes[0] == "infrastructure 1: AMD EPYC, 2 cores, 24 GiB, Linux 6.1, torch 2.13.0"


def test_transposed_table_has_devices_across() -> None:
    torch, neon = transposed([ONE, TWO, GONE])
    assert torch.lines[0] == ("", "CPU (1)", "CPU (2)")
    assert torch.lines[3] == ("Images processed per s", "3,632", "6,000")
    assert torch.lines[6] == ("Maximum memory (MiB)", "157", "278")  # all devices together, as published
    assert "batch: CPU (1) 128 (lr=0.01), CPU (2) 64x2=128 (lr=0.01)" in torch.notes
    assert neon.lines[3][1] == "skipped"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", [80, 120])
def test_every_shape_fits_the_terminal_and_pastes_into_markdown(layout: str, width: int) -> None:
    frameworks = [f"framework-{index}" for index in range(9)]
    rows = [made_row(framework=name) for name in frameworks] + [GONE, TWO]
    arranged = LAYOUTS[layout](rows)
    shown = grids.text(arranged, width)
    assert max(map(len, shown.splitlines())) <= width
    for name in frameworks:
        assert layout == "long" or name in shown
    for grid, block in zip(arranged, grids.markdown(arranged).split("**")[2::2], strict=True):
        table = [line for line in block.splitlines() if line.startswith("|")]
        assert len(table) == len(grid.lines) + 1
        assert {line.count("|") - line.count("\\|") for line in table} == {len(grid.lines[0]) + 1}


def test_markdown_cells_obey_nothing() -> None:
    grid = Grid("<script>", (("", "a|b"), ("x", "1")), ("<b>",))
    shown = grids.markdown([grid])
    assert "<script>" not in shown
    assert "a\\|b" in shown


def test_csv_names_the_table_of_every_line() -> None:
    assert grids.as_csv([Grid("t", (("", "a"), ("x", "1")), ())]) == "table,,a\nt,x,1\n"
