"""`--machine-name`: each command that has the flag calls this machine so in all that it leaves or looks up."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path

import pytest

from paceline.bundles.exporting import export_bundle
from paceline.cli import bundles, checking, measuring
from paceline.store.store import Store
from paceline.system.machine.hardware import Machine, this_machine
from paceline.system.machine.identity import VARIABLE
from tests.bundles.made import ALL, FIRST, SECOND, of_machine, save
from tests.factories.command_line import CommandLine
from tests.factories.runs import CELL, save_plan

NAME = ("--machine-name", "node-2")
FAKE = ("cifar10-conv", "--framework", "fake", "--steps", "4", "--warmup", "0", "--batch-size", "8")
LEAVING_RUNS = {  # what each is told besides
    "run": (*FAKE, "--repeats", "1"),
    "explain": (*FAKE, "--devices", "2xcpu", "--rounds", "2"),
    "time": ("--repeats", "1", "true"),
    "replay": ("node-1's",),
}
LEAVING_NO_RUNS = ("plan", "verify", "import")  # each has a test of its own


def test_no_command_with_the_flag_goes_untested() -> None:
    functions = [function for room in (measuring, checking, bundles) for function in vars(room).values()]
    found = {
        function.__name__.rstrip("_")
        for function in functions
        if inspect.isfunction(function) and "machine_name" in inspect.signature(function).parameters
    }
    assert found == {*LEAVING_RUNS, *LEAVING_NO_RUNS}


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of this machine under its first name; each test has a copy."""
    store = tmp_path_factory.mktemp("named") / "store"
    ran = CommandLine(store)("run", *LEAVING_RUNS["run"], "--machine-name", "node-1")
    assert ran.returncode == 0, ran.stderr
    return store


@pytest.fixture
def measured(once: Path, paceline: CommandLine) -> CommandLine:
    shutil.copytree(once, paceline.store)
    return paceline


def names(store: Path) -> dict[str, str]:
    """What each run calls its machine."""
    paths = store.glob("runs/*/run.json")
    return {path.parent.name: json.loads(path.read_bytes())["machine"]["identity"] for path in paths}


@pytest.mark.slow
@pytest.mark.parametrize("command", LEAVING_RUNS)
def test_runs_are_of_the_machine_that_is_named(measured: CommandLine, command: str) -> None:
    (old,) = names(measured.store)
    words = [old if word == "node-1's" else word for word in LEAVING_RUNS[command]]
    ended = measured(command, *NAME, *words)
    assert ended.returncode == 0, ended.stderr
    assert names(measured.store)[old] == "name:node-1"
    new = {name for run, name in names(measured.store).items() if run != old}
    assert new == {"name:node-2"}  # by its name it is another machine, so that nothing of node-1 counted as done


@pytest.mark.slow
def test_plan_counts_what_the_named_machine_has_done(measured: CommandLine) -> None:
    shown = {
        name: measured("plan", *FAKE, "--repeats", "1", "--machine-name", name).stdout for name in ("node-1", "node-2")
    }
    assert "1 runs, 0 to do" in shown["node-1"]
    assert "1 runs, 1 to do" in shown["node-2"]


@pytest.mark.slow
def test_verdict_is_of_the_machine_that_is_named(paceline: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = paceline("verify", "mnist-mlp", "--framework", "fake", "--batch-size", "6", *NAME)
    (kept,) = paceline.store.glob("verified/*.json")
    assert ended.returncode in (0, 2), ended.stderr  # the fake computes nothing
    assert json.loads(kept.read_bytes())["machine"] == named(monkeypatch, "node-2").id


def named(monkeypatch: pytest.MonkeyPatch, name: str) -> Machine:
    """This machine as it is under a name."""
    with monkeypatch.context() as patched:
        patched.setenv(VARIABLE, name)
        return this_machine()


def test_import_knows_the_runs_of_the_machine_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows a key could else put a faster run of ours before the one that we measured."""
    here, forged = Store(tmp_path / "here"), Store(tmp_path / "forged")
    for store, run_id in ((here, FIRST), (forged, SECOND)):
        save_plan(store, {CELL: ["one"]})
        save(store, of_machine(run_id, "one", named(monkeypatch, "node-2")))
    export_bundle(forged, ALL, tmp_path / "bundle.zip")
    refused = CommandLine(here.folder)("import", str(tmp_path / "bundle.zip"), *NAME)
    assert refused.returncode == 1
    assert f"run {SECOND} says that this machine measured what it has as run {FIRST}" in refused.stderr
