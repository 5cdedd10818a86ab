"""`paceline replay`: the same job from its record, next to what was recorded."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.analysis.comparison.differences import NOTHING_ELSE, RunPair, differences
from paceline.bundles.exporting import export_bundle
from paceline.bundles.importing import import_bundle
from paceline.bundles.selection import BundleRequest
from paceline.plan.planning import Run, make_job
from paceline.store.index.setups import setup_of
from paceline.store.records.events import AnyEvent
from paceline.store.store import Store
from paceline.studies.replay.rerun import RecordedRun, cores_here, replay, timeout_of
from paceline.studies.replay.results import compare_losses, compare_runs, rounding
from paceline.system.errors import UserError
from tests.bundles.made import elsewhere
from tests.factories.command_line import CommandLine
from tests.factories.events import block, entered, evaluated, finished
from tests.factories.machines import machine
from tests.factories.runs import CELL, cell, on_devices, record, save_plan, save_run

SHORT = ("--framework", "fake", "--steps", "20", "--warmup", "2")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one cell of two runs; each test has a copy."""
    store = tmp_path_factory.mktemp("once") / "store"
    ran = CommandLine(store)("run", "cifar10-conv", *SHORT, "--repeats", "2", "--seed", "7")
    assert ran.returncode == 0, ran.stderr
    return store


@pytest.fixture
def measured(once: Path, paceline: CommandLine) -> CommandLine:
    shutil.copytree(once, paceline.store)
    return paceline


def runs(store: CommandLine) -> list[Path]:
    return sorted(path.parent for path in store.outcomes())


def job(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "job.json").read_bytes())
    return found


@pytest.mark.slow
def test_run_is_repeated_from_its_record_and_compared(measured: CommandLine) -> None:
    old = runs(measured)[1]
    changed = job(old)
    changed["recipe"]["momentum"] = 0.123  # no default of today
    (old / "job.json").write_text(json.dumps(changed))
    before = measured.rows()
    again = measured("replay", old.name)
    assert again.returncode == 0, again.stderr
    new = runs(measured)[2]
    assert job(new) == changed
    assert f"cifar10-conv fake 1xcpu fake:device batch 128: run {old.name} and again as run {new.name}" in again.stdout
    assert "cannot tell: a single run each" in again.stdout
    assert "the losses of all 20 steps are equal, bit by bit" in again.stdout
    assert NOTHING_ELSE in " ".join(again.stdout.split())
    plans = sorted(measured.store.glob("plans/*.json"))
    assert json.loads(plans[1].read_bytes())["suite"] == "replay"
    assert {run_id for row in measured.rows("--suite", "replay") for run_id in row["runs"]} == {new.name}
    assert before == measured.rows() == measured.rows("--workload", "cifar10-conv")  # it hides nothing
    assert newest_of_key(measured, old) == old.name  # the old table keeps its own run


def newest_of_key(store: CommandLine, folder: Path) -> str:
    found = Store(store.store).newest(json.loads((folder / "run.json").read_bytes())["key"])
    assert found is not None
    return str(found["id"])


@pytest.mark.slow
def test_several_repeats_are_held_against_all_runs_of_the_cell(measured: CommandLine) -> None:
    again = measured("replay", runs(measured)[0].name, "--repeats", "3", "--format", "json")
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    assert (len(found["old_runs"]), len(found["new_runs"])) == (2, 3)
    assert sorted(job(folder)["seed"] for folder in runs(measured)[2:]) == [7, 8, 9]
    (speed,) = [line for line in found["lines"] if line["name"] == "images/s"]
    assert speed["verdict"] == "cannot tell"
    assert speed["reason"] == "the interval includes 1"
    assert speed["ratio"]["low"] <= speed["ratio"]["median"] <= speed["ratio"]["high"]


@pytest.mark.slow
def test_other_runs_of_the_cell_are_those_of_the_same_plan(measured: CommandLine) -> None:
    old = [folder.name for folder in runs(measured)]
    ran = measured("run", "cifar10-conv", *SHORT, "--repeats", "2", "--seed", "7", "--again")
    assert ran.returncode == 0, ran.stderr
    newer = [folder.name for folder in runs(measured)[2:]]
    store = Store(measured.store)
    assert set(replay(old[0], 2, store).old_runs) == set(old)
    assert set(replay(newer[0], 2, store).old_runs) == set(newer)


@pytest.mark.slow
def test_replayed_run_that_fails_is_told_with_its_cause(paceline: CommandLine) -> None:
    flags = ("--framework", "fake+fail", "--steps", "20", "--warmup", "2", "--repeats", "1")
    assert paceline("run", "cifar10-conv", *flags).returncode == 2
    again = paceline("replay", runs(paceline)[0].name)
    assert again.returncode == 2
    new = runs(paceline)[1].name
    cause = "error in train: RuntimeError: the fake framework was told to fail"
    said = " ".join(again.stdout.split())
    assert f"new: {new} failed: {cause} (paceline log {new})" in said, again.stdout


