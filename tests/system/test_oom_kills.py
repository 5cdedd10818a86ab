"""The kernel's count of processes that it has killed for want of memory, in the control group of the run alone."""

from __future__ import annotations

import secrets
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.system.machine import oom_kills
from tests.factories.command_line import CommandLine
from tests.factories.control_groups import v1, v2


def first(count: int) -> str:
    """A group's table in version 1."""
    return f"oom_kill_disable 0\nunder_oom 0\noom_kill {count}"


def second(count: int) -> str:
    return f"low 0\nhigh 0\nmax 7\noom 9\noom_kill {count}\noom_group_kill 0"


def test_count_of_version_1_is_that_of_the_processs_own_group(tmp_path: Path) -> None:
    counts = {"memory": 90, "memory/jobs/a": 3, "memory/jobs/b": 50}
    files = {f"{group}/memory.oom_control": first(count) for group, count in counts.items()}
    assert oom_kills.kills(v1(tmp_path, "/jobs/a", files)) == 3


def test_count_of_version_2_is_that_of_the_processs_own_group(tmp_path: Path) -> None:
    files = {"memory.events": second(90), "user.slice/run:1.scope/memory.events": second(2)}
    assert oom_kills.kills(v2(tmp_path, "/user.slice/run:1.scope", files)) == 2


def test_container_that_sees_only_its_own_group(tmp_path: Path) -> None:
    files = {"memory/memory.oom_control": first(4)}
    assert oom_kills.kills(v1(tmp_path, "/docker/0123abcd", files, mounted="/docker/0123abcd")) == 4


def test_count_that_nobody_tells_is_none(tmp_path: Path) -> None:
    assert (
        oom_kills.kills(v2(tmp_path / "2", "/", {"memory.stat": "anon 5"})) is None
    )  # the root of version 2 has no table
    assert (
        oom_kills.kills(v1(tmp_path / "1", "/", {"memory/memory.oom_control": "under_oom 0"})) is None
    )  # an old kernel
    assert oom_kills.kills(tmp_path / "no linux") is None


HUNGRY = """
import os, sys
from pathlib import Path
from paceline.system.machine import oom_kills
from tests.factories.command_line import CommandLine
from tests.factories.control_groups import v1, v2
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
before = oom_kills.kills()
child = os.fork()
if not child:
    Path("/proc/self/oom_score_adj").write_text("1000")  # so that the kernel takes this one
    held = bytearray(1_000_000_000)
    held[::4096] = bytes([1]) * len(held[::4096])
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), oom_kills.kills() - before)
"""


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A real control group with 500 MB, which only root can make."""
    parent = Path("/sys/fs/cgroup/memory")
    folder = parent / f"paceline-test-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text("500M")
    except OSError:
        if folder.exists():
            folder.rmdir()
        pytest.skip("control groups of version 1 cannot be made here")
    yield folder
    for pid in (folder / "cgroup.procs").read_text().split():
        (parent / "cgroup.procs").write_text(pid)
    folder.rmdir()


def test_kernel_counts_a_process_that_it_has_really_killed(small_group: Path) -> None:
    elsewhere = oom_kills.kills()
    command = [sys.executable, "-c", textwrap.dedent(HUNGRY), str(small_group)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.split() == ["-9", "1"]
    assert oom_kills.kills() == elsewhere  # another group's count is another


@pytest.mark.slow
def test_worker_that_the_kernel_killed_for_want_of_memory_is_told_as_that(
    small_group: Path, paceline: CommandLine
) -> None:
    flags = ("--steps", "20", "--warmup", "2", "--repeats", "1")
    words = paceline.arguments("run", "cifar10-conv", "--framework", "fake+memory", *flags)
    entering = f'echo $$ > {small_group}/cgroup.procs && exec "$@"'
    command = ["sh", "-c", entering, "sh", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2, ended.stderr
    (row,) = paceline.rows()
    assert row["reason"] == "out of memory in train: killed by SIGKILL: memory ran out in its control group"
