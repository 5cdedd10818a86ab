"""Which published figures follow from others: by arithmetic, along their column, or from the columns next to it.

An estimate from other figures determines one within rounding if the last printed digits of all of them, by one more or
less, explain the difference; roughly, if it is off by 10 % at most.

This knows nothing of the rules of `paceline audit`: it is the measure that they are held against.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from paceline.catalog.published import Benchmark, PublishedFigure, PublishedRow

WITHIN = 0.10  # of a figure, an estimate determines it
LEAST_NEIGHBOURS = 3  # columns next to it that agree with each other
IMAGES = {"images_per_second.log_window": 50_000, "images_per_second.epoch_of_60000": 60_000}
EPOCHS = ("seconds_per_epoch.time_cost", "seconds_per_epoch.fit_with_validation")
FIT = "seconds.fit_with_validation"
SHELL = ("seconds.wall_with_startup", "seconds.user", "seconds.system")
DIFFERENCE = ("memory.peak_minus_idle", "memory.peak", "memory.idle")


@dataclass(frozen=True)
class Estimate:
    value: float
    rounding: float = 0.0  # what the last digits of its figures leave open: tables round and cut off

    def __truediv__(self, other: Estimate) -> Estimate:
        return Estimate(self.value / other.value, self.value / other.value * (self.part + other.part))

    def __mul__(self, other: Estimate) -> Estimate:
        return Estimate(self.value * other.value, self.value * other.value * (self.part + other.part))

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.value + other.value, self.rounding + other.rounding)

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.value - other.value, self.rounding + other.rounding)

    @property
    def part(self) -> float:
        return self.rounding / self.value if self.value else 0.0


UNKNOWN = Estimate(math.nan)
Estimates = Iterator[Estimate]


def printed(text: str) -> Estimate:
    return Estimate(float(text), 10.0 ** -len(text.partition(".")[2]))


@dataclass(frozen=True)
class Figure:
    """One printed number: of a record, a metric, and a device where each has its own."""

    record: PublishedRow
    metric: str
    position: int

    @property
    def value(self) -> float:
        return self.printed.value

    @property
    def printed(self) -> Estimate:
        return printed(self.record.metrics[self.metric].printed[self.position])

    @property
    def is_wrong(self) -> bool:
        return is_misprint(self.record.metrics[self.metric])

    @property
    def kind(self) -> str:
        return self.metric.partition(".")[0]


def is_misprint(metric: PublishedFigure) -> bool:
    """Its digits are wrong: not what they count, or their unit."""
    return metric.error is not None and metric.error.kind in ("misprint", "contradiction")


def figures(benchmark: Benchmark) -> list[Figure]:
    return [
        Figure(record, name, position)
        for record in benchmark.records
        for name, metric in record.metrics.items()
        for position in range(len(metric.printed))
    ]


def how_determined(figure: Figure, benchmark: Benchmark) -> str:
    """The first way that leads to its value, or nothing."""
    for name, estimates in WAYS.items():
        if any(abs(each.value - figure.value) <= WITHIN * figure.value for each in estimates(figure, benchmark)):
            return name
    return ""


def within_rounding(figure: Figure, benchmark: Benchmark) -> bool:
    """One of these estimates is as near as the printed digits can tell."""
    differences = [figure.printed - each for way in WAYS.values() for each in way(figure, benchmark)]
    return any(abs(each.value) <= each.rounding * (1 + 1e-9) for each in differences)


def by_arithmetic(figure: Figure, benchmark: Benchmark) -> Estimates:
    """From the other figures of its row."""
    right = {name: metric for name, metric in figure.record.metrics.items() if not is_misprint(metric)}
    found = {name: [printed(text) for text in metric.printed] for name, metric in right.items()}
    one = {name: values[0] for name, values in found.items()}
    epochs = Estimate(figure.record.epochs) if figure.record.epochs else UNKNOWN
    epoch = next((one[name] for name in EPOCHS if name in one), UNKNOWN)
    if figure.metric in EPOCHS:
        yield one.get(FIT, UNKNOWN) / epochs
        yield from (Estimate(images) / one[name] for name, images in IMAGES.items() if name in one)
    elif figure.metric == FIT:
        yield epoch * epochs
    elif figure.metric in IMAGES:
        yield Estimate(IMAGES[figure.metric]) / epoch
    elif figure.metric == "utilisation.devices":
        yield Estimate(figure.record.device_count)
    elif figure.metric in DIFFERENCE and all(name in found for name in DIFFERENCE):
        left, peak, idle = (found[name][figure.position] for name in DIFFERENCE)
        yield {DIFFERENCE[0]: peak - idle, DIFFERENCE[1]: left + idle, DIFFERENCE[2]: peak - left}[figure.metric]


def from_processor_time(figure: Figure, benchmark: Benchmark) -> Estimates:
    """Real time is user and system time, if it is so in all other runs of the program: it has one busy thread."""
    runs = [
        each for each in benchmark.records if SHELL[0] in each.metrics and each.framework == figure.record.framework
    ]
    times = [[each.metrics[name].value for name in SHELL] for each in runs if each is not figure.record]
    if (
        figure.metric in SHELL
        and len(times) >= LEAST_NEIGHBOURS
        and all(abs((user + system) / real - 1) <= WITHIN for real, user, system in times)
    ):
        real, user, system = (printed(figure.record.metrics[name].printed[0]) for name in SHELL)
        yield from {SHELL[0]: [user + system], SHELL[1]: [real - system]}.get(figure.metric, [])


def along_the_column(figure: Figure, benchmark: Benchmark) -> Estimates:
    """On the line, in logarithms, between the same setting on fewer and on more devices."""
    by_count = column(figure, benchmark)
    here = figure.record.device_count
    fewer, more = [n for n in by_count if n < here], [n for n in by_count if n > here]
    if fewer and more and figure.value > 0:
        low, high = max(fewer), min(more)
        part = math.log(here / low) / math.log(high / low)
        before, after = by_count[low], by_count[high]
        value = math.exp((1 - part) * math.log(before.value) + part * math.log(after.value))
        yield Estimate(value, value * ((1 - part) * before.part + part * after.part))


def column(figure: Figure, benchmark: Benchmark) -> dict[int, Estimate]:
    """What its setting has on each number of devices; a median of several."""
    found: dict[int, list[Estimate]] = {}
    for each in benchmark.records:
        metric = each.metrics.get(figure.metric)
        if (
            metric
            and len(metric.printed) == 1
            and each.device_kind == "cuda"
            and setting(each) == setting(figure.record)
        ):
            found.setdefault(each.device_count, []).append(printed(metric.printed[0]))
    return {count: median(values) for count, values in found.items() if all(each.value > 0 for each in values)}


def median(values: list[Estimate]) -> Estimate:
    return Estimate(statistics.median(each.value for each in values), max(each.rounding for each in values))


def setting(record: PublishedRow) -> tuple[object, ...]:
    share = record.batch_per_device if "x" in record.batch or "per GPU" in record.batch else record.batch.split(" ")[0]
    return (record.table, record.framework_there, record.workload, record.machine, record.data, record.update, share)


def from_other_columns(figure: Figure, benchmark: Benchmark) -> Estimates:
    """The median of columns next to it in the same row, where these agree with each other."""
    here = figure.record
    others = [
        printed(metric.printed[0])
        for each in benchmark.records
        for name, metric in each.metrics.items()
        if each is not here and (each.table, each.machine, each.workload) == (here.table, here.machine, here.workload)
        if each.device_count == here.device_count and each.batch == here.batch and name.startswith("images_per_second")
    ]
    is_speed = figure.kind == "images_per_second"
    if is_speed and len(others) >= LEAST_NEIGHBOURS and alike(others):
        yield median(others)


def as_a_sum(figure: Figure, benchmark: Benchmark) -> Estimates:
    """Cards times what each holds, where that is the same in all other columns."""
    if figure.metric != "memory.device_total":
        return
    by_count = column(figure, benchmark)
    each = [value / Estimate(count) for count, value in by_count.items() if count != figure.record.device_count]
    if len(each) >= LEAST_NEIGHBOURS and alike(each):
        yield median(each) * Estimate(figure.record.device_count)


def alike(estimates: list[Estimate]) -> bool:
    values = [each.value for each in estimates]
    return max(values) <= (1 + WITHIN) * min(values)


WAYS = {
    "arithmetic": by_arithmetic,
    "processor time": from_processor_time,
    "sum over cards": as_a_sum,
    "other columns": from_other_columns,
    "its column": along_the_column,
}
