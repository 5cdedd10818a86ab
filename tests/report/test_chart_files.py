"""Charts as files: what their names say, whole or not at all, and a mistake is one line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from paceline.report.charts.chart_files import ChartRequest, draw
from paceline.store.store import Store
from paceline.system.errors import UserError
from tests.factories.command_line import CommandLine
from tests.factories.machines import machine
from tests.factories.runs import FAILED, OK, cell, on_devices, record, save_plan, save_run, trained


@pytest.fixture
def measured(paceline: CommandLine) -> CommandLine:
    """Two networks, one of them on two devices, and a failed run."""
    store = Store(paceline.store)
    cells = {cell(): "a", on_devices(2): "b", cell(framework="other"): "c", cell(workload="lenet"): "d"}
    for one, key in cells.items():
        ranks = [trained(1000, 10.0)] * one.device_set.count
        save_run(store, record(f"run-{key}", key, one), ranks, FAILED if key == "c" else OK)
    save_plan(store, {one: [key] for one, key in cells.items()})
    return paceline


MAGIC = {"svg": b"<svg", "png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-"}


@pytest.mark.parametrize("suffix", MAGIC)
def test_a_file_is_what_its_name_says(measured: CommandLine, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"speed.{suffix}"
    draw(ChartRequest("speed", path), measured.store, {}, None)
    assert path.read_bytes().startswith(MAGIC[suffix])


def test_the_command_says_what_it_drew_and_what_else_there_is(measured: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "speed.png"
    done = measured("chart", "speed", "-o", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert path.exists()
    assert f"{path}: Training speed: cifar10-conv" in done.stdout
    assert "--table 2: lenet" in done.stdout


def test_a_file_has_colours_of_its_own_and_names_the_failed_cell(measured: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "speed.svg"
    draw(ChartRequest("speed", path), measured.store, {"workload": "cifar10-conv"}, None)
    drawn = path.read_text()
    assert '<svg xmlns="http://www.w3.org/2000/svg"' in drawn
    assert ' color="#1b1f24"' in drawn
    assert 'fill="#ffffff"' in drawn
    assert "× failed: crash in train: killed by SIGSEGV" in drawn


def test_a_mistake_is_one_line(measured: CommandLine, tmp_path: Path) -> None:
    done = measured("chart", "sped", "-o", str(tmp_path / "sped.svg"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Unknown chart 'sped'. Did you mean 'speed'?" in done.stderr
    assert not list(tmp_path.glob("*sped*"))


@pytest.mark.parametrize(
    ("kind", "name", "filters", "complaint"),
    [
        ("speed", "speed.jpg", {}, "a chart is written as .svg, .png, .pdf"),
        ("speed", "nowhere/speed.svg", {}, "There is no folder .*nowhere; make it first"),
        ("speed", "folder.svg", {}, "folder.svg is a folder; name a file in it"),
        ("accuracy", "a.svg", {}, "Nothing to draw: the chart of accuracy needs real data with evaluation"),
        ("speed", "a.svg", {"framework": "nobody"}, "No results match --framework 'nobody'"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    measured: CommandLine, tmp_path: Path, kind: str, name: str, filters: dict[str, str], complaint: str
) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(UserError, match=complaint):
        draw(ChartRequest(kind, tmp_path / name), measured.store, filters, None)
    assert not (tmp_path / "a.svg").exists()


def test_machines_of_one_description_are_tables_of_their_own(measured: CommandLine, tmp_path: Path) -> None:
    store = Store(measured.store)
    here, there = cell(workload="lenet"), cell(workload="lenet", seed=7)
    twin = msgspec.structs.replace(machine(), host="twin")
    save_run(store, msgspec.structs.replace(record("run-e", "e", there), machine=twin), [trained(1000, 10.0)])
    save_plan(store, {here: ["d"], there: ["e"]})
    said = draw(ChartRequest("speed", tmp_path / "a.svg"), measured.store, {"workload": "lenet"}, None)
    assert "This is table 1 of 2. The others:" in said
    assert f"--table 2: machine {twin.id}" in said


def test_a_table_that_is_not_there_is_said(measured: CommandLine, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no table 3: of these results 2 can be drawn so"):
        draw(ChartRequest("speed", tmp_path / "a.svg", table=3), measured.store, {}, None)


def test_a_store_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There are no results at"):
        draw(ChartRequest("speed", tmp_path / "a.svg"), tmp_path / "nowhere", {}, None)


def test_a_picture_that_cannot_be_written_leaves_the_old_one(
    measured: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.svg"
    path.write_text("old")
    monkeypatch.setattr("secrets.token_hex", lambda size: "known")
    (tmp_path / ".a.svg.known.new").mkdir()  # where the new one would be written
    with pytest.raises(OSError, match="Is a directory"):
        draw(ChartRequest("speed", path), measured.store, {}, None)
    assert path.read_text() == "old"
