"""What a reader of Markdown makes of our pages: every table is one, with all its rows and columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from paceline.analysis.comparison.compare import compare
from paceline.analysis.comparison.selections import choose
from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.studies import audits, comparison
from paceline.report.tables import render, render_layouts
from paceline.report.tables.layouts import LAYOUTS, Grid
from paceline.report.tables.published_comparison import with_published
from paceline.store.store import Store
from paceline.studies.audit import audit
from tests.factories.rows import made_row
from tests.factories.runs import CELL, cell, record, save_plan, save_run, trained

HOSTILE = "a|b <script> `x` **bold**\n| # - 1."
NOTHING_RAN: dict[str, Any] = {"status": "failed", "reason": HOSTILE, "repeats": 0, "images_per_second": None}
ROWS = [
    made_row(images_per_second_of_runs=(100.0, 101.0, 99.0), test_accuracy=Estimate(0.7, 0.6, 0.8)),
    made_row(framework="jax", images_per_second_of_runs=(124.0, 125.0, 123.0)),
    made_row(devices="2xcpu", shares=(64, 64)),
    made_row(devices="2xcpu", shares=(64, 64), learning_rate=0.1),
    made_row(framework="neon", **NOTHING_RAN, seconds=None, seconds_per_epoch=None, failed_run="r-1"),
]
Shape = tuple[int, int]  # lines with the headings, and columns


def rendered(page: str) -> str:
    return str(MarkdownIt("commonmark").enable("table").render(page))


def shapes(page: str) -> list[Shape]:
    """Of all tables that a reader sees; every line of one is of the same length."""
    shown = rendered(page)
    outside = re.sub(r"<pre>.*?</pre>", "", shown, flags=re.DOTALL)
    assert "|---" not in outside
    assert "<script>" not in shown
    found = re.findall(r"<table>(.*?)</table>", shown, flags=re.DOTALL)
    lines = [[len(re.findall(r"<t[hd][ >]", line)) for line in table.split("<tr>")[1:]] for table in found]
    assert all(len(set(table)) == 1 for table in lines)
    return [(len(table), table[0]) for table in lines]


def shape(grid: Grid) -> Shape:
    return len(grid.lines), len(grid.lines[0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout: str) -> None:
    arranged = LAYOUTS[layout](ROWS)
    page = render_layouts.in_layout(ROWS, layout, "markdown")
    assert shapes(page) == [shape(grid) for grid in arranged]
    assert re.search(r"<p>Findings</p>\n<ul>\n<li>jax is the fastest", rendered(page))


def test_commands_of_cells_stay_as_they_are() -> None:
    shown = rendered(render_layouts.markdown(LAYOUTS["matrix"](ROWS)))
    assert "  $ paceline run cifar10-conv --framework torch " in shown
    assert shown.count("<pre>") == 1


def test_plain_rows() -> None:
    ran = [row for row in ROWS if row.repeats]
    speed, resources, accuracies = shapes(render.markdown(ROWS))
    assert speed == (1 + len(ROWS), 11)
    assert resources == (1 + len(ran), 7)
    assert accuracies == (1 + len(ROWS), 4)  # the others would be empty


@pytest.mark.parametrize("rows", [[], ROWS], ids=["none", "some"])
def test_published_figures(rows: list[Row]) -> None:
    published = [made_row(framework="mxnet", devices="cuda:0", peak_memory_mib=(106.0,))] if rows else []
    grid = with_published([*rows, *published])
    assert shapes(render_layouts.markdown([grid])) == [shape(grid)]
    assert (len(grid.lines) > 1) == bool(rows)


def test_comparison(tmp_path: Path) -> None:
    cells = [CELL, cell(framework="fake+shout")]
    for side, images in (("old", 100), ("new", 90)):
        store = Store(tmp_path / side)
        save_plan(store, {one: [f"{place}-{side}"] for place, one in enumerate(cells)})
        for place, one in enumerate(cells):
            save_run(store, record(f"run-{place}", f"{place}-{side}", one), [trained(images, 2.0)])
    sides = [choose(str(tmp_path / side), tmp_path, SPEED) for side in ("old", "new")]
    found = compare(sides[0], sides[1], 0.05)
    assert shapes(comparison.FORMATS["markdown"](found)) == [(1 + len(cells), len(comparison.HEADINGS))]


def test_audit() -> None:
    found = audit("published")
    lines = len(found.findings) + len(found.notes) + len(found.unchecked)
    assert shapes(audits.FORMATS["markdown"](found)) == [(1 + lines, 3)]
