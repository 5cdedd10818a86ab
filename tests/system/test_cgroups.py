"""What a container may use is read from its control groups, by fixtures of every kind and on this system for real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.store.records.samples import read_samples
from paceline.system.machine.cgroups import Throttling, cpu_groups, memory_limit_bytes, quota_cores, throttling
from paceline.system.machine.hardware import this_machine
from tests.factories.command_line import CommandLine
from tests.factories.control_groups import v1, v2

UNLIMITED = "9223372036854771712"


def test_quota_of_version_2_is_that_of_the_own_group(tmp_path: Path) -> None:
    root = v2(tmp_path, "/", {"cpu.max": "200000 100000", "memory.max": "4294967296"})
    assert quota_cores(root) == 2.0
    assert memory_limit_bytes(root) == 4 * 2**30


def test_no_limit_is_none(tmp_path: Path) -> None:
    second = v2(tmp_path / "2", "/", {"cpu.max": "max 100000", "memory.max": "max"})
    first = v1(
        tmp_path / "1",
        "/",
        {
            "cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "cpu,cpuacct/cpu.cfs_period_us": "100000",
            "memory/memory.limit_in_bytes": UNLIMITED,
        },
    )
    for root in (first, second, tmp_path / "no linux"):
        assert (quota_cores(root), memory_limit_bytes(root)) == (None, None)


def test_tightest_of_all_groups_above_counts(tmp_path: Path) -> None:
    files = {
        "work/cpu.max": "400000 100000",
        "work/memory.max": "1000000000",
        "work/run/cpu.max": "max 100000",
        "work/run/memory.max": "2000000000",
        "other/cpu.max": "1000 100000",
    }
    root = v2(tmp_path, "/work/run", files)
    assert quota_cores(root) == 4.0
    assert memory_limit_bytes(root) == 1_000_000_000
    (tmp_path / "sys/fs/cgroup/work/run/cpu.max").write_text("50000 100000\n")
    assert quota_cores(root) == 0.5


def test_quota_of_version_1(tmp_path: Path) -> None:
    files = {
        "cpu,cpuacct/box/cpu.cfs_quota_us": "150000",
        "cpu,cpuacct/box/cpu.cfs_period_us": "100000",
        "memory/box/memory.limit_in_bytes": "536870912",
        "memory/memory.limit_in_bytes": UNLIMITED,
    }
    root = v1(tmp_path, "/box", files)
    assert quota_cores(root) == 1.5
    assert memory_limit_bytes(root) == 2**29


@pytest.mark.parametrize(
    ("group", "mounted"),
    [
        ("/docker/0123", "/docker/0123"),  # the host's name of the group, which is what is mounted
        ("/", "/"),  # a name space of its own
        ("/", "/../.."),  # a name space that was made after mounting
        ("/docker/0123", "/"),  # the host's name, of which nothing is to be seen here
    ],
)
def test_group_of_a_container_is_found_where_it_is_mounted(tmp_path: Path, group: str, mounted: str) -> None:
    files = {"cpu,cpuacct/cpu.cfs_quota_us": "200000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}
    assert quota_cores(v1(tmp_path / "1", group, files, mounted=mounted)) == 2.0
    assert quota_cores(v2(tmp_path / "2", group, {"cpu.max": "200000 100000"}, mounted=mounted)) == 2.0


def test_group_below_that_of_a_container(tmp_path: Path) -> None:
    files = {"own/cpu.max": "100000 100000", "cpu.max": "200000 100000"}
    root = v2(tmp_path, "/docker/0123/own", files, mounted="/docker/0123")
    assert quota_cores(root) == 1.0
    assert [folder.name for folder in cpu_groups(root)] == ["own", "cgroup"]


def test_place_with_a_space_is_found(tmp_path: Path) -> None:
    root = v2(tmp_path, "/", {"cpu.max": "max 100000"})
    (root / "my groups").mkdir()
    (root / "my groups" / "cpu.max").write_text("300000 100000\n")
    (root / "proc/self/mountinfo").write_text("30 23 0:26 / /my\\040groups rw - cgroup2 cgroup rw\n")
    assert quota_cores(root) == 3.0


@pytest.mark.parametrize("text", ["", "max", "200000", "many 100000", "200000 0", "-5 100000", "0 100000"])
def test_quota_that_is_none_is_not_believed(tmp_path: Path, text: str) -> None:
    assert quota_cores(v2(tmp_path, "/", {"cpu.max": text})) is None


def test_throttling_of_version_2(tmp_path: Path) -> None:
    stat = "usage_usec 99\nnr_periods 40\nnr_throttled 30\nthrottled_usec 2500000\nnr_bursts 0"
    root = v2(tmp_path, "/box", {"box/cpu.stat": stat, "cpu.stat": "usage_usec 100"})
    assert throttling(cpu_groups(root)) == Throttling(seconds=2.5, periods=30)


def test_throttling_of_version_1_counts_that_of_the_groups_above(tmp_path: Path) -> None:
    files = {
        "cpu,cpuacct/a/b/cpu.stat": "nr_periods 4\nnr_throttled 3\nthrottled_time 250000000",
        "cpu,cpuacct/a/cpu.stat": "nr_periods 9\nnr_throttled 1\nthrottled_time 1000000000",
    }
    assert throttling(cpu_groups(v1(tmp_path, "/a/b", files))) == Throttling(seconds=1.25, periods=4)


def test_throttling_that_nobody_counts_is_not_known(tmp_path: Path) -> None:
    assert throttling(cpu_groups(v2(tmp_path, "/", {"cpu.stat": "usage_usec 100"}))) is None
    assert throttling([]) is None


# On this system

CPU = Path("/sys/fs/cgroup/cpu")
CORES = len(this_machine().cores)
can_make_groups = pytest.mark.skipif(
    os.geteuid() != 0
    or not (CPU / "cpu.cfs_quota_us").exists()
    or not os.access(CPU, os.W_OK)
    or CORES < 2
    or this_machine().quota_cores is not None,
    reason="needs root, control groups of version 1 that can be made, two cores, and no quota yet",
)
# Also where so many others work on the machine that a core's time would not be used up, a tenth of it is.
BUSY = """
import time
from pathlib import Path
quota = Path("/sys/fs/cgroup/cpu/{group}/cpu.cfs_quota_us")
quota.write_text("2000")
while time.process_time() < 0.2:
    pass
