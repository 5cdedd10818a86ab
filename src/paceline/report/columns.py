"""The columns of a table: a heading and how a row reads in it. They say numbers; they compute none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from paceline.metrics import Row
from paceline.stats import Estimate

NOTHING = "–"


@dataclass(frozen=True)
class Column:
    heading: str
    text: Callable[[Row], str]
    number: bool = True  # aligned to the right
    stacked: str = ""  # the heading over two lines, for a terminal


def number(value: float | None) -> str:
    """Three digits are enough: no run of a shared machine is known better."""
    if value is None:
        return NOTHING
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def interval(value: Estimate | None) -> str:
    if value is None or value.low is None:
        return NOTHING
    return f"{number(value.low)}–{number(value.high)}"


def scaling(row: Row) -> str:
    return NOTHING if row.scaling is None else f"{row.scaling:.2f}×"


def efficiency(row: Row) -> str:
    return NOTHING if row.efficiency is None else f"{row.efficiency:.0%}"


def memory(row: Row) -> str:
    """Values of the devices joined by +; one process for several devices has one value for all."""
    return "+".join(f"{value:,.0f}" for value in row.peak_memory_mib) or NOTHING


COLUMNS = (
    Column("framework", lambda row: row.framework, number=False),
    Column("devices", lambda row: row.devices, number=False),
    Column(
        "images/s",
        lambda row: number(row.images_per_second.median if row.images_per_second else None),
        stacked="images\n/s",
    ),
    Column("95 % interval", lambda row: interval(row.images_per_second), stacked="95 %\ninterval"),
    Column("s", lambda row: number(row.seconds)),
    Column("s/epoch", lambda row: number(row.seconds_per_epoch), stacked="s per\nepoch"),
    Column("first step", lambda row: number(row.first_step_seconds), stacked="first\nstep"),
    Column("scaling", scaling, stacked="scal-\ning"),
    Column("efficiency", efficiency, stacked="eff."),
    Column("MiB", memory),
    Column("status", lambda row: row.status, number=False),
)


def tables(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Rows that may be compared, under a title that says what they share."""
    ordered = list(rows)
    titles = list(dict.fromkeys(title(row) for row in ordered))
    ordered.sort(key=lambda row: titles.index(title(row)))
    return [(name, list(group)) for name, group in groupby(ordered, key=title)]


def title(row: Row) -> str:
    batch = (
        f"batch {row.batch_size // row.device_count} per device (weak scaling)"
        if row.scaling_kind == "weak"
        else f"batch {row.batch_size} in all (strong scaling)"
    )
    cores = f"{row.cores_per_device} core{'s' if row.cores_per_device > 1 else ''} per device"
    where = f", {cores}" if "cpu" in row.devices else ""
    parameters = "unknown workload" if row.parameters is None else f"{row.parameters:,} parameters"
    return f"{row.workload}: {parameters}, {batch}, {row.steps} steps, {row.data}, {row.precision}, {row.update}{where}"


def remarks(rows: Iterable[Row]) -> list[str]:
    """What must be said about single rows: causes of failures, reasons of skips, marks."""
    rows = list(rows)
    proven = list(dict.fromkeys(row.framework for row in rows if row.verified))
    said = [f"verified to compute the same network: {', '.join(proven)}"] if proven else []
    for row in rows:
        name = f"{row.framework} {row.devices}"
        if row.reason:
            said.append(f"{name} {row.status}: {row.reason}")
        if row.failed_run:
            said.append(f"{name} log: paceline log {row.failed_run}")
        said += [f"{name} is {mark}: its devices share cores" for mark in row.marks]
        if row.memory_of == "all devices" and row.peak_memory_mib:
            said.append(f"{name}: one process serves all devices, so its memory is that of all together")
    return list(dict.fromkeys(said))


FOOTNOTE = (
    "images/s: training only, median of fresh processes with its bootstrap 95 % interval. s: training time. "
    "first step: seconds, compilation included. scaling: images/s against one device. "
    "MiB: peak minus idle memory of each device."
)
