"""A run that fails is a result with its cause; the rest goes on, and nothing is left behind."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from paceline.catalog.frameworks import all_frameworks, find
from paceline.environments.virtual_environments import hindrance
from paceline.run.launchers import LaunchCommand
from paceline.run.worker import Worker
from paceline.store.index.file import INDEX_FILE
from paceline.system import processes
from paceline.system.processes import RUN_VARIABLE
from paceline_worker.protocol import event_file
from tests.factories.command_line import CommandLine, send, wait_until
from tests.factories.events import entered, failed, finished, write

SHORT = ("--steps", "20", "--warmup", "2", "--repeats", "1")
LONG = ("--steps", "2000", "--warmup", "2", "--repeats", "1", "--batch-size", "512")  # 100 s, if nobody ends it


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "devices", "kind", "cause"),
    [
        ("fail", "1xcpu", "error", "RuntimeError: the fake framework was told to fail"),
        ("kill", "1xcpu", "crash", "killed by SIGKILL"),
        ("leave", "1xcpu", "crash", "ended with exit code 0 before it had finished"),
        ("babble", "1xcpu", "protocol", "not an event"),
        ("hang", "1xcpu", "timeout", "no end after 8 s"),
        ("lose", "3xcpu", "lost rank", "rank 2 (process"),
        ("stop", "2xcpu", "lost rank", "is stopped"),
    ],
)
def test_failure_is_a_result_with_its_cause(
    paceline: CommandLine, mode: str, devices: str, kind: str, cause: str
) -> None:
    flags = ("--devices", devices, "--batch-size", "48", "--timeout", "8" if mode == "hang" else "60")
    ended = paceline("run", "cifar10-conv", "--framework", f"fake+{mode},fake", *flags, *SHORT)

    assert ended.returncode == 2, ended.stderr
    failed, good = paceline.rows()
    assert good["status"] == "ok"  # the rest of the plan went on
    assert failed["status"] == "failed"
    assert failed["reason"].startswith(f"{kind} in {'finish' if mode == 'babble' else 'train'}: ")
    assert cause in failed["reason"]
    assert failed["images_per_second"] is None
    assert paceline.processes() == []
    assert f"paceline log {failed['failed_run']}" in ended.stdout


@pytest.mark.slow
def test_rubbish_on_the_output_does_no_harm(paceline: CommandLine) -> None:
    ended = paceline("run", "cifar10-conv", "--framework", "fake+shout", *SHORT)
    assert ended.returncode == 0, ended.stderr
    (row,) = paceline.rows()
    assert row["status"] == "ok"


@pytest.mark.slow
def test_log_holds_all_that_was_printed(paceline: CommandLine) -> None:
    paceline("run", "cifar10-conv", "--framework", "fake+fail", *SHORT)
    (row,) = paceline.rows()
    assert row["log_end"].endswith("RuntimeError: the fake framework was told to fail")
    shown = paceline("log", row["failed_run"][-6:])
    assert "Traceback" in shown.stdout
    assert "the fake framework was told to fail" in shown.stdout


@pytest.mark.slow
def test_memory_that_runs_out_under_a_limit_is_named(paceline: CommandLine) -> None:
    ended = paceline.apart("run", "cifar10-conv", "--framework", "fake+memory", *SHORT, limit_bytes=2**30)
    assert ended.returncode == 2, ended.stderr
    (row,) = paceline.rows()
    assert row["reason"].startswith("out of memory in train: ")


def training_pids(paceline: CommandLine) -> list[int]:
    """Processes of the ranks, once all of them train."""
    events = paceline.events()
    pids = [event["pid"] for event in events if "pid" in event]
    trains = [event for event in events if event["event"] == "phase" and event["phase"] == "train"]
    return pids if len(trains) == len(pids) else []


def test_worker_killed_from_outside(paceline: CommandLine) -> None:
    running = paceline.start("run", "cifar10-conv", "--framework", "fake", *LONG)
    wait_until(lambda: training_pids(paceline))
    send(training_pids(paceline)[0], signal.SIGKILL)
    running.communicate(timeout=30)
    assert running.returncode == 2
    (row,) = paceline.rows()
    assert row["reason"] == "crash in train: killed by SIGKILL"


@pytest.mark.slow
def test_finished_run_stays_when_the_index_cannot_take_it(paceline: CommandLine) -> None:
    flags = ("--steps", "100", "--warmup", "2", "--repeats", "1", "--batch-size", "512")
    running = paceline.start("run", "cifar10-conv", "--framework", "fake", *flags)
    wait_until(lambda: training_pids(paceline))
    (paceline.store / INDEX_FILE).write_bytes(b"no database" * 1000)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "`paceline index` makes it anew from the run folders" in said
    assert paceline("index").returncode == 0
    (row,) = paceline.rows()
    assert (row["status"], row["repeats"]) == ("ok", 1)


@pytest.mark.slow
def test_rank_stopped_from_outside(paceline: CommandLine) -> None:
    running = paceline.start("run", "cifar10-conv", "--framework", "fake", "--devices", "2xcpu", *LONG)
    wait_until(lambda: len(training_pids(paceline)) == 2)
    pid = training_pids(paceline)[1]
    send(pid, signal.SIGSTOP)
    running.communicate(timeout=30)
    assert running.returncode == 2
    (row,) = paceline.rows()
    assert row["reason"] == f"lost rank in train: rank 1 (process {pid}) is stopped"
    assert paceline.processes() == []


@pytest.mark.real
@pytest.mark.parametrize(
    "framework", [row.name for row in all_frameworks().values() if row.processes == "per device" and not row.hidden]
)
def test_killed_rank_of_four_ends_real_training_and_is_named(paceline: CommandLine, framework: str) -> None:
    """In every framework with a process for each device; those with one process for all have no rank to lose."""
    if reason := hindrance(find(framework).framework):
        pytest.skip(reason)
    flags = ("--devices", "4xcpu", "--cores-per-device", "1", "--batch-size", "64", "--steps", "100000")
    running = paceline.start("run", "cifar10-conv", "--framework", framework, *flags, "--repeats", "1")
    wait_until(lambda: len(training_pids(paceline)) == 4, seconds=120)
    victim = training_pids(paceline)[2]
    send(victim, signal.SIGKILL)
    running.communicate(timeout=120)  # of the ranks themselves, some would wait for half an hour
    assert running.returncode == 2
    (row,) = paceline.rows()
    # torchrun knows who was killed; on a busy machine it may be too slow to say it, and of those that it has ended some
    # may be gone at the same look: then all of them are named. neon's ranks are started directly, and seen to be gone.
    lost = rf"(rank \d \(process \d+\), )*rank 2 \(process {victim}\)(, rank 3 \(process \d+\))?"
    how = "(was killed by SIGKILL|(is|are) gone|ended without a word)"
    assert re.fullmatch(f"lost rank in train: {lost} {how}", row["reason"])
    assert paceline.processes() == []


def sleeping(folder: Path, *, seconds: float = 60.0) -> list[LaunchCommand]:
    """What a run is to the worker: a process with its mark."""
    code = f"import time; time.sleep({seconds})"
    return [LaunchCommand((sys.executable, "-c", code), {RUN_VARIABLE: folder.name})]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "trouble"),
    [
        ("build", None, "rank 1 has not joined the others after 1 s"),  # frameworks whose ranks meet later
        ("build", "start", "rank 1 has not joined the others after 1 s"),
        ("start", None, "rank 1 has not joined the others after 1 s"),  # those whose ranks meet while they start
        ("start", "start", "the ranks have not met after 1 s"),
    ],
)
def test_rank_that_never_joins_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str | None, trouble: str
) -> None:
    """Each of two has come to a phase, or done nothing at all, and goes no further."""
    monkeypatch.setattr("paceline.run.worker.GRACE_SECONDS", 0.0)
    for rank, phase in enumerate((first, second)):
        if phase:
            write(event_file(tmp_path, rank), entered(phase, pid=os.getpid()))
    monkeypatch.setattr("paceline.run.worker.JOIN_SECONDS", 1.0)
    with Worker(sleeping(tmp_path), tmp_path, 2, 60.0) as worker:
        list(worker.follow())
    assert worker.ending.reason == "trouble"
    assert worker.ending.detail == trouble
    assert processes.of_run(tmp_path.name) == []


def test_one_process_that_is_slow_to_start_has_nobody_to_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.run.worker.JOIN_SECONDS", 0.1)
    write(event_file(tmp_path, 0), entered("start", pid=os.getpid()))
    with Worker(sleeping(tmp_path, seconds=1.0), tmp_path, 1, 60.0) as worker:
        list(worker.follow())
    assert (worker.ending.reason, worker.ending.detail) == ("exited", "")


FIRST = 5_000_000  # the process of rank 0; no system has one of such a number
ECHO = failed("RuntimeError", "Connection closed by peer")


@pytest.mark.parametrize(
    ("states", "missing_others", "trouble"),
    [
        (("alive", "gone", "alive"), (), "rank 1 (process 5000001) is gone"),
        (("gone", "gone", "gone"), (0, 2), "rank 1 (process 5000001) is gone"),
        (("alive", "stopped", "alive"), (0,), "rank 1 (process 5000001) is stopped"),
        (("stopped", "gone", "gone"), (), "rank 1 (process 5000001), rank 2 (process 5000002) are gone"),
        (("alive", "alive", "gone"), (2,), "rank 2 failed"),
    ],
)
def test_rank_that_went_without_a_word_is_named_before_those_that_miss_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    states: tuple[str, ...],
    missing_others: tuple[int, ...],
    trouble: str,
) -> None:
    """All at one look, which cannot tell who of several was the first."""
    monkeypatch.setattr("paceline.run.worker.GRACE_SECONDS", 0.0)
    monkeypatch.setattr("paceline.system.processes.state", lambda pid: states[pid - FIRST])
    for rank in range(3):
        said = [ECHO] if rank in missing_others else []
        write(event_file(tmp_path, rank), entered("train", pid=FIRST + rank), *said)
    with Worker(sleeping(tmp_path), tmp_path, 3, 60.0) as worker:
        for file in worker.files:
            file.read_on()  # who they are was known before
        list(worker.follow())
    assert (worker.ending.reason, worker.ending.detail) == ("trouble", trouble)


def test_rank_that_finished_just_before_the_look_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it named later, as the first trouble of a run that ends badly."""

    def state(pid: int) -> str:
        if pid == FIRST:
            write(event_file(tmp_path, 0), entered("train", pid=FIRST), finished())
        return "gone" if pid == FIRST else "alive"

    monkeypatch.setattr("paceline.system.processes.state", state)
    for rank in range(2):
        write(event_file(tmp_path, rank), entered("train", pid=FIRST + rank))
    with Worker(sleeping(tmp_path, seconds=1.0), tmp_path, 2, 60.0) as worker:
        list(worker.follow())
    assert (worker.ending.reason, worker.ending.detail) == ("exited", "")


