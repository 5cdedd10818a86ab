"""The columns of a table: a heading and how a row reads in it. They say numbers; they compute none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from paceline.analysis.quantities.definition import Quantity
from paceline.analysis.quantities.known import (
    EVALUATION_SECONDS,
    FIRST_STEP,
    IDLE_MEMORY,
    IMAGES_TO_TARGET,
    MEMORY,
    PROCESSOR_SPEED,
    SECONDS,
    SECONDS_TO_TARGET,
    SPEED,
    TEST_ACCURACY,
    TRAIN_ACCURACY,
    WAITING,
    WHERE_KNOWN,
    brought,
)
from paceline.analysis.rows.labels import DEVICES, placed, update, where
from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.plan.cell_names import length_in_words
from paceline.system.text.formatting import NOTHING, number


@dataclass(frozen=True)
class Column:
    heading: str
    text: Callable[[Row], str]
    number: bool = True  # aligned to the right
    stacked: str = ""  # the heading over two lines, for a terminal


def interval(value: Estimate | None) -> str:
    if value is None or value.low is None:
        return NOTHING
    return f"{number(value.low)}–{number(value.high)}"


def scaling(row: Row) -> str:
    """Against each kind of unlike devices by its name."""
    if len(row.scaling_against) > 1:
        return ", ".join(f"{one.scaling.median:.2f}× {one.devices}" for one in row.scaling_against)
    return NOTHING if row.scaling is None else f"{row.scaling:.2f}×"


def efficiency(row: Row) -> str:
    return NOTHING if row.efficiency is None else f"{row.efficiency:.0%}"


def memory(row: Row) -> str:
    """Values of the devices joined by +; one process for several devices has one value for all."""
    return "+".join(f"{value:,.0f}" for value in row.of_each(MEMORY)) or NOTHING


def batch(row: Row) -> str:
    """As published tables write it: 128x8=1024 (lr=0.4), or 85+43=128 where devices have unlike shares."""
    if not row.shares:  # a command keeps its batch to itself
        return NOTHING
    unequal = len(set(row.shares)) > 1
    shares = "+".join(map(str, row.shares)) if unequal else f"{row.shares[0]}x{row.device_count}"
    return f"{shares + '=' if row.device_count > 1 else ''}{row.cell.batch_size} (lr={row.cell.learning_rate:g})"


def joined(values: Sequence[float]) -> str:
    """A value for each device, or what they all lie between if they are many."""
    if len(values) <= FEW_DEVICES:
        return "+".join(f"{value:,.0f}" for value in values) or NOTHING
    ends = dict.fromkeys(f"{value:,.0f}" for value in (min(values), max(values)))
    return f"{len(values)} × {'-'.join(ends)}"


def utilisation(row: Row) -> str:
    """As published tables write it: 97% (90-99%) for each device, or for all together if they are many."""
    devices = [f"{middle:.0%} ({100 * low:.0f}-{high:.0%})" for low, middle, high in row.utilisation]
    if len(devices) <= FEW_DEVICES:
        return " + ".join(devices) or NOTHING
    lowest, _, highest = zip(*row.utilisation, strict=True)
    return f"{len(devices)} devices: {100 * min(lowest):.0f}-{max(highest):.0%}"


def noise(row: Row) -> str:
    """What took time of the row's cores apart from its own run."""
    seen = {"other": row.noise.other, "stolen": row.noise.stolen}
    seen |= {"throttled": row.noise.throttled} if row.noise.throttled else {}
    return ", ".join(f"{name} {100 * value:.1f} %" for name, value in seen.items() if value is not None) or NOTHING


def in_words(quantity: Quantity, value: float | None) -> str:
    return NOTHING if value is None else quantity.text(value)


def part(value: float | None) -> str:
    return in_words(TEST_ACCURACY, value)


def accuracy(value: Estimate | None) -> str:
    """With its interval over repeats, which differ in their seeds."""
    if value is None or value.low is None:
        return part(value.median if value else None)
    return f"{part(value.median)} ({part(value.low)}–{part(value.high)})"


