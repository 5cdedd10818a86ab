"""What a run of a command has used: the record in its folder, and the rows of the index that come from it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import msgspec

from paceline.plan.external.output_metrics import values_of
from paceline.store import resources
from paceline.store.records.runs import RunRecord
from paceline.store.records.samples import Sample, read_samples
from paceline.system.files.regular_files import read_plain

RANK = 0  # under which the monitor keeps the tree


FILE = "usage.json"
UNSEEN_PART, UNSEEN_SECONDS = 1.02, 0.1  # samples may say a little more than the kernel: its clock ticks


class CommandUsage(msgspec.Struct, frozen=True, kw_only=True):
    """As far as it is known; for a command that had to be ended there is none."""

    seconds: float  # from its start to its end
    user_seconds: float  # of all its processes
    system_seconds: float
    times_sampled: bool  # some processes were not in the kernel's sum, so that both are what samples saw
    largest_process_bytes: int  # peak of the largest process, by the kernel
    left_behind: int  # processes that were alive after its end, and were ended
    found: tuple[tuple[float, ...], ...]  # for each metric of the cell the numbers of all its matches


def usage_of(
    report: WaiterReport, seen: tuple[float, float], left_behind: int, found: tuple[tuple[float, ...], ...]
) -> CommandUsage:
    """The kernel's sum lacks processes without a waiting parent; then samples know more."""
    reported = report.user_seconds, report.system_seconds
    sampled = sum(seen) > UNSEEN_PART * sum(reported) + UNSEEN_SECONDS
    user, system = seen if sampled else reported
    return CommandUsage(
        seconds=report.seconds,
        user_seconds=user,
        system_seconds=system,
        times_sampled=sampled,
        largest_process_bytes=report.largest_process_bytes,
        left_behind=left_behind,
        found=found,
    )


def insert_usage(index: sqlite3.Connection, run: RunRecord, folder: Path) -> None:
    """The rows of one run; none where it was ended before it could tell."""
    path = folder / FILE
    if not os.path.lexists(path) or run.cell.command is None:
        return
    usage, samples = msgspec.json.decode(read_plain(path), type=CommandUsage), read_samples(folder)
    index.execute(
        "INSERT INTO command VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            run.id,
            usage.seconds,
            usage.user_seconds,
            usage.system_seconds,
            usage.times_sampled,
            usage.largest_process_bytes,
            usage.left_behind,
        ),
    )
    values = values_of(run.cell.command.metrics, usage.found)
    index.executemany("INSERT INTO reading VALUES (?, ?, ?)", [(run.id, *item) for item in values.items()])
    _insert_memory(index, run, usage, samples)
    _insert_noise(index, run, usage, samples)


def _insert_memory(index: sqlite3.Connection, run: RunRecord, usage: CommandUsage, samples: list[Sample]) -> None:
    """Of each GPU, or of the whole tree, of which nothing was there before."""
    devices = run.cell.device_set
    if devices.kind == "cuda":
        memory = resources.gpu_memory(devices.indices, [], samples)
    else:
        sampled = max((sample.ranks[RANK].children_bytes for sample in samples if RANK in sample.ranks), default=0)
        memory = [resources.MemoryUse(idle_bytes=0, peak_bytes=max(sampled, usage.largest_process_bytes))]
    rows = [(run.id, position, each.idle_bytes, each.peak_bytes, None) for position, each in enumerate(memory)]
    index.executemany("INSERT INTO memory VALUES (?, ?, ?, ?, ?)", rows)


def _insert_noise(index: sqlite3.Connection, run: RunRecord, usage: CommandUsage, samples: list[Sample]) -> None:
    """What else the cores did, from before its start to after its end."""
    cores = sorted({core for device in run.cell.cores for core in device})
    if not samples or samples[-1].time <= samples[0].time:  # a clock may have been set back
        return
    first, last = samples[0], samples[-1]
    if not cores or any(sample.place(core) is None for sample in (first, last) for core in cores):
        return
    seconds = len(cores) * (last.time - first.time)
    busy, stolen = (sum(last.core(core)[kind] - first.core(core)[kind] for core in cores) for kind in (0, 1))
    other = (busy - usage.user_seconds - usage.system_seconds) / seconds
    held_back = resources.throttled([(first, last)], usage.user_seconds + usage.system_seconds)
    row = (run.id, first.load, min(max(0.0, other), 1.0), stolen / seconds, held_back, None, None)
    index.execute("INSERT INTO noise VALUES (?, ?, ?, ?, ?, ?, ?)", row)


class WaiterReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the waiter tells: the kernel's own account, or why the command could not start."""

    exit_code: int | None = None
    seconds: float = 0.0
    user_seconds: float = 0.0
    system_seconds: float = 0.0
    largest_process_bytes: int = 0
    error: str = ""
    not_found: bool = False
