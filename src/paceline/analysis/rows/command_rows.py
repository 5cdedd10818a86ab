"""What a table says about a command in addition to what it says about any cell."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from paceline.analysis.statistics.intervals import Estimate, estimate
from paceline.plan.external.command import ExternalCommand
from paceline.store.index.command_usage import PRINTED
from paceline.store.run_results import RunResult

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


def command_row(command: ExternalCommand, good: Sequence[RunResult]) -> CommandRow:
    """From the runs of a command that ended well."""
    names = dict.fromkeys(metric.name for metric in command.metrics)
    printed = {name: _values(good, f"{PRINTED}{name}") for name in names}
    largest = _median(_values(good, "largest_process_bytes"))
    return CommandRow(
        line=str(command),
        folder=command.folder,
        real_seconds=estimate(_values(good, "training_seconds")),
        user_seconds=_median(_values(good, "user_seconds")),
        system_seconds=_median(_values(good, "system_seconds")),
        times_sampled=any(_values(good, "times_sampled")),
        largest_process_mib=None if largest is None else largest / MEBIBYTE,
        left_behind=int(max(_values(good, "left_behind"), default=0)),
        readings={name: statistics.median(found) for name, found in printed.items() if found},
        missing=tuple(name for name, found in printed.items() if good and not found),
    )


def _values(runs: Sequence[RunResult], name: str) -> list[float]:
    return [value for run in runs for value in run.of_each(name)]


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
