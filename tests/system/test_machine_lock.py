"""One measurement at a time on a machine: who holds the lock says so, and the next is refused or waits."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import psutil
import pytest

from paceline.system import machine_lock
from paceline.system.errors import UserError
from paceline.system.machine_lock import LockHolder, alone, holder, lock_file
from tests.factories.command_line import CommandLine, send, wait_until

FAKE = ("run", "cifar10-conv", "--framework", "fake", "--warmup", "2", "--steps", "10", "--repeats", "1")
LONG = (*FAKE[:-3], "20000", "--batch-size", "512", "--repeats", "1")


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "locks" / "lock"
    monkeypatch.setenv("PACELINE_LOCK", str(path))
    return path


def test_holder_says_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["paceline", "run", "a workload"])
    assert holder() is None
    with alone() as measuring:
        measuring.note_plan(tmp_path, "a plan")
        measuring.note_run("a run")
        now = holder()
        assert now
        assert (now.process, now.command) == (os.getpid(), "paceline run 'a workload'")
        assert (now.store, now.plan, now.run) == (str(tmp_path), "a plan", "a run")
        measuring.note_run("")
        now = holder()
        assert now
        assert (now.plan, now.run) == ("a plan", "")
    assert holder() is None


def test_holder_that_has_ended_is_none(lock: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        facts = LockHolder(
            process=other.pid, process_started=psutil.Process(other.pid).create_time(), user="", command=""
        )
        lock.parent.mkdir()
        lock.write_bytes(msgspec.json.encode(facts) + b"\n")
        assert holder() == facts
        later = msgspec.structs.replace(facts, process_started=facts.process_started - 100)
        lock.write_bytes(msgspec.json.encode(later) + b"\n")
        assert holder() is None  # the number of a process that has ended, given to this one
        lock.write_bytes(msgspec.json.encode(facts) + b"\n")
        other.kill()
        other.wait()
        assert holder() is None


def test_lock_is_for_the_machine_and_not_for_a_results_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PACELINE_LOCK")
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "one"))
    first = lock_file()
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "other"))
    assert lock_file() == first
    assert first.parent in machine_lock.SHARED_FOLDERS


def test_lock_folder_is_one_that_every_user_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PACELINE_LOCK")
    own, shared = tmp_path / "own", tmp_path / "shared"
    own.mkdir(mode=0o775)
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr(machine_lock, "SHARED_FOLDERS", (tmp_path / "missing", own, shared))
    assert lock_file().parent == shared


def test_second_is_refused_with_the_command_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["paceline", "explain", "it"])
    with (
        alone(),
        pytest.raises(UserError, match=rf"`paceline explain it` \(process {os.getpid()}, .*Add --wait"),
        alone(),
    ):
        pass


def test_second_waits_if_asked_to(lock: Path) -> None:
    said: list[str] = []
    began = threading.Event()

    def second() -> None:
        with alone(wait=True, say=said.append):
            began.set()

    with alone():
        thread = threading.Thread(target=second)
        thread.start()
        wait_until(lambda: said)
        assert not began.is_set()
    thread.join(10)
    assert began.is_set()
    assert len(said) == 1
    assert said[0].startswith("Waiting for `paceline")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_two_users_share_the_lock(lock: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/tmp") and Path("/tmp") in folder.parents:  # noqa: S108 - where pytest has put it
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    lock.parent.mkdir()
    lock.parent.chmod(0o1777)
    with alone():
        pass  # root's file
    assert stat.S_IMODE(lock.stat().st_mode) == 0o666
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            with alone():
                code = 0 if (now := holder()) and now.process == os.getpid() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_lock_that_is_no_regular_file_is_refused_in_one_line(lock: Path, kind: str) -> None:
    lock.parent.mkdir()
    if kind == "folder":
        lock.mkdir()
    elif kind == "link":
        lock.symlink_to("/etc/passwd")
    else:
        os.mkfifo(lock)
    assert holder() is None
    with pytest.raises(UserError, match="Set PACELINE_LOCK to another file"), alone():
        pass


@pytest.mark.slow
def test_commands_that_measure_refuse_wait_and_name_their_run(paceline: CommandLine) -> None:
    paceline(*FAKE)
    (done,) = (path.name for path in (paceline.store / "runs").iterdir())
    first = paceline.start(*LONG)
    wait_until(lambda: (now := holder()) and now.run)
    now = holder()
    assert now
    assert now.plan == max(path.stem for path in (paceline.store / "plans").glob("*.json"))
    assert {path.name for path in (paceline.store / "runs").iterdir()} == {done, now.run}
    explain, replay = ("explain", *FAKE[1:4], "--devices", "2xcpu"), ("replay", done)
    for words in (FAKE, ("verify", "--framework", "fake"), ("time", "--", "true"), explain, replay):
        refused = paceline(*words) if words[0] != "time" else time_true(paceline)
        assert (refused.returncode, refused.stdout) == (1, ""), refused.stderr
        assert refused.stderr.count("\n") == 1
        assert f"process {first.pid}" in refused.stderr
        assert "cifar10-conv --framework fake" in refused.stderr
    second = paceline.start(*FAKE, "--wait")
    assert second.stderr
    assert second.stderr.readline().startswith("Waiting for `paceline run cifar10-conv")
    send(first.pid, signal.SIGINT)
    first.communicate(timeout=60)
    second.communicate(timeout=120)
    assert second.returncode == 0


def time_true(paceline: CommandLine) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "paceline", "time", "--store", str(paceline.store), "--", "true"]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