def never_there(row: Row) -> bool:
    """Whether half of its runs or more ended below the target; what was not evaluated could not get there."""
    return row.target is not None and row.estimate(TEST_ACCURACY) is not None and row.median(SECONDS_TO_TARGET) is None


def until_target(row: Row, value: float | None) -> str:
    return NEVER if never_there(row) else number(value)


def median(quantity: Quantity, heading: str, stacked: str = "") -> Column:
    return Column(heading, lambda row: in_words(quantity, row.median(quantity)), stacked=stacked)


COLUMNS = (
    Column("framework", lambda row: row.cell.framework, number=False),
    Column("devices", where, number=False, stacked="de-\nvices"),
    median(SPEED, SPEED.label, stacked="images\n/s"),
    Column("95 % interval", lambda row: interval(row.estimate(SPEED)), stacked="95 %\ninterval"),
    median(SECONDS, "s"),
    Column("s/epoch", lambda row: number(row.seconds_per_epoch), stacked="s per\nepoch"),
    median(FIRST_STEP, FIRST_STEP.label, stacked="first\nstep"),
    Column("scaling", scaling, stacked="scal-\ning"),
    Column("efficiency", efficiency, stacked="eff."),
    Column("MiB", memory),
    Column("status", lambda row: row.status, number=False),
)


def speed_columns(rows: Iterable[Row]) -> tuple[Column, ...]:
    """With the efficiency against a wrapped device where there is one."""
    if all(row.wrapped_efficiency is None for row in rows):
        return COLUMNS
    place = 1 + next(index for index, column in enumerate(COLUMNS) if column.heading == "efficiency")
    wrapped = Column(
        "efficiency, wrapped",
        lambda row: NOTHING if row.wrapped_efficiency is None else f"{row.wrapped_efficiency:.0%}",
        stacked="wrap-\nped",
    )
    return (*COLUMNS[:place], wrapped, *COLUMNS[place:])


TRAINING_COLUMNS = (
    Column("framework", lambda row: row.cell.framework, number=False),
    Column("devices", where, number=False, stacked="de-\nvices"),
    Column("batch", batch, number=False),
)
ACCURACY_COLUMNS = (
    Column("training accuracy", lambda row: accuracy(row.estimate(TRAIN_ACCURACY)), stacked="training\naccuracy"),
    Column("test accuracy", lambda row: accuracy(row.estimate(TEST_ACCURACY)), stacked="test\naccuracy"),
    median(WAITING, WAITING.label, stacked="waiting\nfor data"),
    median(EVALUATION_SECONDS, "evaluation s", stacked="evalu-\nation s"),
)


FEW_DEVICES = 4
RESOURCE_COLUMNS = (
    Column("framework", lambda row: row.cell.framework, number=False),
    Column("devices", where, number=False, stacked="de-\nvices"),
    Column("idle MiB", lambda row: joined(row.of_each(IDLE_MEMORY)), stacked="idle\nMiB"),
    Column("peak − idle MiB", lambda row: joined(row.of_each(MEMORY)), stacked="peak −\nidle MiB"),
    Column("utilisation", utilisation, stacked="utilisation\n(lowest-highest)"),
    median(PROCESSOR_SPEED, PROCESSOR_SPEED.label, stacked="images\n/CPU-s"),
    Column("noise on its cores", noise, number=False, stacked="noise on\nits cores"),
)


def resource_columns(rows: Iterable[Row]) -> tuple[Column, ...]:
    """With energy and the quantities of plug-ins, of which some row has a value."""
    rows = list(rows)
    known = [quantity for quantity in (*WHERE_KNOWN, *brought()) if any(row.of_runs(quantity) for row in rows)]
    return (*RESOURCE_COLUMNS, *(median(quantity, quantity.label) for quantity in known))


