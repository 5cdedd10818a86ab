"""An error of Paceline's own makes one run fail, with its traceback kept; the plan goes on, and nothing is left."""

from __future__ import annotations

import errno
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from paceline.bundles.exporting import export_bundle
from paceline.bundles.importing import import_bundle
from paceline.bundles.selection import BundleRequest
from paceline.plan.planning import Run, make_plan
from paceline.plan.suite import make_suite
from paceline.report.server.run_page import one_run
from paceline.run import internal_errors
from paceline.run.external.command_line import TimeOptions
from paceline.run.external.command_line import make_plan as plan_of_commands
from paceline.run.launchers import LaunchCommand
from paceline.run.progress import WARM_UP, Display
from paceline.run.session import RunTools, execute
from paceline.run.worker import Worker
from paceline.store.records.events import AnyEvent
from paceline.store.store import Store, new_id
from paceline.studies.replay.rerun import replay
from paceline.system import processes
from paceline.system.machine.hardware import this_machine
from paceline.system.paths import environments_folder
from paceline.system.processes import RUN_VARIABLE
from tests.factories.command_line import CommandLine

BUG = "a bug that nobody has thought of"


def fail(*_: object, **__: object) -> Any:
    raise LookupError(BUG)


def failing_once(name: str) -> Callable[..., Any]:
    """The function of this name, but for its first call."""
    real, calls = pkgutil.resolve_name(name), iter([True])
    return lambda *arguments, **named: fail() if next(calls, False) else real(*arguments, **named)


@pytest.fixture
def tools(tmp_path: Path) -> RunTools:
    return RunTools(Store(tmp_path / "store"), this_machine(), Display())


def planned(**choices: Any) -> tuple[Run, ...]:
    settings = {"workload": "cifar10-conv", "framework": "fake", "steps": 5, "warmup": 2, "batch_size": 8, **choices}
    return make_plan(make_suite({**settings, "repeats": 2}, "the test"), this_machine()).runs


def only_folder(store: Store) -> Path:
    (folder,) = (store.folder / "runs").iterdir()
    return folder


def marked(folder: Path) -> list[psutil.Process]:
    return processes.of_run(folder.name)


