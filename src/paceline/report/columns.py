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


def batch(row: Row) -> str:
    """As published tables write it: 128x8=1024 (lr=0.4)."""
    shares = f"{row.batch_size // row.device_count}x{row.device_count}=" if row.device_count > 1 else ""
    return f"{shares}{row.batch_size} (lr={row.learning_rate:g})"


def part(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def accuracy(value: Estimate | None) -> str:
    """With its interval over repeats, which differ in their seeds."""
    if value is None or value.low is None:
        return part(value.median if value else None)
    return f"{part(value.median)} ({part(value.low)}–{part(value.high)})"


def until_target(row: Row, value: float | None) -> str:
    return NEVER if value is None and row.repeats else number(value)


COLUMNS = (
    Column("framework", lambda row: row.framework, number=False),
    Column("devices", lambda row: row.devices, number=False, stacked="de-\nvices"),
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


ACCURACY_COLUMNS = (
    Column("framework", lambda row: row.framework, number=False),
    Column("devices", lambda row: row.devices, number=False, stacked="de-\nvices"),
    Column("batch", batch, number=False),
    Column("training accuracy", lambda row: accuracy(row.train_accuracy), stacked="training\naccuracy"),
    Column("test accuracy", lambda row: accuracy(row.test_accuracy), stacked="test\naccuracy"),
    Column(
        "waiting", lambda row: NOTHING if row.waiting is None else f"{row.waiting:.1%}", stacked="waiting\nfor data"
    ),
    Column("evaluation s", lambda row: number(row.evaluation_seconds), stacked="evalu-\nation s"),
)


def accuracy_columns(rows: Iterable[Row]) -> tuple[Column, ...]:
    """None where nothing was evaluated; with the way to the target where one was asked for."""
    rows = list(rows)
    if not any(row.test_accuracy for row in rows):
        return ()
    targets = sorted({row.target for row in rows if row.target is not None})
    reached = [
        column
        for target in targets
        for column in (
            Column(f"s to {target:g}", lambda row: until_target(row, row.seconds_to_target)),
            Column(f"images to {target:g}", lambda row: until_target(row, row.images_to_target)),
        )
    ]
    return (*ACCURACY_COLUMNS, *reached)


def tables(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Rows that may be compared, under a title that says what they share."""
    ordered = list(rows)
    titles = list(dict.fromkeys(title(row) for row in ordered))
    ordered.sort(key=lambda row: titles.index(title(row)))
    return [(name, list(group)) for name, group in groupby(ordered, key=title)]


def title(row: Row) -> str:
    size = (
        f"batch {row.batch_size // row.device_count} per device (weak scaling)"
        if row.scaling_kind == "weak"
        else f"batch {row.batch_size} in all (strong scaling)"
    )
    cores = f"{row.cores_per_device} core{'s' if row.cores_per_device > 1 else ''} per device"
    where = f", {cores}" if "cpu" in row.devices else ""
    source = f"{row.data} {row.input}".strip()
    parameters = "unknown workload" if row.parameters is None else f"{row.parameters:,} parameters"
    return f"{row.workload}: {parameters}, {size}, {row.steps} steps, {source}, {row.precision}, {row.update}{where}"


def remarks(rows: Iterable[Row]) -> list[str]:
    """What must be said about single rows: causes of failures, reasons of skips, marks."""
    rows = list(rows)
    proven = list(dict.fromkeys(row.framework for row in rows if row.verified))
    said = [f"verified to compute the same network: {', '.join(proven)}"] if proven else []
    said += unlike_trainings(rows)
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


def unlike_trainings(rows: list[Row]) -> list[str]:
    """What makes rows of one table different trainings, where accuracies might be compared."""
    trainings = {row.devices: row for row in rows if row.test_accuracy}
    said = []
    if len({row.batch_size for row in trainings.values()}) > 1:
        sizes = ", ".join(f"{name} has {batch(row)}" for name, row in trainings.items())
        scaled = len({row.learning_rate for row in trainings.values()}) > 1
        advice = "" if scaled else "; the learning rate is not scaled with it (--lr-rule linear does)"
        said.append(f"not the same training: the batch grows with the devices: {sizes}{advice}")
    over = {name: row.batch_size // row.device_count for name, row in trainings.items() if row.batch_norm}
    if len(set(over.values())) > 1:
        sizes = ", ".join(f"{images} images on {name}" for name, images in over.items())
        said.append(f"not quite the same training: each device normalises over its own images: {sizes}")
    return said


NEVER = "∞"
FOOTNOTE = (
    "images/s: training only, median of fresh processes with its bootstrap 95 % interval. s: training time. "
    "first step: seconds, compilation included. scaling: images/s against one device. "
    "MiB: peak minus idle memory of each device."
)
