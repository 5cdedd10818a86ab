"""Results of several machines in one store: each has tables of its own, under its name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from paceline.analysis.rows.table_rows import table_rows
from paceline.report.page.run_details import of_runs
from paceline.report.server.comparison import selections
from paceline.report.tables.layouts import matrix
from paceline.report.tables.render import text
from paceline.store.store import Store
from tests.bundles.made import elsewhere, filled, of_machine, save
from tests.factories.machines import machine
from tests.factories.runs import CELL, on_devices, record, save_plan, save_run, trained


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


@pytest.mark.parametrize(
    "other",
    [
        {"identity": "system:2"},
        {"identity": "system:1", "quota_cores": 2.0},
    ],
    ids=["equal hardware", "a quota"],
)
def test_machines_that_only_their_records_tell_apart_share_no_table(tmp_path: Path, other: dict[str, object]) -> None:
    store, known = Store(tmp_path / "store"), msgspec.structs.replace(machine(), identity="system:1")
    second = msgspec.structs.replace(machine(), **other)
    for plan, (key, on) in enumerate({"one": known, "two": second}.items()):
        save_plan(store, {CELL: [key]}, suite=key)
        save(store, of_machine(f"20250102-00000{plan}-dddddd", key, on))
    rows = table_rows(store, {"framework": "fake"})
    assert {row.machine for row in rows} == {known.id, second.id}
    assert {row.quota_cores for row in rows} == {known.quota_cores, second.quota_cores}
    titles = [line for line in text(rows, 200).splitlines() if ", machine " in line]
    assert len(titles) == 2


def test_run_keeps_the_kernel_it_ran_on_when_the_machine_has_a_newer_one(tmp_path: Path) -> None:
    store, updated = Store(tmp_path / "results"), msgspec.structs.replace(machine(), system="Linux 6.12.0")
    assert updated.id == machine().id
    save_plan(store, {CELL: ["old"], on_devices(2): ["new"]})
    save_run(store, record("run-a", "old"), [trained(100, 1.0)])
    newer = msgspec.structs.replace(record("run-b", "new", on_devices(2)), machine=updated)
    save_run(store, newer, [trained(100, 1.0)] * 2)
    described = [machine().description, updated.description]
    assert [row.machine_description for row in table_rows(store, {})] == described
    known = of_runs(store, ["run-a", "run-b"])
    assert [known.setups[run.setup or 0].machine for run in known.runs] == described
    assert dict(selections(store))[f"machine:{machine().id}"] == updated.description