@pytest.mark.slow
def test_trouble_that_passed_explains_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = itertools.chain(["stopped"], itertools.repeat("alive"))
    monkeypatch.setattr("paceline.system.processes.state", lambda pid: next(looks))
    write(event_file(tmp_path, 0), entered("train", pid=FIRST))
    with Worker(sleeping(tmp_path, seconds=4.0), tmp_path, 1, 60.0) as worker:
        list(worker.follow())
    assert (worker.ending.reason, worker.ending.detail) == ("exited", "")


@pytest.mark.slow
def test_killed_orchestrator_loses_only_the_run_under_way(paceline: CommandLine) -> None:
    command = ("run", "cifar10-conv", "--framework", "fake", "--steps", "100", "--warmup", "2", "--repeats", "3")
    running = paceline.start(*command)
    wait_until(lambda: len(paceline.outcomes()) == 1 and len(paceline.processes()) == 1)
    running.kill()
    running.communicate()
    wait_until(lambda: not paceline.processes(), seconds=5)  # the worker does not outlive it
    finished = paceline.outcomes()
    assert len(finished) == 1

    again = paceline(*command)
    assert again.returncode == 0, again.stderr
    assert "1 of 3 runs are done already" in again.stderr
    (row,) = paceline.rows()
    assert row["repeats"] == 3
    assert finished[0].parent.name in row["runs"]


@pytest.mark.slow
def test_interrupt_ends_the_tree_and_keeps_finished_runs(paceline: CommandLine) -> None:
    command = ("run", "cifar10-conv", "--framework", "fake", "--devices", "2xcpu", "--steps", "200", "--warmup", "2")
    running = paceline.start(*command, "--repeats", "3")
    wait_until(lambda: len(paceline.outcomes()) == 1 and len(paceline.processes()) == 2)
    running.send_signal(signal.SIGINT)
    _, messages = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "the same command goes on from here" in messages
    assert "Traceback" not in messages
    assert paceline.processes() == []
    assert len(list(paceline.store.glob("runs/*"))) == 1  # the run that was cut off left nothing
    (row,) = paceline.rows()
    assert (row["status"], row["repeats"]) == ("not run", 1)
