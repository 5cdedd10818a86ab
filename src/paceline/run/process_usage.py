"""Memory and processor time of each rank's process and all below it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psutil

from paceline.store.records.samples import ProcessUsage
from paceline.system import processes
from paceline.system.processes import GONE

SeenTimes = dict[psutil.Process, tuple[float, float]]  # user and system seconds of every process, when last seen


def usage_of_ranks(pids: Mapping[int, int], seen: SeenTimes) -> dict[int, ProcessUsage]:
    """One look at the process table for all ranks: for each of them it would cost as much again."""
    parents = processes.parents() if pids else {}
    found = {rank: _usage(pid, processes.below(pid, parents), seen) for rank, pid in pids.items()}
    return {rank: usage for rank, usage in found.items() if usage is not None}


def _usage(pid: int, below: list[int], seen: SeenTimes) -> ProcessUsage | None:
    members = [_noted(member, seen) for member in (pid, *below)]  # also where one of them is gone
    known = [member for member in members if member]
    if len(known) < len(members):
        return None
    process, *children = known
    try:
        own, theirs = process.memory_info().rss, sum(_proportional_bytes(child) for child in children)
    except GONE:
        return None
    processor_seconds = sum(sum(seen[member]) for member in (process, *children))
    return ProcessUsage(resident_bytes=own + theirs, children_bytes=theirs, processor_seconds=processor_seconds)


def _noted(pid: int, seen: SeenTimes) -> psutil.Process | None:
    """The process, with what it has used so far among what was seen; none if it has ended."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
    except GONE:
        return None
    seen[process] = times.user, times.system
    return process


def _proportional_bytes(process: psutil.Process) -> int:
    """A forked child shares most pages with its parent, and they must not count twice."""
    rollup = Path(f"/proc/{process.pid}/smaps_rollup")
    try:
        lines = rollup.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return int(process.memory_info().rss)
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
