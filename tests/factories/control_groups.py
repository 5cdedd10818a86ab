"""Control groups as folders, so that a test can be in any container."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

V1_MOUNTS = (
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755",
    "32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct",
    "35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory",
    "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd",
)
V2_MOUNTS = ("30 23 0:26 {root} /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate",)


def v1(root: Path, group: str, files: Mapping[str, str], *, mounted: str = "/") -> Path:
    """A system of version 1, in which this process is in that group; files are named below the mount points."""
    lines = (f"4:memory:{group}", f"2:cpu,cpuacct:{group}", "1:name=systemd:/", "0::/")
    return _made(root, lines, [line.format(root=mounted) for line in V1_MOUNTS], files)


def v2(root: Path, group: str, files: Mapping[str, str], *, mounted: str = "/") -> Path:
    return _made(root, (f"0::{group}",), [line.format(root=mounted) for line in V2_MOUNTS], files)


def _made(root: Path, groups: tuple[str, ...], mounts: list[str], files: Mapping[str, str]) -> Path:
    written = {"proc/self/cgroup": "\n".join(groups), "proc/self/mountinfo": "\n".join(mounts)}
    for name, content in {**written, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")
    return root
