"""A quantity of a plug-in, with the sampler behind it, as the page about it has them: it is seen everywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.test_plugins import package

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "add-a-quantity.md"
WATTS = 100.0

pytestmark = pytest.mark.slow


@pytest.fixture
def meter(tmp_path: Path) -> Iterator[Path]:
    """A meter at the wall that shows ever more joules."""
    path, ended = tmp_path / "meter", threading.Event()

    def turn() -> None:
        while not ended.wait(0.01):
            new = path.with_suffix(".new")
            new.write_text(str(1000.0 + WATTS * time.monotonic()))
            new.replace(path)

    turning = threading.Thread(target=turn)
    turning.start()
    yield path
    ended.set()
    turning.join()


class Site:
    """Paceline with the package of the page."""

    def __init__(self, folder: Path, meter: Path) -> None:
        self.folder, self.store = folder, folder / "results"
        code, points = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        named = dict(re.findall(r'"paceline\.(\w+)"\]\n(.*)', points.replace(' "', " ").replace('"\n', "\n")))
        package(folder / "site", "meter", {"__init__.py": code.replace("/dev/shm/meter", str(meter))}, named)  # noqa: S108

    def __call__(self, *words: str) -> str:
        path = os.pathsep.join([str(self.folder / "site"), os.environ.get("PYTHONPATH", "")])
        ended = subprocess.run(
            [sys.executable, "-m", *words],
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "160"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def paceline(self, *words: str) -> str:
        return self("paceline", *words)


@pytest.fixture
def site(tmp_path: Path, meter: Path) -> Site:
    site = Site(tmp_path, meter)
    flags = (
        "--framework",
        "fake",
        "--devices",
        "1xcpu",
        "--steps",
        "200",
        "--repeats",
        "2",
        "--store",
        str(site.store),
    )
    site.paceline("run", "mnist-mlp", *flags)
    return site


def test_quantity_of_a_plugin_is_in_table_json_comparison_chart_and_docs(site: Site) -> None:
    store = ("--store", str(site.store))
    assert " J/image\n" in site.paceline("show", *store)
    assert "| J/image |" in site.paceline("show", "--format", "markdown", *store)
    (row,) = json.loads(site.paceline("show", "--format", "json", *store))
    expected = WATTS / row["images_per_second"]["median"]
    assert row["joules_per_image"]["median"] == pytest.approx(expected, rel=0.5)  # samples are milliseconds off
    assert "joules_per_image_median" in site.paceline("show", "--format", "csv", *store)
    folder = str(site.store)
    compared = site.paceline("compare", folder, folder, "--metric", "J/image")
    assert "median J/image" in compared
    chart = site.folder / "chart.svg"
    site.paceline("chart", "joules_per_image", "-o", str(chart), *store)
    assert "J/image" in chart.read_text(encoding="utf-8")
    assert "J/image" in site.paceline("list", "quantities")
    assert "wall_joules" in site.paceline("list", "samplers")
    page = site.folder / "fields.md"
    page.write_bytes((ROOT / "docs" / "fields.md").read_bytes())
    site("paceline.report.fields_page", str(page))
    assert "| `joules_per_image` | estimate, in J/image: what the machine took from the wall" in page.read_text()
