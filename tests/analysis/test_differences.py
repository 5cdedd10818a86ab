"""What else is not the same between two runs, or two sets of them: all that their records tell."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.analysis.comparison.compare import Comparison, compare
from paceline.analysis.comparison.selections import choose
from paceline.analysis.quantities.known import SPEED
from paceline.cli import reading
from paceline.environments.worker_variables import INHERITED
from paceline.plan.cell import Cell
from paceline.report.formats import as_text
from paceline.report.studies.comparison import FORMATS, document, notes
from paceline.store.index.setups import OWN_VARIABLES
from paceline.store.records.runs import RunRecord
from paceline.store.store import Store
from paceline.system.machine.hardware import Machine
from tests.factories.machines import machine
from tests.factories.runs import CELL, cell, record, save_plan, save_run, trained
from tests.factories.server import serving

OTHER = cell(framework="other")
NOTHING_ELSE = "nothing else that is recorded differs"
Changes = Mapping[Cell, Mapping[str, Any]]  # to the records of a cell's runs


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Store, Store]:
    return Store(tmp_path / "old"), Store(tmp_path / "new")


def fill(store: Store, cells: Changes, speeds: Sequence[float] = (100.0,)) -> None:
    keys = {one: [f"{place}-{repeat}" for repeat in range(len(speeds))] for place, one in enumerate(cells)}
    for one, changes in cells.items():
        for key, speed in zip(keys[one], speeds, strict=True):
            save_run(
                store,
                msgspec.structs.replace(record(f"run-{key}", key, one), **changes),
                [trained(round(100 * speed), 100.0)],
            )
    save_plan(store, keys)


def compared(stores: tuple[Store, Store]) -> Comparison:
    old, new = (choose(str(store.folder), store.folder, SPEED) for store in stores)
    return compare(old, new, 0.05)


def differences(stores: tuple[Store, Store], old: Changes, new: Changes) -> tuple[str, ...]:
    for store, cells in zip(stores, (old, new), strict=True):
        fill(store, cells)
    return compared(stores).differences


def with_machine(**changes: Any) -> dict[str, Machine]:
    return {"machine": msgspec.structs.replace(machine(gpus=("Card", "Card")), **{"identity": "one", **changes})}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ({}, {"worker_code": "beef"}, "fake measuring code: c0de → beef"),
        ({}, {"python_version": "3.12.1"}, "fake Python: 3.11.7 → 3.12.1"),
        ({}, {"packages": {"numpy": "2.5.0"}}, "fake packages: numpy 2.4.6 → 2.5.0"),
        ({}, {"framework_version": "3.0"}, "fake version: 2.4.6 → 3.0"),
        ({}, {"paceline_version": "0.2.0"}, "Paceline: 0.1.0 → 0.2.0"),
        ({}, {"data_checksum": "f" * 64}, "data: unknown → ffffffffffff"),
        ({}, {"environment": {"OMP_NUM_THREADS": "2"}}, "fake variables: OMP_NUM_THREADS none → 2"),
        ({"environment": {"PATH": "/a"}}, {"environment": {"PATH": "/b"}}, "fake variables: PATH /a → /b"),
        ({}, {"cell": cell(cores=((3,),))}, "cores: 0 → 3"),
        ({}, {"cell": cell(oversubscribed=True)}, "oversubscribed: no → yes"),
        ({}, {"shares": (60, 40)}, "fake shares: unknown → 60, 40"),
        (with_machine(), with_machine(system="Linux 6.2.0"), "kernel: Linux 6.1.0 → Linux 6.2.0"),
        (with_machine(), with_machine(gpu_driver="580.2"), "driver: 570.1 → 580.2"),
    ],
)
def test_one_recorded_difference_is_the_one_that_is_named(
    stores: tuple[Store, Store], old: dict[str, Any], new: dict[str, Any], line: str
) -> None:
    assert differences(stores, {CELL: old}, {CELL: new}) == (line,)


PER_RUN = {"format", "id", "key", "repeat", "started", "commands", "cell"}  # the cell is what is compared


def changed(value: Any) -> Any:
    """Another one of the same kind."""
    if isinstance(value, dict):
        return {**value, "more": "1"}
    if isinstance(value, tuple):
        return (*value, value[0] if value else 7)
    return f"{value or ''}x" if isinstance(value, str) or value is None else 2 * value + 2**31


@pytest.mark.parametrize("name", sorted(set(RunRecord.__struct_fields__) - PER_RUN - {"machine", "code"}))
def test_no_field_of_a_record_is_passed_over(stores: tuple[Store, Store], name: str) -> None:
    one = record("run", "key")
    assert len(differences(stores, {CELL: {}}, {CELL: {name: changed(getattr(one, name))}})) == 1


@pytest.mark.parametrize("name", sorted(set(Machine.__struct_fields__) - {"host"}))
def test_no_field_of_a_machine_is_passed_over(stores: tuple[Store, Store], name: str) -> None:
    (field,) = [one for one in msgspec.structs.fields(Machine) if one.name == name]
    kinds = {"tuple[int, ...]": (7,), "tuple[str, ...]": ("Other card",), "int": 2**40, "float": 1.5}
    other = next((value for kind, value in kinds.items() if kind in str(field.type)), "something else")
    assert differences(stores, {CELL: with_machine()}, {CELL: with_machine(**{name: other})}) != ()


def test_new_host_name_is_a_difference_only_where_it_may_be_another_machine(stores: tuple[Store, Store]) -> None:
    two = cell(framework="other")
    old = {CELL: with_machine(), two: with_machine(identity="")}
    new = {CELL: with_machine(host="elsewhere"), two: with_machine(identity="", host="elsewhere")}
    machine_line, host_line = differences(stores, old, new)
    assert machine_line.startswith("machine: ")
    assert machine_line.endswith(" (1 of 2 cells)")
    assert host_line == "host: bench → elsewhere (1 of 2 cells)"


def test_machine_is_the_same_as_in_a_record_from_before_it_had_an_identity(stores: tuple[Store, Store]) -> None:
    assert differences(stores, {CELL: with_machine(identity="")}, {CELL: with_machine()}) == ()


def test_names_of_machines_are_told(stores: tuple[Store, Store]) -> None:
    (line,) = differences(stores, *({CELL: with_machine(identity=f"name:{name}")} for name in ("alpha", "beta")))
    assert "(alpha) → " in line
    assert line.endswith("(beta)")


def test_job_that_is_not_the_same_is_named(stores: tuple[Store, Store]) -> None:
    """As after an edit of a workload, whose settings still have the same names."""
    fill(stores[0], {CELL: {}})
    shutil.copytree(stores[0].folder, stores[1].folder)
    (stores[1].folder / "index.sqlite").unlink()
    for path in stores[1].folder.glob("runs/*/job.json"):
        job = json.loads(path.read_bytes())
        job["recipe"]["momentum"] = 0.123
        job["graph"] = {}
        job["seed"] += 1  # each repeat has its own
        path.write_text(json.dumps(job))
    network, recipe = compared(stores).differences
    assert network.startswith("fake network: ")
    assert recipe.startswith("fake recipe: momentum ")
    assert recipe.endswith(" → 0.123")


@pytest.mark.slow
def test_when_nothing_else_differs_every_form_says_so(stores: tuple[Store, Store]) -> None:
    fill(stores[0], {CELL: {}})
    fill(stores[1], {CELL: {"environment": {"PACELINE_RUN": "another", "MASTER_PORT": "1"}, "started": 2000.0}})
    found = compared(stores)
    assert (found.differences, found.nothing_else_differs) == ((), True)
    assert any(note.startswith(NOTHING_ELSE) for note in notes(found))
    assert NOTHING_ELSE in " ".join(as_text(document(found), 80).split())
    assert NOTHING_ELSE in FORMATS["markdown"](found)
    assert json.loads(FORMATS["json"](found))["nothing_else_differs"] is True
    with serving(stores[0].folder) as served:
        assert NOTHING_ELSE in served.ask("/compare?old=suite:made&new=suite:made").text


@pytest.mark.parametrize("name", [*INHERITED, *OWN_VARIABLES])
def test_variable_is_compared_or_the_sentence_that_all_are_the_same_excepts_it(
    stores: tuple[Store, Store], name: str
) -> None:
    for store, value in zip(stores, ("/a", "/b"), strict=True):
        fill(store, {CELL: {"environment": {name: value}}})
    found = compared(stores)
    assert found.differences == (() if name in OWN_VARIABLES else (f"fake variables: {name} /a → /b",))
    (sentence,) = [note for note in notes(compared((stores[0], stores[0]))) if NOTHING_ELSE in note]
    assert (name in re.findall(r"\w+", sentence)) == (not found.differences)


def test_index_from_before_paths_were_compared_is_made_anew(stores: tuple[Store, Store]) -> None:
    for store, path in zip(stores, ("/a", "/b"), strict=True):
        fill(store, {CELL: {"environment": {"PATH": path}}})
        with contextlib.closing(sqlite3.connect(store.folder / "index.sqlite")) as index, index:
            index.execute("PRAGMA writable_schema = ON")
            index.execute("UPDATE sqlite_master SET sql = replace(sql, ', with PATH among the variables', '')")
            index.execute("UPDATE setup SET facts = json_remove(facts, '$.environment.PATH')")
    assert compared(stores).differences == ("fake variables: PATH /a → /b",)


def test_when_something_else_differs_nothing_says_otherwise(stores: tuple[Store, Store]) -> None:
    fill(stores[0], {CELL: {}})
    fill(stores[1], {CELL: {"worker_code": "beef"}})
    found = compared(stores)
    assert not found.nothing_else_differs
    assert [note for note in notes(found) if NOTHING_ELSE in note] == []
    assert "differs: fake measuring code: c0de → beef" in notes(found)


@pytest.mark.slow
def test_what_all_cells_share_is_one_line_and_what_a_framework_has_is_its_own(stores: tuple[Store, Store]) -> None:
    many = [cell(framework=name, steps=steps) for name in ("fake", "fake+shout", "other") for steps in range(20, 40)]
    old: Changes = {one: with_machine() for one in many}
    later = {**with_machine(system="Linux 6.2.0"), "packages": {"numpy": "2.5.0"}}
    new = {one: {**later, "worker_code": one.framework[:3]} for one in many}
    for store, cells in zip(stores, (old, new), strict=True):
        fill(store, cells)
    assert compared(stores).differences == (
        "kernel: Linux 6.1.0 → Linux 6.2.0",
        "fake measuring code: c0de → fak",
        "other measuring code: c0de → oth",
        "fake, other packages: numpy 2.4.6 → 2.5.0",
    )


def test_difference_of_some_cells_says_of_how_many(stores: tuple[Store, Store]) -> None:
    cells: Changes = {cell(steps=steps): {} for steps in (20, 30, 40)}
    fill(stores[0], cells)
    fill(stores[1], {**cells, cell(steps=20): {"framework_version": "3.0"}})
    assert compared(stores).differences == ("fake version: 2.4.6 → 3.0 (1 of 3 cells)",)


def test_sides_that_swap_their_machines_differ(stores: tuple[Store, Store]) -> None:
    """Taken together both sides have the same two."""
    one, two = with_machine(system="Linux 1"), with_machine(system="Linux 2")
    assert differences(stores, {CELL: one, OTHER: two}, {CELL: two, OTHER: one}) == (
        "kernel: Linux 1 → Linux 2 (1 of 2 cells)",
        "kernel: Linux 2 → Linux 1 (1 of 2 cells)",
    )


def test_runs_of_a_side_that_are_not_alike_are_all_named(stores: tuple[Store, Store]) -> None:
    fill(stores[0], {CELL: {}})
    fill(stores[1], {CELL: {}})
    save_run(stores[1], msgspec.structs.replace(record("late", "late"), worker_code="beef"), [trained(1000, 10.0)])
    save_plan(stores[1], {CELL: ["0-0", "late"]})
    assert compared(stores).differences == ("fake measuring code: c0de → beef, c0de",)


def test_many_differences_are_few_lines(stores: tuple[Store, Store]) -> None:
    cells = [cell(steps=steps) for steps in range(20, 40)]
    new = {one: {"packages": {f"p{number}": "1" for number in range(one.steps)}} for one in cells}
    fill(stores[0], {one: {} for one in cells})
    fill(stores[1], new)
    found = compared(stores).differences
    assert len(found) == 6
    assert found[0].startswith("fake packages: numpy 2.4.6 → none, p0 none → 1, p1 none → 1, ")
    assert found[0].endswith(", p11 none → 1, 16 more (1 of 20 cells)")
    assert found[-1] == "packages: 15 more differences"


def test_json_names_every_difference(stores: tuple[Store, Store], capsys: pytest.CaptureFixture[str]) -> None:
    fill(stores[0], {CELL: {}})
    fill(stores[1], {CELL: {"packages": {f"p{number}": "1" for number in range(20)}}})
    reading.compare(str(stores[0].folder), str(stores[1].folder), format="json")
    (line,) = json.loads(capsys.readouterr().out)["differences"]
    assert all(f"p{number} none → 1" in line for number in range(20))


def test_little_more_memory_is_a_difference(stores: tuple[Store, Store]) -> None:
    old, new = (with_machine(memory_bytes=size * 2**20) for size in (24_000, 24_020))
    assert differences(stores, {CELL: old}, {CELL: new}) == ("memory: 24,000 MiB → 24,020 MiB",)


def test_secrets_and_control_characters_are_not_shown(stores: tuple[Store, Store]) -> None:
    old = {"environment": {"API_TOKEN": "hunter2", "LANG": "C"}}
    new = {"environment": {"API_TOKEN": "hunter3", "LANG": "\x1b[31m"}}
    (line,) = differences(stores, {CELL: old}, {CELL: new})
    assert "hunter" not in line
    assert "API_TOKEN" in line
    assert "\x1b" not in line


def test_no_run_is_read_to_compare(stores: tuple[Store, Store]) -> None:
    """What is needed of thousands of records is in the index, once for all that are alike."""
    fill(stores[0], {CELL: {}, OTHER: {}})
    fill(stores[1], {CELL: {"worker_code": "beef"}, OTHER: {}})
    for store in stores:
        shutil.rmtree(store.folder / "runs")
        (store.folder / "runs").mkdir()
    assert compared(stores).differences == ("fake measuring code: c0de → beef",)
    assert [row["setups"] for row in stores[1].query("SELECT COUNT(*) AS setups FROM setup")] == [2]


def test_records_from_before_these_facts_are_compared_by_what_they_have(stores: tuple[Store, Store]) -> None:
    for store in stores:
        fill(store, {CELL: {"shares": (100,)}})
    for path in stores[0].folder.glob("runs/*/run.json"):
        known = json.loads(path.read_bytes())
        older = {name: known[name] for name in known if name not in ("shares", "data_checksum", "code")}
        path.write_text(json.dumps(older))
        (path.parent / "job.json").unlink()
    (stores[0].folder / "index.sqlite").unlink()
    found = compared(stores).differences
    assert "fake shares: unknown → 100" in found
    assert not any(word in line for line in found for word in ("data:", "measuring code", "machine"))