@pytest.mark.parametrize(
    "broken",
    [
        "paceline.run.session.measured_shares",
        "paceline.run.session.make_job",
        "paceline.run.launchers.held_port",
        "paceline.run.launchers.deploy",
        "paceline.run.launchers.commands",
        "paceline.run.session.code_hash",
        "paceline.run.monitor.Monitor.sample",
        "paceline.run.worker.Worker._start",
        "paceline.run.worker.Worker.follow",
        "paceline.system.processes.end_all",
        "paceline.run.worker.judge",
        "paceline.store.store.insert_run",
        "paceline.store.index.rows._memory",
        "paceline.run.progress.Display.begin",
        "paceline.run.progress.Display.show",
    ],
)
def test_internal_error_is_a_failure_with_its_traceback_kept(
    tools: RunTools, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setattr(broken, failing_once(broken))
    outcome = execute(planned()[0], tools)
    folder = only_folder(tools.store)
    assert (outcome.status, outcome.kind) == ("failed", "internal error")
    assert outcome.message == f"LookupError: {BUG}; its traceback is in {folder / internal_errors.FILE}"
    kept = (folder / internal_errors.FILE).read_text()
    assert kept.startswith("Traceback")
    assert kept.endswith(f"LookupError: {BUG}\n")
    assert marked(folder) == []
    (row,) = tools.store.query("SELECT * FROM run")
    assert (row["status"], row["kind"]) == ("failed", "internal error")


def test_run_that_the_index_can_never_take_is_in_it_as_a_failure(
    tools: RunTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has left is what the error comes from, so `paceline index` must not meet it again."""
    monkeypatch.setattr("paceline.store.index.rows._memory", fail)
    assert execute(planned()[0], tools).kind == "internal error"
    assert tools.store.rebuild() == 1


def test_run_is_stored_even_if_its_end_cannot_be_shown(tools: RunTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Display, "end", fail)
    assert execute(planned()[0], tools).status == "ok"
    assert BUG in (only_folder(tools.store) / internal_errors.FILE).read_text()
    assert tools.store.query("SELECT status FROM run")[0]["status"] == "ok"


@pytest.mark.parametrize("kind", [LookupError, OSError])
def test_run_does_not_depend_on_those_who_watch(tools: RunTools, kind: type[Exception]) -> None:
    def cannot(run: str) -> None:
        raise kind(BUG)

    assert execute(planned()[0], replace(tools, note_run=cannot)).status == "ok"
    assert BUG in (only_folder(tools.store) / internal_errors.FILE).read_text()


def test_run_that_puts_something_else_in_place_of_its_events_has_failed(
    tools: RunTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Worker.follow

    def followed(worker: Worker) -> Iterator[AnyEvent]:
        yield from real(worker)
        worker.files[0].path.unlink()
        os.mkfifo(worker.files[0].path)
        yield from worker.files[0].read_on()

    monkeypatch.setattr(Worker, "follow", followed)
    outcome = execute(planned()[0], tools)
    assert (outcome.status, outcome.kind) == ("failed", "internal error")
    assert "events-0.jsonl is a pipe, not a plain file" in (outcome.message or "")
    assert tools.store.rebuild() == 1


def test_run_that_failed_before_it_had_a_job_goes_along_to_another_machine(
    tools: RunTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.run.session.make_job", fail)
    execute(planned()[0], tools)
    export_bundle(tools.store, BundleRequest(runs=(only_folder(tools.store).name,)), tmp_path / "bundle.zip")
    there = Store(tmp_path / "elsewhere")
    import_bundle(tmp_path / "bundle.zip", there)
    assert [row["kind"] for row in there.query("SELECT kind FROM run")] == ["internal error"]


@pytest.mark.parametrize("cut_off", [KeyboardInterrupt, SystemExit])
def test_run_that_the_user_cuts_off_leaves_nothing(
    tools: RunTools, monkeypatch: pytest.MonkeyPatch, cut_off: type[BaseException]
) -> None:
    def interrupt(*_: object) -> None:
        raise cut_off

    monkeypatch.setattr(Display, "show", interrupt)
    with pytest.raises(cut_off):
        execute(planned()[0], tools)
    assert list((tools.store.folder / "runs").iterdir()) == []


def test_full_disk_is_told_to_the_user_and_leaves_nothing(tools: RunTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be kept there, and every further run would fail likewise."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("paceline.store.store.Store.finish_run", full)
    with pytest.raises(OSError, match="No space left"):
        execute(planned()[0], tools)
    assert list((tools.store.folder / "runs").iterdir()) == []


def test_good_run_keeps_its_outcome_though_a_process_of_it_cannot_be_ended(
    tools: RunTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = processes.end_all
    monkeypatch.setattr("paceline.system.processes.end_all", lambda *given, **named: (*real(*given, **named), 4711))
    outcome = execute(planned()[0], tools)
    told = "process 4711 could not be ended and may disturb what is measured next"
    assert (outcome.status, outcome.remarks) == ("ok", (told,))
    assert tools.store.query("SELECT remarks FROM run")[0]["remarks"] == f'["{told}"]'


def test_process_that_does_not_go_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck:
        """As one that waits in the kernel for a disk or a card."""

        pid = 4711

        def kill(self) -> None: ...

    monkeypatch.setattr("paceline.system.processes.of_run", lambda run_id: [Stuck()])
    assert processes.end_all("run", lambda: None, 0.1) == (4711,)
    assert processes.still_there((1, 2)).startswith("processes 1, 2 could not be ended")


def test_command_that_cannot_be_started_ends_those_that_were(tmp_path: Path) -> None:
    mark = {RUN_VARIABLE: tmp_path.name}
    commands = [
        LaunchCommand((sys.executable, "-c", "import time; time.sleep(60)"), mark),
        LaunchCommand(("/no/python",), mark),
    ]
    with pytest.raises(FileNotFoundError), Worker(commands, tmp_path, 2, 60.0):
        pass
    assert marked(tmp_path) == []


def command_run(tools: RunTools) -> Run:
    wishes = TimeOptions(repeats=1, warmup_runs=0, timeout=60.0)
    (run,) = plan_of_commands(["true"], wishes, new_id(), tools.machine).runs
    return run


@pytest.mark.parametrize("broken", ["paceline.run.session.code_of", "paceline.run.session.CommandProcesses"])
def test_command_that_could_not_even_be_started_is_a_failure(
    tools: RunTools, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setattr(broken, fail)
    assert execute(command_run(tools), tools).kind == "internal error"
    assert BUG in (only_folder(tools.store) / internal_errors.FILE).read_text()


@pytest.mark.parametrize("keep", [True, False])
def test_internal_error_beside_a_command_is_kept_as_well(
    tools: RunTools, monkeypatch: pytest.MonkeyPatch, *, keep: bool
) -> None:
    """Also of a run that only warms up and would be forgotten."""
    monkeypatch.setattr("paceline.run.external.process.usage_of", fail)
    run = command_run(tools)
    outcome = execute(run if keep else replace(run, key=WARM_UP), tools)
    assert (outcome.status, outcome.kind, outcome.phase) == ("failed", "internal error", "command")
    assert BUG in (only_folder(tools.store) / internal_errors.FILE).read_text()
    assert tools.store.query("SELECT kind FROM run")[0]["kind"] == "internal error"


def test_internal_error_of_a_replay_is_kept_as_well(
    tools: RunTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_ENVIRONMENTS", str(environments_folder()))
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    execute(planned()[0], tools)
    original = only_folder(tools.store).name
    monkeypatch.setattr("paceline.run.worker.judge", fail)
    replay(original, 1, tools.store)
    (row,) = tools.store.query("SELECT * FROM run WHERE id != ?", original)
    assert (row["kind"], row["phase"]) == ("internal error", "finish")
    assert (tools.store.folder / "runs" / row["id"] / internal_errors.FILE).exists()


SABOTAGED = """
from paceline.run import worker
real, calls = worker.judge, iter([True])
def judge(*given, **named):
    if next(calls, False):
        raise LookupError("a bug that nobody has thought of")
    return real(*given, **named)
worker.judge = judge
from paceline.cli import main
main()
"""


@pytest.mark.slow
def test_line_of_an_internal_error_names_its_traceback(paceline: CommandLine) -> None:
    flags = ("--steps", "5", "--warmup", "2", "--batch-size", "8", "--repeats", "2", "--store", str(paceline.store))
    command = [sys.executable, "-c", SABOTAGED, "run", "cifar10-conv", "--framework", "fake", *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    (kept,) = paceline.store.glob(f"runs/*/{internal_errors.FILE}")
    assert f"failed in finish: internal error: LookupError: {BUG}; its traceback is in {kept}" in ended.stderr
    assert f"1 of 2 runs: internal error in finish: LookupError: {BUG}" in " ".join(ended.stdout.split())
    (row,) = paceline.rows()
    assert (row["status"], row["repeats"]) == ("failed", 1)


def test_traceback_is_shown_and_goes_along_to_another_machine(
    tools: RunTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.run.worker.judge", fail)
    execute(planned()[0], tools)
    name = only_folder(tools.store).name
    export_bundle(tools.store, BundleRequest(runs=(name,)), tmp_path / "bundle.zip")
    there = Store(tmp_path / "elsewhere")
    import_bundle(tmp_path / "bundle.zip", there)
    for store in (tools.store, there):
        run = one_run(store, name)
        assert run is not None
        assert run.cause.startswith("internal error in finish: LookupError")
        assert run.traceback.endswith(f"LookupError: {BUG}")
