"""What a table says about a command in addition to what it says about any cell."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from paceline.analysis.statistics.intervals import Estimate, estimate
from paceline.plan.external.command import ExternalCommand

MEBIBYTE = 2**20


class CommandRow(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over the runs that ended well."""

    line: str  # as a shell would take it
    folder: str  # in which it ran
    real_seconds: Estimate | None  # from its start to its end
    user_seconds: float | None  # of all its processes
    system_seconds: float | None
    times_sampled: bool  # some processes were not in the kernel's sum, so that both are what samples saw
    largest_process_mib: float | None  # peak of the largest process, by the kernel
    left_behind: int  # most processes that were alive after its end, and were ended
    readings: dict[str, float]  # what its output says, by name of the metric
    missing: tuple[str, ...]  # metrics of which no run printed anything


def command_row(command: ExternalCommand, good: Sequence[Mapping[str, Any]]) -> CommandRow:
    """From the runs of a command that ended well."""
    readings: list[dict[str, float]] = [json.loads(run["readings"]) for run in good]
    names = dict.fromkeys(metric.name for metric in command.metrics)
    values = {name: [run[name] for run in readings if name in run] for name in names}
    largest = _median([run["largest_process_bytes"] for run in good])
    return CommandRow(
        line=str(command),
        folder=command.folder,
        real_seconds=estimate([run["training_seconds"] for run in good]),
        user_seconds=_median([run["user_seconds"] for run in good]),
        system_seconds=_median([run["system_seconds"] for run in good]),
        times_sampled=any(run["times_sampled"] for run in good),
        largest_process_mib=None if largest is None else largest / MEBIBYTE,
        left_behind=max((run["left_behind"] for run in good), default=0),
        readings={name: statistics.median(found) for name, found in values.items() if found},
        missing=tuple(name for name, found in values.items() if good and not found),
    )


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
