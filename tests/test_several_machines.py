"""Results of several machines in one store: each has tables of its own, under its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.metrics import table_rows
from paceline.report.layouts import matrix
from paceline.report.render import text
from paceline.store import Store
from tests.bundles.made import elsewhere, filled, of_machine, save
from tests.made_machines import machine
from tests.made_runs import CELL, on_devices, save_plan


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One device on one machine, two on the other."""
    store = filled(tmp_path / "store")
    save_plan(store, {CELL: ["l1"], on_devices(2): ["l2"]}, suite="local")
    save(store, of_machine("20250102-000001-dddddd", "l1", machine()))
    save(store, of_machine("20250102-000002-dddddd", "l2", machine(), on_devices(2)))
    return store


def test_machines_are_named_and_never_share_a_table(store: Store) -> None:
    shown = text(table_rows(store, {"framework": "fake"}), 200)
    tables = [part for part in shown.split("cifar10-conv: ")[1:] if ", machine " in part.splitlines()[0]]
    assert [
        (f"machine {one.id}" in table, "2xcpu" in table)
        for one, table in zip((machine(), elsewhere()), tables, strict=True)
    ] == [
        (True, True),
        (True, False),
    ]
    assert f"machine {elsewhere().id}: {elsewhere().description}." in shown
    titles = [grid.title for grid in matrix(table_rows(store, {"framework": "fake", "precision": "float32"}))]
    assert sum(f"machine {machine().id}" in title for title in titles) == 2


def test_one_machine_is_not_named(store: Store) -> None:
    assert "machine " not in text(table_rows(store, {}), 200).splitlines()[0]