@pytest.mark.slow
def test_command_is_measured_again(paceline: CommandLine, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('Speed: 50')"]
    words = paceline.arguments("time", "--repeats", "1", "--name", "mine", "--metric", "images/s=Speed: ([0-9]+)")
    subprocess.run([*words, "--", *command], check=True, capture_output=True, cwd=tmp_path)
    again = paceline("replay", runs(paceline)[0].name, "--format", "json")
    assert again.returncode == 0, again.stderr
    lines = {line["name"]: line for line in json.loads(again.stdout)["lines"]}
    assert (lines["images/s"]["old"], lines["images/s"]["new"]) == ([50.0], [50.0])
    assert {"s", "user s", "sys s", "MiB"} <= lines.keys()
    assert len(paceline.outcomes()) == 2


@pytest.mark.slow
def test_command_from_elsewhere_is_not_run_without_a_word(paceline: CommandLine, tmp_path: Path) -> None:
    mark, other = tmp_path / "mark", CommandLine(tmp_path / "other")
    words = paceline.arguments("time", "--repeats", "1", "--name", "mine")
    subprocess.run([*words, "--", "touch", str(mark)], check=True, capture_output=True, cwd=tmp_path)
    mark.unlink()
    export_bundle(Store(paceline.store), BundleRequest(), tmp_path / "bundle.zip")
    import_bundle(tmp_path / "bundle.zip", Store(other.store))
    run = runs(other)[0].name
    refused = other("replay", run)
    assert (refused.returncode, mark.exists()) == (1, False)
    what = f"Run {run} is a command from elsewhere; read it and add --trust to run it here in {tmp_path}: touch {mark}"
    assert refused.stderr == f"paceline: {what}\n"
    assert other("replay", run, "--trust").returncode == 0
    assert mark.exists()


def moved(measured: CommandLine, folder: Path) -> Store:
    """The first run as it comes into another store."""
    export_bundle(Store(measured.store), BundleRequest(runs=[runs(measured)[0].name]), folder / "bundle.zip")
    store = Store(folder / "other")
    import_bundle(folder / "bundle.zip", store)
    return store


def test_job_from_elsewhere_that_paceline_would_make_itself_needs_no_trust(
    measured: CommandLine, tmp_path: Path
) -> None:
    store, run = moved(measured, tmp_path), runs(measured)[0].name
    assert replay(run, 1, store).new_failures == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"graph": {"nodes": []}}, "graph"),
        ({"block_steps": 10**9, "patience_seconds": float("inf")}, "block_steps, patience_seconds"),
        ({"task": "probe", "given": "/etc/passwd"}, "given, task"),
    ],
)
def test_job_from_elsewhere_that_paceline_would_not_make_is_not_run_without_a_word(
    measured: CommandLine, tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    store, run = moved(measured, tmp_path), runs(measured)[0].name
    path = store.folder / "runs" / run / "job.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))
    reason = f"differs from what Paceline makes of its cell in {told}; read {path} and add --trust to run it here."
    with pytest.raises(UserError, match=re.escape(reason)):
        replay(run, 1, store)
    assert len(list(store.folder.glob("runs/*"))) == 1


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"recipe": {"drops": [[1]], "decayed": []}}', '{"recipe": 1}', "[" * 5000]
)
def test_job_that_cannot_be_read_is_made_anew(tmp_path: Path, text: str) -> None:
    of = record("20250101-000001-aaaaaa", "one")
    (tmp_path / "job.json").write_text(text)
    assert RecordedRun(tmp_path, of).job == make_job(Run(of.cell, 0, "one", 1800.0))


def test_cell_that_makes_no_job_is_one_line(tmp_path: Path) -> None:
    of = record("20250101-000001-aaaaaa", "one", on_devices(2, shares="a:b"))
    with pytest.raises(UserError, match="Cannot replay run 20250101-000001-aaaaaa: its cell makes no job: could not"):
        RecordedRun(tmp_path, of).remade_job(60.0)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (60, 60.0),
        (604800.0, 604800.0),
        (604801, 1800.0),
        (0, 1800.0),
        (-1, 1800.0),
        (float("nan"), 1800.0),
        (float("inf"), 1800.0),
        ("nan", 1800.0),
        ("abc", 1800.0),
        ({}, 1800.0),
        (None, 1800.0),
    ],
)
def test_timeout_is_that_of_the_plan_if_a_run_can_have_it(tmp_path: Path, told: Any, seconds: float) -> None:
    store = Store(tmp_path)
    save_plan(store, {CELL: ["one"]})
    (path,) = tmp_path.glob("plans/*.json")
    plan = json.loads(path.read_bytes())
    plan["settings"]["timeout"] = told
    path.write_text(json.dumps(plan))
    assert timeout_of(store, record("20250101-000001-aaaaaa", "one")) == seconds


@pytest.mark.slow
def test_framework_that_is_not_installed_is_one_line(measured: CommandLine, tmp_path: Path) -> None:
    words = measured.arguments("replay", runs(measured)[0].name)
    environment = {**os.environ, "PACELINE_ENVIRONMENTS": str(tmp_path / "bare")}
    ended = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 1
    assert ended.stderr == "paceline: fake is not installed; `paceline install fake` installs it.\n"
    assert len(measured.outcomes()) == 2