quota.write_text("20000")
"""


@pytest.fixture
def one_core() -> Iterator[Path]:
    """A control group with the time of one core; whatever is in it moves out in the end."""
    group = CPU / f"paceline-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text("20000")
        (group / "cpu.cfs_quota_us").write_text("20000")
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (CPU / "cgroup.procs").write_text(pid)
        group.rmdir()


def succeeded(group: Path, *words: str) -> str:
    """What a command in this group has printed."""
    enter = ("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")
    ended = subprocess.run([*enter, *words], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
@can_make_groups
def test_quota_is_planned_with_and_recorded(one_core: Path, paceline: CommandLine) -> None:
    flags = ("--framework", "fake", "--devices", "1xcpu,2xcpu", "--steps", "4", "--warmup", "1", "--repeats", "1")
    shown = succeeded(one_core, *paceline.arguments("run", "cifar10-conv", *flags))
    assert "measured under a CPU quota, which gave all programs of the container together the time of 1 core" in (
        " ".join(shown.split())
    )
    one, two = paceline.rows()
    assert ("oversubscribed" in one["marks"], "oversubscribed" in two["marks"]) == (False, True)
    assert (one["cores_per_device"], one["quota_cores"]) == (1, 1.0)
    assert f"1 of {CORES} cores by quota" in one["machine_description"]
    assert (
        one["noise"]["throttled"] is None or 0 <= one["noise"]["throttled"] < 1
    )  # it sleeps, but others are there, too


@pytest.mark.slow
@can_make_groups
def test_command_that_is_throttled_is_marked(one_core: Path, paceline: CommandLine) -> None:
    busy = ("--", sys.executable, "-c", BUSY.replace("{group}", one_core.name))
    shown = succeeded(one_core, *paceline.arguments("time", "--repeats", "1", "--name", "busy"), *busy)
    assert "busy is throttled: its CPU quota held back" in shown
    (row,) = paceline.rows()
    assert 0.3 < row["noise"]["throttled"] < 1
    assert row["marks"] == ["throttled"]
    samples = read_samples(next(paceline.store.glob("runs/*")))
    before, after = samples[0].throttled, samples[-1].throttled
    assert before is not None and after is not None
    assert after.periods - before.periods > 10
    assert after.seconds - before.seconds > 0.1