def accuracy_columns(rows: Iterable[Row]) -> tuple[Column, ...]:
    """Those of which some row has a value, the way to an asked-for target among them; none if there is no such."""
    rows = list(rows)
    targets = sorted({row.target for row in rows if row.target is not None})
    reached = [
        column
        for target in targets
        for column in (
            Column(f"s to {target:g}", lambda row: until_target(row, row.median(SECONDS_TO_TARGET))),
            Column(f"images to {target:g}", lambda row: until_target(row, row.median(IMAGES_TO_TARGET))),
        )
    ]
    known = [column for column in (*ACCURACY_COLUMNS, *reached) if any(column.text(row) != NOTHING for row in rows)]
    return (*TRAINING_COLUMNS, *known) if known else ()


def tables(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Rows that may be compared, under a title that says what they share."""
    ordered = list(rows)
    name = titled(ordered)
    places = {text: place for place, text in enumerate(dict.fromkeys(map(name, ordered)))}
    ordered.sort(key=lambda row: places[name(row)])
    return [(text, list(group)) for text, group in groupby(ordered, key=name)]


def titled(rows: Sequence[Row], *, source: bool = True) -> Callable[[Row], str]:
    """How rows are titled: also by their machine where there are several, since these are never compared in a table."""
    machine = machine_of(rows)

    def name(row: Row, length: str) -> str:
        return title(row, length, source=source) + machine(row)

    # Rows of as many steps but other epochs, as with a batch for each device, were told their steps.
    lengths: dict[tuple[str, int], set[int | None]] = {}
    for row in rows:
        lengths.setdefault((name(row, ""), row.cell.steps), set()).add(row.whole_epochs)
    return lambda row: name(row, length_text(row, by_steps=len(lengths[name(row, ""), row.cell.steps]) > 1))


def length_text(row: Row, *, by_steps: bool) -> str:
    return length_in_words(row.cell.steps, None if by_steps else row.whole_epochs)


def machine_of(rows: Iterable[Row]) -> Callable[[Row], str]:
    """What titles say of it: nothing where there is only one; those of one description are still several."""
    several = len(machines(rows)) > 1
    return lambda row: f", machine {row.machine}" if several and row.machine else ""


def machines(rows: Iterable[Row]) -> dict[str, str]:
    """What each is, by its id."""
    return {row.machine: row.machine_description or "" for row in rows if row.machine}


def title(row: Row, length: str, *, source: bool = True) -> str:
    """What rows share that may be compared; data sources may be among what differs."""
    if row.command:
        return "commands: from start to end, as a shell's `time` sees them"
    size = (
        f"batch {row.cell.batch_size // row.device_count} per device (weak scaling)"
        if row.cell.scaling == "weak"
        else f"batch {row.cell.batch_size} in all (strong scaling)"
    )
    cores = f"{row.cores_per_device} core{'s' if row.cores_per_device > 1 else ''} per device"
    cores = f", {cores}" if "cpu" in row.cell.devices else ""
    data = f"{row.cell.data} {row.cell.input}".strip() + ", " if source else ""
    parameters = "unknown workload" if row.parameters is None else f"{row.parameters:,} parameters"
    return f"{row.cell.workload}: {parameters}, {size}, {length}, {data}{row.cell.precision}, {update(row)}{cores}"


NEVER = "∞"
NEVER_FOOTNOTE = (
    "s to, images to: of training until the test accuracy was first reached. "
    f"{NEVER}: half of the runs or more never reached it."
)
FOOTNOTE = (
    "images/s: training only, median of fresh processes with its 95 % interval. s: training time. "
    "first step: seconds, compilation included. scaling: images/s against one of its devices. "
    "MiB: peak minus idle memory of each device. "
    "utilisation: part of the training time in which its cores or GPU were busy, median and range of samples. "
    "other, stolen: parts of its cores' time that other programs, or the host of a virtual machine, took."
)


def with_places(columns: Iterable[Column], rows: Iterable[Row]) -> tuple[Column, ...]:
    """The columns of a table of these rows, in which no two have the same framework and devices."""
    place = placed(rows)
    return tuple(replace(column, text=place) if column.heading == DEVICES else column for column in columns)