def test_devices_that_are_not_here_are_one_line(measured: CommandLine) -> None:
    folder = runs(measured)[0]
    found = json.loads((folder / "run.json").read_bytes())
    found["cell"]["devices"] = "cuda:99"
    (folder / "run.json").write_text(json.dumps(found))
    with pytest.raises(UserError, match="There is no cuda:99 for the device set 'cuda:99'; this machine has"):
        replay(folder.name, 1, Store(measured.store))
    assert len(list(measured.store.glob("plans/*"))) == 1


def test_what_cannot_be_replayed_is_refused(measured: CommandLine) -> None:
    store, folder = Store(measured.store), runs(measured)[0]
    with pytest.raises(UserError, match="No run is named 'zzz'; the newest are "):
        replay("zzz", 1, store)
    with pytest.raises(UserError, match="--repeats is a whole number from 1 to 1,000"):
        replay(folder.name, 0, store)
    (folder / "outcome.json").unlink()
    with pytest.raises(UserError, match="has not come to an end, so there is nothing to compare with"):
        replay(folder.name, 1, store)


def test_cores_of_another_machine_become_as_many_of_this_one() -> None:
    assert cores_here(on_devices(2), machine(cores=4)) == ((0,), (1,))
    assert cores_here(cell(cores=((6, 7), (8, 9))), machine(cores=4)) == ((0, 1), (2, 3))
    assert cores_here(cell(cores=((8,), (9,), (8,))), machine(cores=2)) == ((0,), (1,), (0,))  # as shared as they were
    with pytest.raises(UserError, match="It ran on 4 cores, and this machine has 2"):
        cores_here(on_devices(4), machine(cores=2))


def test_losses_are_compared_bit_by_bit() -> None:
    assert compare_losses({0: [1.0, 0.5]}, {0: [1.0, 0.5]}, "") == (
        True,
        "the losses of all 2 steps are equal, bit by bit",
    )
    equal, said = compare_losses({0: [1.0, 0.5]}, {0: [1.0, 0.5000000001]}, "odd")
    assert (equal, said) == (False, "the losses differ from step 2 on, 0.5 → 0.5000000001: odd")
    assert compare_losses({0: [1.0]}, {0: [0.9]}, "odd")[1].endswith(
        ": more than rounding explains, so that it is not the same training"
    )
    assert compare_losses({0: [1.0]}, {0: [1.0, 0.5]}, "odd")[0] is False
    assert compare_losses({}, {0: [1.0]}, "") == (None, "")


def test_small_differences_of_losses_are_explained_by_what_is_known() -> None:
    one = record("20250101-000001-aaaaaa", "one")
    two = record("20250101-000001-aaaaaa", "one", on_devices(2))
    assert rounding(one, []).startswith("they should be equal: one device with one core")
    assert rounding(one, ["Python: 3.11 → 3.12"]) == "rounding, which what differs below may change"
    assert rounding(two, []).endswith("add up in no fixed order")


def test_what_else_differs_is_listed(tmp_path: Path) -> None:
    old = msgspec.structs.replace(
        record("20250101-000001-aaaaaa", "one"), environment={"OMP_NUM_THREADS": "1", "PACELINE_RUN": "a"}
    )
    new = msgspec.structs.replace(
        old,
        machine=elsewhere(),
        framework_version="2.5.0",
        packages={"numpy": "2.5.0", "scipy": "1.0"},
        environment={"OMP_NUM_THREADS": "2", "PACELINE_RUN": "b"},
        cell=msgspec.structs.replace(CELL, cores=((3,),)),
    )
    one, other = ([setup_of(record, tmp_path)] for record in (old, new))
    assert list(differences([RunPair("", one, one)])) == []
    assert list(differences([RunPair("", one, other)])) == [
        f"machine: {machine().id} → {elsewhere().id}",
        "host: bench → elsewhere",
        "cores: 0 → 3",
        "version: 2.4.6 → 2.5.0",
        "packages: numpy 2.4.6 → 2.5.0, scipy none → 1.0",
        "variables: OMP_NUM_THREADS 1 → 2",
    ]


@pytest.mark.parametrize("runs", [1, 4])
def test_accuracies_of_guesses_are_not_compared(tmp_path: Path, runs: int) -> None:
    store = Store(tmp_path / "results")
    ids = {right: [f"run-{right + repeat}" for repeat in range(runs)] for right in (104, 128)}
    for right, names in ids.items():
        for repeat, name in enumerate(names):
            done: list[AnyEvent] = [
                entered("start"),
                block("train", 1.0, 100),
                evaluated(1000, 1.0, correct=right + repeat),
                finished(),
            ]
            save_run(store, record(name, name), [done])
    found = {line.name: line for line in compare_runs(store, ids[104], ids[128]).lines}
    said = "a test accuracy below 0.15 tells little: guessing gets 0.1"
    assert (found["test accuracy"].verdict, found["test accuracy"].reason) == ("cannot tell", said)
    assert found["test accuracy"].ratio is None
    assert found["images/s"].reason != said
