"""What a run of a command has used: the record in its folder, and the rows of the index that come from it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import msgspec

from paceline.plan.external.output_metrics import values_of
from paceline.store import resources
from paceline.store.index.values import insert_values, of_memory, of_noise
from paceline.store.records.runs import RunRecord
from paceline.store.records.samples import Sample, read_samples
from paceline.system.files.regular_files import read_plain

RANK = 0  # under which the monitor keeps the tree
PRINTED = "printed: "  # begins the names of values that a command says of itself
OURS = {"images/s": "images_per_second", "accuracy": "test_accuracy", "training accuracy": "train_accuracy"}


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
    printed = values_of(run.cell.command.metrics, usage.found)
    insert_values(
        index,
        run.id,
        {
            **resources.further_values(samples, [(look.time, samples[-1].time) for look in samples[:1]]),
            "training_seconds": usage.seconds,
            "user_seconds": usage.user_seconds,
            "system_seconds": usage.system_seconds,
            "times_sampled": usage.times_sampled,
            "largest_process_bytes": usage.largest_process_bytes,
            "left_behind": usage.left_behind,
            **{OURS[name]: value for name, value in printed.items() if name in OURS},
            **{f"{PRINTED}{name}": value for name, value in printed.items()},
            **of_memory(_memory(run, usage, samples)),
            **of_noise(_noise(run, usage, samples)),
        },
    )


def _memory(run: RunRecord, usage: CommandUsage, samples: list[Sample]) -> list[resources.MemoryUse]:
    """Of each GPU, or of the whole tree, of which nothing was there before."""
    devices = run.cell.device_set
    if devices.kind == "cuda":
        return resources.gpu_memory(devices.indices, [], samples)
    sampled = max((sample.ranks[RANK].children_bytes for sample in samples if RANK in sample.ranks), default=0)
    return [resources.MemoryUse(idle_bytes=0, peak_bytes=max(sampled, usage.largest_process_bytes))]


def _noise(run: RunRecord, usage: CommandUsage, samples: list[Sample]) -> resources.Noise:
    """What else the cores did, from before its start to after its end."""
    cores = sorted({core for device in run.cell.cores for core in device})
    if not samples or samples[-1].time <= samples[0].time:  # a clock may have been set back
        return resources.Noise()
    first, last = samples[0], samples[-1]
    if not cores or any(sample.place(core) is None for sample in (first, last) for core in cores):
        return resources.Noise()
    seconds = len(cores) * (last.time - first.time)
    busy, stolen = (sum(last.core(core)[kind] - first.core(core)[kind] for core in cores) for kind in (0, 1))
    own = usage.user_seconds + usage.system_seconds
    return resources.Noise(
        load=first.load,
        other=min(max(0.0, (busy - own) / seconds), 1.0),
        stolen=stolen / seconds,
        throttled=resources.throttled([(first, last)], own),
    )


class WaiterReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the waiter tells: the kernel's own account, or why the command could not start."""

    exit_code: int | None = None
    seconds: float = 0.0
    user_seconds: float = 0.0
    system_seconds: float = 0.0
    largest_process_bytes: int = 0
    error: str = ""
    not_found: bool = False
