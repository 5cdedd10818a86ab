"""Figures that follow from others of their table by arithmetic: times, speeds, ratios of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from paceline.studies.audit import printed_rows as p
from paceline.studies.audit.rules.definition import Checks, TableCheck, contradiction, figures
from paceline.studies.audit.rules.robust_statistics import FAR, spread

RATIO_TOLERANCE = 0.01  # beyond the printed digits, for figures that were computed from others
FEWEST_ROWS = 5  # that show how far the rows of a table stray
UNKNOWN_STRAY = 0.10  # where they are fewer: one of the two may hold validation (7 %) and the first batch
LEAST_STRAY = 0.03  # some epochs leave out an incomplete batch, and a few rows stray more than most
SAME_COUNT = 0.02  # so near to 60,000 is 60,000

TimedEpoch = tuple[p.PrintedRow, p.PrintedNumber, p.PrintedNumber]  # with images/s and seconds of an epoch


def epoch_time(row: p.PrintedRow) -> Checks:
    total, epochs, printed = row.one(p.SECONDS), row.one(p.EPOCHS), row.one(p.EPOCH_SECONDS)
    if total and epochs and printed and epochs.value > 0:
        right = total.value / epochs.value
        within = printed.step + total.step / epochs.value + RATIO_TOLERANCE * right
        text = contradiction(printed, right, within, f"{total.text} / {epochs.text} epochs")
        yield TableCheck(row.where, text, figures(row, p.SECONDS, p.EPOCH_SECONDS))


def images_per_epoch(table: p.PrintedTable) -> Checks:
    """Images/s times seconds per epoch are the images to train on."""
    groups: dict[tuple[str, ...], list[TimedEpoch]] = {}
    for row in table.rows:
        speed, epoch = row.one(p.IMAGES_PER_SECOND), _epoch(row)
        if speed and speed.value > 0 and epoch:
            dataset = p.dataset_in(" ".join(row.about)) or table.dataset
            groups.setdefault((dataset,) if dataset in p.DATASETS else ("", *row.about), []).append((row, speed, epoch))
    for (dataset, *_), rows in groups.items():
        if dataset:
            yield from _images_of(table, dataset, rows)
        else:
            yield from _same_images(rows)


def _images_of(table: p.PrintedTable, dataset: str, rows: list[TimedEpoch]) -> Checks:
    """Of a known data set; where all rows agree on another number, that is a note."""
    to_train, to_test = p.DATASETS[dataset]
    name, (count, _) = p.DATASET_NAMES[dataset], _count(rows)
    near = sum(abs(product / (to_train + to_test) - 1) <= SAME_COUNT for product in _products(rows))
    right = to_train
    if near * 2 > len(rows):
        right += to_test
        text = (
            f"images/s x time per epoch = {right:,} images in {near} of {len(rows)} rows, but {name} has "
            f"{to_train:,} to train on: {to_test:,} test images were counted too"
        )
        yield TableCheck(table.title, text)
    elif _agree(rows) and abs(count / to_train - 1) > UNKNOWN_STRAY / 2:
        right = count
        text = f"images/s x time per epoch = {count:,} images, but {name} has {to_train:,} to train on"
        yield TableCheck(table.title, text, counts=False)
    yield from _against(right, rows)


def _same_images(rows: list[TimedEpoch]) -> Checks:
    """Of an unknown data set the same number in all rows, if it is so in most of them."""
    count, stray = _count(rows)
    if len(rows) >= FEWEST_ROWS and FAR * stray <= UNKNOWN_STRAY:
        yield from _against(count, rows)


def _against(count: int, rows: list[TimedEpoch]) -> Checks:
    """How far speed and time may stray is what most rows of the table do; too few of them show no more than a note."""
    known = len(rows) >= FEWEST_ROWS
    stray = FAR * _count(rows)[1]
    allowed = min(max(stray, LEAST_STRAY), UNKNOWN_STRAY)
    for row, speed, epoch in rows:
        right = count / epoch.value
        rounding = speed.step + right * epoch.step / epoch.value
        within = max(rounding, right * allowed) if known else rounding + right * LEAST_STRAY
        text = contradiction(speed, right, within, f"{count:,} images / {epoch.text} s")
        time = p.EPOCH_SECONDS if p.EPOCH_SECONDS in row.quantities else p.SECONDS
        counts = known or abs(speed.value - right) > rounding + right * UNKNOWN_STRAY
        yield TableCheck(row.where, text, figures(row, p.IMAGES_PER_SECOND, time), counts=counts)


def _products(rows: list[TimedEpoch]) -> list[float]:
    return [speed.value * epoch.value for _, speed, epoch in rows]


def _count(rows: list[TimedEpoch]) -> tuple[int, float]:
    """Images by most rows, and the spread of its logarithm."""
    middle, stray = spread([math.log(product) for product in _products(rows)])
    return round(math.exp(middle)), stray


def _agree(rows: list[TimedEpoch]) -> bool:
    products = sorted(_products(rows))
    if len(rows) < FEWEST_ROWS:
        return len(rows) > 1 and products[-1] <= products[0] * (1 + UNKNOWN_STRAY / 2)
    return FAR * _count(rows)[1] <= UNKNOWN_STRAY


def _epoch(row: p.PrintedRow) -> p.PrintedNumber | None:
    """Seconds of an epoch, from the whole time if it is there: that is what was measured."""
    total, epochs = row.one(p.SECONDS), row.one(p.EPOCHS)
    if total and epochs and epochs.value > 0 and total.value > 0 and row.one(p.EPOCH_SECONDS):
        seconds = total.value / epochs.value
        return p.PrintedNumber(seconds, total.step / epochs.value, f"{seconds:.4g}")
    found = row.one(p.EPOCH_SECONDS)
    return found if found and found.value > 0 else None


def step_time(row: p.PrintedRow) -> Checks:
    """Images/s times the time of a step is the batch, of one device or of all; a step may be in s or ms."""
    speed, step, devices = row.one(p.IMAGES_PER_SECOND), row.one(p.STEP_SECONDS), row.one(p.DEVICES)
    if not (speed and step and row.batch and step.value > 0):
        return
    total = row.batch.total or sum(row.batch.shares)
    batches = {total, total * int(devices.value if devices and not row.batch.shares else 1)} - {0}
    rights = [(size, unit, size * per / step.value) for size in sorted(batches) for unit, per in TIME_UNITS.items()]
    if rights and speed.value > 0:
        size, unit, right = min(rights, key=lambda each: abs(math.log(speed.value / each[2])))
        rounding = speed.step + right * step.step / step.value
        text = contradiction(speed, right, rounding + right * LEAST_STRAY, f"{size} images / {step.text} {unit}")
        counts = abs(speed.value - right) > rounding + right * UNKNOWN_STRAY
        yield TableCheck(row.where, text, figures(row, p.IMAGES_PER_SECOND, p.STEP_SECONDS), counts=counts)


def speed_of_one(row: p.PrintedRow) -> Checks:
    """Images/s of a device times devices."""
    one, devices, printed = row.one(p.SPEED_OF_ONE), row.one(p.DEVICES), row.one(p.IMAGES_PER_SECOND)
    if one and devices and printed and devices.value > 0:
        right = one.value * devices.value
        within = printed.step + one.step * devices.value + RATIO_TOLERANCE * right
        text = contradiction(printed, right, within, f"{one.text} x {devices.text} devices")
        yield TableCheck(row.where, text, figures(row, p.SPEED_OF_ONE, p.IMAGES_PER_SECOND))


TIME_UNITS = {"s": 1, "ms": 1000}


def summary_time(row: p.PrintedRow) -> Checks:
    """A time of the summary and the same in the log."""
    printed, logged = row.one(p.SECONDS), row.one(p.LOG_SECONDS)
    if printed and logged:
        text = contradiction(printed, logged.value, printed.step + logged.step, f"{logged.text} s in the log")
        yield TableCheck(row.where, text, figures(row, p.SECONDS, p.LOG_SECONDS))


def speed_up(table: p.PrintedTable) -> Checks:
    base_of = _bases(table)
    elsewhere = any(_is_a_base(row) for row in table.rows)
    for row in table.rows:
        printed, base = row.one(p.SPEED_UP), base_of(row)
        if base and elsewhere and not base.one(p.SPEED_UP):
            continue
        if printed and base and (found := _ratio(row, base)):
            quantity, ratio = found
            within = printed.step + ratio.step + RATIO_TOLERANCE * ratio.value
            text = contradiction(printed, ratio.value, within, ratio.text)
            yield TableCheck(row.where, text, figures(row, p.SPEED_UP, quantity) + figures(base, quantity))


def _is_a_base(row: p.PrintedRow) -> bool:
    """Several devices that others are compared with."""
    devices, printed = row.one(p.DEVICES), row.one(p.SPEED_UP)
    return bool(devices and printed and devices.value > 1 and printed.value == 1)


def efficiency(table: p.PrintedTable) -> Checks:
    base_of = _bases(table)
    for row in table.rows:
        printed, devices, base = row.one(p.EFFICIENCY), row.one(p.DEVICES), base_of(row)
        found = (p.SPEED_UP, gain) if (gain := row.one(p.SPEED_UP)) else base and _ratio(row, base)
        if printed and devices and devices.value > 1 and found:
            text = _inefficient(printed, found[1], devices)
            yield TableCheck(row.where, text, figures(row, p.EFFICIENCY, found[0]))


def _inefficient(printed: p.PrintedNumber, gain: p.PrintedNumber, devices: p.PrintedNumber) -> str | None:
    """92 may be meant as 92%: of a part and a percentage, the one that is off by the smaller factor."""
    right, how = gain.value / devices.value, f"{gain.text} / {devices.text} devices"
    within = gain.step / devices.value + RATIO_TOLERANCE * right
    if printed.percent or printed.value <= max(1, 10 * right):
        return contradiction(printed, right, printed.step + within, how)
    return contradiction(printed, 100 * right, printed.step + 100 * within, f"100 x {how}")


def _bases(table: p.PrintedTable) -> Callable[[p.PrintedRow], p.PrintedRow | None]:
    """Finds the one row about the same thing on one device; of several, none is known to be meant."""
    alone: dict[object, list[p.PrintedRow]] = {}
    for row in table.rows:
        if (devices := row.one(p.DEVICES)) and devices.value == 1:
            alone.setdefault(row.about, []).append(row)
            alone.setdefault((row.about, row.setting), []).append(row)

    def base_of(row: p.PrintedRow) -> p.PrintedRow | None:
        devices, found = row.one(p.DEVICES), alone.get(row.about, [])
        if len(found) > 1:
            found = alone.get((row.about, row.setting), []) if row.setting is not None else []
        return found[0] if devices and devices.value > 1 and len(found) == 1 else None

    return base_of


def _ratio(row: p.PrintedRow, base: p.PrintedRow) -> tuple[str, p.PrintedNumber] | None:
    """How many times as fast a row is, by the first quantity that both have."""
    for quantity, faster_is_more in ((p.IMAGES_PER_SECOND, True), (p.EPOCH_SECONDS, False), (p.SECONDS, False)):
        here, there = row.one(quantity), base.one(quantity)
        if here and there and here.value > 0 and there.value > 0:
            over, under = (here, there) if faster_is_more else (there, here)
            value = over.value / under.value
            step = value * (over.step / over.value + under.step / under.value)
            return quantity, p.PrintedNumber(value, step, f"{over.text} / {under.text}")
    return None
