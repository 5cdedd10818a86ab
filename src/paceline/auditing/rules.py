"""What must be true of a results table by arithmetic alone; a rule says nothing where figures for it are missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from paceline.auditing.prose import claims, commands
from paceline.auditing.rows import (
    BUSY_DEVICES,
    DATASET_NAMES,
    DATASETS,
    DEVICES,
    EFFICIENCY,
    EPOCH_SECONDS,
    EPOCHS,
    IDLE_MEMORY,
    IMAGES_PER_SECOND,
    MEMORY,
    PEAK_MEMORY,
    SECONDS,
    SPEED_UP,
    Document,
    Finding,
    Number,
    Row,
    Table,
    Verdicts,
)

RATIO_TOLERANCE = 0.01  # beyond the printed digits, for figures that were computed from others
SPEED_TOLERANCE = 0.10  # for a speed against a time, which may have been taken at different moments
SAME_COUNT = 0.02  # so near to 60,000 is 60,000
SAME_MEMORY = 0.001  # so alike is every card when it is filled and not used
FEWEST_COUNTS = 3  # of devices, before memory that grows with them is called filled cards
CARDS_GIB = (2, 3, 4, 6, 8, 11, 12, 16, 24, 32, 40, 48, 80, 96)
FILLED = 0.88  # part of a card that is taken where all of it is: TensorFlow took 10,944 MiB of a K80 with 12 GB


@dataclass(frozen=True)
class Rule:
    name: str
    meaning: str
    check: Callable[[Document, str], Verdicts]


def examine(document: Document) -> list[Finding | None]:
    """Every check that the figures allow."""
    return [verdict for rule in RULES for verdict in rule.check(document, rule.name)]


def of_rows(check: Callable[[Row], Iterator[str | None]]) -> Callable[[Document, str], Verdicts]:
    """A rule that looks at one row at a time."""

    def checked(document: Document, name: str) -> Verdicts:
        for table in document.tables:
            for row in table.rows:
                for text in check(row):
                    yield Finding(where=row.where, rule=name, text=text) if text else None

    return checked


def of_tables(check: Callable[[Table], Iterator[tuple[str, str] | None]]) -> Callable[[Document, str], Verdicts]:
    """A rule that needs the rows of a table together."""

    def checked(document: Document, name: str) -> Verdicts:
        for table in document.tables:
            for said in check(table):
                yield Finding(where=said[0], rule=name, text=said[1]) if said else None

    return checked


def epoch_time(row: Row) -> Iterator[str | None]:
    total, epochs, printed = row.one(SECONDS), row.one(EPOCHS), row.one(EPOCH_SECONDS)
    if total and epochs and printed and epochs.value > 0:
        right = total.value / epochs.value
        within = printed.step + total.step / epochs.value + RATIO_TOLERANCE * right
        yield contradiction(printed, right, within, f"{total.text} / {epochs.text} epochs")


def images_per_epoch(table: Table) -> Iterator[tuple[str, str] | None]:
    """Images/s times seconds per epoch are the images to train on."""
    if table.dataset not in DATASETS:
        return
    to_train, to_test = DATASETS[table.dataset]
    rows = [
        (row, speed, epoch) for row in table.rows if (speed := row.one(IMAGES_PER_SECOND)) and (epoch := _epoch(row))
    ]
    products = [speed.value * epoch.value for _, speed, epoch in rows]
    near = [abs(product / (to_train + to_test) - 1) <= SAME_COUNT for product in products]
    both = sum(near) * 2 > len(near)
    if both:
        name = DATASET_NAMES[table.dataset]
        yield (
            table.title,
            f"images/s x time per epoch = {to_train + to_test:,} images in {sum(near)} of {len(near)} rows, but {name} "
            f"has {to_train:,} to train on: {to_test:,} test images were counted too",
        )
    right_count = to_train + to_test if both else to_train
    for row, speed, epoch in rows:
        right = right_count / epoch.value
        within = speed.step + right * (epoch.step / epoch.value + SPEED_TOLERANCE)
        text = contradiction(speed, right, within, f"{right_count:,} images / {epoch.text} s")
        yield (row.where, text) if text else None


def _epoch(row: Row) -> Number | None:
    """Seconds of an epoch, from the whole time if it is there: that is what was measured."""
    total, epochs = row.one(SECONDS), row.one(EPOCHS)
    if total and epochs and epochs.value > 0 and row.one(EPOCH_SECONDS):
        seconds = total.value / epochs.value
        return Number(seconds, total.step / epochs.value, f"{seconds:.4g}")
    found = row.one(EPOCH_SECONDS)
    return found if found and found.value > 0 else None


def batch_arithmetic(row: Row) -> Iterator[str | None]:
    if row.batch and row.batch.shares and row.batch.total is not None:
        right = sum(row.batch.shares)
        yield None if right == row.batch.total else f"printed {row.batch.text}, but that makes {right}"


def number_of_devices(row: Row) -> Iterator[str | None]:
    devices, busy = row.one(DEVICES), row.one(BUSY_DEVICES)
    if not devices or not devices.value:
        return  # 0 GPUs: processors
    if row.batch and row.batch.shares:
        shares = len(row.batch.shares)
        yield (
            None
            if shares == devices.value
            else (f"printed {devices.text} devices, but the batch {row.batch.text} is that of {shares}")
        )
    if busy:
        yield (
            None
            if busy.value == devices.value
            else (f"printed {devices.text} devices, but its utilisation speaks of {busy.text}")
        )


def filled_memory(table: Table) -> Iterator[tuple[str, str] | None]:
    """Memory of all devices that is the same for each card, whatever the number of cards."""
    found = [(m, d) for row in table.rows if (m := row.one(MEMORY)) and (d := row.one(DEVICES)) and d.value > 0]
    if len({devices.value for _, devices in found}) < FEWEST_COUNTS:
        return
    each = [memory.value / devices.value for memory, devices in found]
    alike = max(each) - min(each) <= SAME_MEMORY * min(each)
    if not alike or not any(FILLED <= each[0] / (1024 * size) <= 1 for size in CARDS_GIB):
        yield None
        return
    (first, one), (last, many) = found[0], found[-1]
    yield (
        table.title,
        f"memory is devices x nearly a whole card: {first.text} / {one.text} = {each[0]:,.0f} and {last.text} / "
        f"{many.text} = {each[-1]:,.0f}; cards that are filled beforehand say nothing about the network",
    )


def memory_difference(row: Row) -> Iterator[str | None]:
    printed, peaks, idles = (row.quantities.get(name, ()) for name in (MEMORY, PEAK_MEMORY, IDLE_MEMORY))
    if not len(printed) == len(peaks) == len(idles):
        return
    for memory, peak, idle in zip(printed, peaks, idles, strict=True):
        within = memory.step + peak.step + idle.step
        yield contradiction(memory, peak.value - idle.value, within / 2, f"{peak.text} - {idle.text}")


def speed_up(table: Table) -> Iterator[tuple[str, str] | None]:
    for row in table.rows:
        printed, base = row.one(SPEED_UP), _base(row, table)
        if printed and base and (ratio := _ratio(row, base)):
            within = printed.step + ratio.step + RATIO_TOLERANCE * ratio.value
            text = contradiction(printed, ratio.value, within, ratio.text)
            yield (row.where, text) if text else None


def efficiency(table: Table) -> Iterator[tuple[str, str] | None]:
    for row in table.rows:
        printed, devices, base = row.one(EFFICIENCY), row.one(DEVICES), _base(row, table)
        gain = row.one(SPEED_UP) or (base and _ratio(row, base))
        if printed and devices and devices.value > 1 and gain:
            text = _inefficient(printed, gain, devices)
            yield (row.where, text) if text else None


def _inefficient(printed: Number, gain: Number, devices: Number) -> str | None:
    """92 may be meant as 92%: of a part and a percentage, the one that is off by the smaller factor."""
    right, how = gain.value / devices.value, f"{gain.text} / {devices.text} devices"
    within = gain.step / devices.value + RATIO_TOLERANCE * right
    if printed.percent or printed.value <= max(1, 10 * right):
        return contradiction(printed, right, printed.step + within, how)
    return contradiction(printed, 100 * right, printed.step + 100 * within, f"100 x {how}")


def _base(row: Row, table: Table) -> Row | None:
    """The one row about the same thing on one device; of several, nobody knows which was meant."""
    devices = row.one(DEVICES)
    if not devices or devices.value <= 1:
        return None
    alone = [one for one in table.rows if one.about == row.about and (n := one.one(DEVICES)) and n.value == 1]
    return alone[0] if len(alone) == 1 else None


def _ratio(row: Row, base: Row) -> Number | None:
    """How many times as fast a row is, by the first quantity that both have."""
    for quantity, faster_is_more in ((IMAGES_PER_SECOND, True), (EPOCH_SECONDS, False), (SECONDS, False)):
        here, there = row.one(quantity), base.one(quantity)
        if here and there and here.value > 0 and there.value > 0:
            over, under = (here, there) if faster_is_more else (there, here)
            value = over.value / under.value
            step = value * (over.step / over.value + under.step / under.value)
            return Number(value, step, f"{over.text} / {under.text}")
    return None


def accuracy_range(table: Table) -> Iterator[tuple[str, str] | None]:
    for name in {name: None for row in table.rows for name in row.accuracies}:
        found = [(row, row.accuracies[name]) for row in table.rows if name in row.accuracies]
        in_percent = any(figure.value > 1 and not figure.percent for _, figure in found)
        for row, figure in found:
            highest = 100 if in_percent and not figure.percent else 1
            wrong = f"printed {figure.text}, but {name.lower()} lies between 0 and {highest}"
            yield None if 0 <= figure.value <= highest else (row.where, wrong)


def contradiction(printed: Number, right: float, within: float, how: str) -> str | None:
    """The printed number and the right one, unless rounding explains the difference."""
    if abs(printed.value - right) <= within * (1 + 1e-9):
        return None
    shown = _with_decimals(100 * right, printed) + "%" if printed.percent else _with_decimals(right, printed)
    return f"printed {printed.text}, but {how} = {shown} ({_off(printed.value, right)})"


def _with_decimals(right: float, printed: Number) -> str:
    """As many as were printed, or more where less than two digits would be left: 0.92 beside 92, not 1."""
    digits = 1 - math.floor(math.log10(abs(right))) if right else 0
    return f"{right:.{max(printed.decimals, digits)}f}"


def _off(printed: float, right: float) -> str:
    if right <= 0 or printed <= 0:
        return "not even its sign"
    ratio = printed / right
    if ratio >= 1.5:
        return f"{ratio:.3g} times as much"
    return f"{abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'}"


RULES = (
    Rule("epoch time", "time per epoch = training time / epochs", of_rows(epoch_time)),
    Rule("images per epoch", "images/s x time per epoch = images of the data set", of_tables(images_per_epoch)),
    Rule("batch", "128x8=1024: shares make the whole batch", of_rows(batch_arithmetic)),
    Rule("devices", "devices = shares of the batch = busy devices, (8-80%)", of_rows(number_of_devices)),
    Rule("filled memory", "memory of all devices is not devices x nearly a whole card", of_tables(filled_memory)),
    Rule("memory", "memory = peak - idle of each device", of_rows(memory_difference)),
    Rule("speed-up", "speed-up = speed / speed of one device", of_tables(speed_up)),
    Rule("efficiency", "efficiency = speed-up / devices", of_tables(efficiency)),
    Rule("accuracy", "accuracy lies between 0 and 1, or 0 and 100 %", of_tables(accuracy_range)),
    Rule("claim", "a ratio in the prose is that of the table, on one device", claims),
    Rule("command", "a command asks for as many devices as its heading has", commands),
)
