"""The small form of each published suite: every kind of row has its counterpart, and runs where its framework is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from paceline.catalog.published import NAMES, all_benchmarks
from paceline.plan.cell import Cell
from paceline.plan.planning import Plan, make_plan
from paceline.plan.published.cells import cell_of
from paceline.plan.suite import known_suites, load_suite
from tests.factories.brought import bring
from tests.factories.machines import machine


def length(cell: Cell, cells: Collection[Cell]) -> int:
    """Its place among those of the same batches: a text's epochs are a few steps in a small form."""
    same = {each.steps for each in cells if batches(each) == batches(cell)}
    return sorted(same).index(cell.steps)


def batches(cell: Cell) -> tuple[str, str, int]:
    return cell.workload, cell.devices, cell.batch_size


KINDS: dict[str, Callable[[Cell, Collection[Cell]], object]] = {
    "networks": lambda cell, _: (cell.workload, cell.framework),
    "several devices": lambda cell, _: (cell.workload, cell.framework, cell.device_set.count > 1),
    "updates and data": lambda cell, _: (cell.framework, cell.update, cell.data),
    "unequal shares": lambda cell, _: (cell.framework, cell.device_set.count if cell.shares != "equal" else 0),
    "rates": lambda cell, _: (cell.framework, cell.learning_rate),
    "seeds and lengths": lambda cell, cells: (cell.workload, cell.framework, cell.seed, length(cell, cells)),
}


def planned(name: str) -> Plan:
    return make_plan(load_suite(known_suites()[name], {"quick": True}), machine(cores=2))


@pytest.mark.parametrize("name", NAMES)
def test_quick_form_has_a_counterpart_of_every_kind_of_row(name: str) -> None:
    small, full = planned(name).cells, {cell_of(record) for record in all_benchmarks()[name].records}
    for what, kind in KINDS.items():
        assert {kind(cell, full) for cell in full} - {kind(cell, small) for cell in small} == set(), what


def test_quick_form_has_a_batch_with_two_rates_too() -> None:
    """As 64x8 at 0.05 and at 0.4."""
    places = [batches(cell) for cell in planned("mxnet-multi-gpu").cells]
    assert len(places) > len(set(places))


def test_nothing_of_neon_s_is_skipped_where_it_was_brought(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the smallest machine, without any GPU."""
    monkeypatch.setenv("PACELINE_ENVIRONMENTS", str(tmp_path))
    without = {skip.cell for skip in planned("neon-vs-mxnet").skips}
    bring("neon", tmp_path)
    plan = planned("neon-vs-mxnet")
    assert plan.skips == ()
    assert {(run.cell.framework, run.cell.devices, run.cell.shares) for run in plan.runs} == {
        (framework, devices, shares)
        for framework in ("neon", "mxnet")
        for devices, shares in (("1xcpu", "equal"), ("2xcpu", "equal"), ("3xcpu", "43:43:42"))
    }
    assert without == {cell for cell in plan.cells if cell.framework == "neon"}
