"""A store from before keys left out defaults goes on where it was, as long as the same thing would be measured."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from paceline.analysis.rows.table_rows import table_rows
from paceline.environments.older_code_hashes import SAME_TRAINING, older_code_hash, same_code
from paceline.environments.worker_code import code_hash
from paceline.plan.cell import Cell
from paceline.plan.pilots import pilots
from paceline.plan.planning import Plan, make_plan
from paceline.plan.run_keys import run_key
from paceline.plan.settings import Suite
from paceline.plan.suite import make_suite
from paceline.run.older_keys import FIELDS, older_ablation_key, older_run_key, with_older_results
from paceline.run.plan_runner import pending
from paceline.run.progress import ProgressDisplay
from paceline.run.session import RunTools, measured_shares
from paceline.store.index.file import INDEX_FILE
from paceline.store.records.runs import RunRecord
from paceline.store.store import Store
from paceline.studies.scaling.ablations import make_ablations
from paceline.studies.scaling.explain import rounds_of
from paceline.system.machine.hardware import this_machine
from tests.factories.command_line import CommandLine
from tests.factories.machines import machine
from tests.factories.runs import FAILED, OK, on_devices, record, save_run, trained

OLDER = Path(__file__).parents[1] / "end_to_end" / "older_results"


def planned(**choices: Any) -> Plan:
    given = {"workload": "cifar10-conv", "framework": "fake", "steps": 20, "repeats": 2, **choices}
    return make_plan(make_suite(given, "the test"), this_machine())


def test_setting_that_came_later_has_no_older_key_once_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = planned(repeats=1).cells
    grown: Any = msgspec.defstruct("Cell", [("clipped", float, 0.0)], bases=(Cell,), frozen=True, kw_only=True)
    settings = msgspec.structs.asdict(cell)
    monkeypatch.setattr("paceline.run.older_keys.FIELDS", {**FIELDS, grown: FIELDS[Cell]})
    assert older_run_key(grown(**settings), 0, machine()) == older_run_key(cell, 0, machine())
    assert older_run_key(grown(**settings, clipped=1.0), 0, machine()) == ""


@pytest.mark.parametrize("framework", SAME_TRAINING)
def test_line_about_code_that_has_changed_since_is_deleted(framework: str) -> None:
    assert SAME_TRAINING[framework][0] == code_hash(framework)


def test_code_that_measures_something_else_has_no_older_hash() -> None:
    assert older_code_hash("neon") == ""
    (cell,) = planned(repeats=1).cells
    assert older_run_key(msgspec.structs.replace(cell, framework="neon"), 0, this_machine()) == ""


def test_real_results_of_then_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys in their records, made by that version itself, are those that are looked for."""
    with tarfile.open(OLDER / "results.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setattr("paceline.environments.virtual_environments.brought", lambda framework: None)
    records = [path.read_bytes() for path in tmp_path.glob("*/runs/*/run.json")]
    runs = [
        run for run in map(msgspec.json.Decoder(RunRecord).decode, records) if run.cell.framework in ("torch", "jax")
    ]
    assert len(runs) == 14
    assert [older_run_key(run.cell, run.repeat, run.machine) for run in runs] == [run.key for run in runs]


@pytest.mark.parametrize("framework", ["fake", "fake+fail"])
def test_verdicts_and_runs_of_both_rules_speak_of_the_same_code(framework: str) -> None:
    now, then = code_hash("fake"), older_code_hash("fake")
    assert now != then
    for one, other in ((now, then), (then, now), (now, now), ("c0de", "c0de")):
        assert same_code(framework, one, other)
    for one, other in ((now, "c0de"), ("c0de", then), (now, older_code_hash("reference")), ("", then)):
        assert not same_code(framework, one, other)
    assert not same_code("of a plug-in that is gone", now, then)


def store_of_then(folder: Path, plan: Plan, statuses: tuple[str, ...] = ("ok", "ok")) -> Store:
    """Every run of the plan under its older key."""
    store = Store(folder)
    for position, (run, status) in enumerate(zip(plan.runs, statuses, strict=True)):
        key = older_run_key(run.cell, run.repeat, this_machine())
        made = record(f"20250101-00000{position}-aaaaaa", key, run.cell, repeat=run.repeat)
        save_run(store, made, [trained(100, 1.0)], OK if status == "ok" else FAILED)
    return store


def test_what_is_stored_under_older_keys_is_not_measured_again(tmp_path: Path) -> None:
    plan = planned()
    store = store_of_then(tmp_path, plan)
    assert len(pending(plan, store, "ok")) == 2
    found = with_older_results(plan, store, "ok")
    assert pending(found, store, "ok") == []
    (row,) = table_rows(store, {"plan": store.save_plan(found, "paceline run")})
    assert len(row.runs) == 2


def test_older_results_count_as_the_flags_say(tmp_path: Path) -> None:
    plan = planned()
    store = store_of_then(tmp_path, plan, ("ok", "failed"))
    plans = {older: with_older_results(plan, store, older) for older in ("none", "ok", "all")}
    left = {older: len(pending(found, store, older)) for older, found in plans.items()}
    assert left == {"none": 2, "ok": 1, "all": 0}


def test_older_results_of_something_else_do_not_count(tmp_path: Path) -> None:
    plan = planned()
    store = store_of_then(tmp_path, plan)
    for other in (planned(steps=21), planned(batch_size=32), planned(data="fake:host"), planned(lr=0.5)):
        assert len(pending(with_older_results(other, store, "ok"), store, "ok")) == 2


def test_result_of_today_goes_before_an_older_one(tmp_path: Path) -> None:
    plan = planned()
    store = store_of_then(tmp_path, plan)
    (first, _) = sorted(plan.runs, key=lambda run: run.repeat)
    save_run(store, record("20250102-000001-aaaaaa", first.key, first.cell), [trained(100, 1.0)])
    keys = {run.repeat: run.key for run in with_older_results(plan, store, "ok").runs}
    assert keys == {0: first.key, 1: older_run_key(first.cell, 1, this_machine())}


def test_devices_that_were_tried_then_need_no_second_try(tmp_path: Path) -> None:
    plan = planned(devices="2xcpu", shares="measured", batch_size=64, repeats=1, cores_per_device=1)
    store = Store(tmp_path)
    tools = RunTools(store, this_machine(), ProgressDisplay(Console(), [], store.seconds_of))
    for index, pilot in enumerate(pilots(plan.cells[0])):
        for repeat in range(3):
            made = record(f"{index}-{repeat}", older_run_key(pilot, repeat, this_machine()), pilot, repeat=repeat)
            save_run(store, made, [trained(300 if index else 100, 1.0)])
    assert measured_shares(plan.runs[-1], tools) == (16, 48)


def test_ablations_that_were_measured_then_are_found() -> None:
    ablations = make_ablations(on_devices(2))
    suite = Suite(name="", workload=("cifar10-conv",))
    keys = {
        older_ablation_key(older_run_key(ablations.whole, 0, machine()), older_run_key(cell, 0, machine()))
        for cell in ablations.cells()
    }
    ((*first,),) = rounds_of(ablations, 1, suite, machine(), keys)
    assert {run.key for run in first} == keys
    ((*fresh,),) = rounds_of(ablations, 1, suite, machine())
    assert keys.isdisjoint(run.key for run in fresh)


@pytest.mark.slow
def test_run_of_a_store_of_then_goes_on_where_it_was(paceline: CommandLine) -> None:
    """Real runs, whose records are given the keys that they would have had."""
    words = ("run", "cifar10-conv", "--framework", "fake", "--steps", "20", "--warmup", "4", "--repeats", "2")
    assert paceline(*words).returncode == 0
    for path in paceline.store.glob("runs/*/run.json"):
        told = json.loads(path.read_text())
        cell = msgspec.convert(told["cell"], Cell)
        assert told["key"] == run_key(cell, told["repeat"], this_machine())
        path.write_text(json.dumps({**told, "key": older_run_key(cell, told["repeat"], this_machine())}))
    (paceline.store / INDEX_FILE).unlink()
    (plan,) = paceline.store.glob("plans/*.json")
    plan.unlink()
    again = paceline(*words)
    assert "2 of 2 runs are done already" in again.stderr
    assert len(paceline.outcomes()) == 2
    assert len(paceline.rows()[0]["runs"]) == 2
