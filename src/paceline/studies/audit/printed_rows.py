"""Rows of results, whatever table they come from: quantities by name, with the digits that were printed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from paceline.catalog.workloads import CIFAR10_IMAGES, IMAGENET_IMAGES, MNIST_IMAGES

SECONDS = "training time"
EPOCH_SECONDS = "time per epoch"
IMAGES_PER_SECOND = "images/s"
EPOCHS = "epochs"
DEVICES = "devices"
BUSY_DEVICES = "busy devices"
BUSY_PERCENT = "utilisation"
USER_SECONDS = "user time"
SYSTEM_SECONDS = "system time"
LOG_SECONDS = "time in the log"
STEP_SECONDS = "time per step"
SPEED_OF_ONE = "images/s of a device"
BATCH = "batch"
MEMORY = "memory"
PEAK_MEMORY = "peak memory"
IDLE_MEMORY = "idle memory"
SPEED_UP = "speed-up"
EFFICIENCY = "efficiency"

WITHOUT_UNIT = " without a unit"  # where others of the same column have one

SETTINGS = (DEVICES, EPOCHS, BATCH)

# Images to train on and to test with.
DATASETS = {"cifar": (CIFAR10_IMAGES, 10_000), "mnist": (MNIST_IMAGES, 10_000), "imagenet": (IMAGENET_IMAGES, 50_000)}
DATASET_NAMES = {"cifar": "CIFAR-10", "mnist": "MNIST", "imagenet": "ImageNet"}
DATASET_NAME = re.compile(r"cifar|(?<!e)mnist|(?<!tiny)(?<!tiny[-_ ])imagenet(?![-_ ]?(?:\d\d|v2|te\b))", re.IGNORECASE)

DIGITS = re.compile(r"[~≈]?\s*(-?(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d{1,15})?)(?:([kK])(?![A-Za-z])|\s?(%)|)")
# 228/228/219, 64x8, 1e3, 3-4, 2 + 1 and 3 of 5 are no plain numbers.
GOES_ON = re.compile(r"[eE]?\d|\.\d|\s*[/x:+]\s*\d|[-–—]\d|\s{1,9}of\s{1,9}\d")
PART = r"(?:(\d{1,9}(?:\.\d{1,9})?)\s?"
DURATION = re.compile(
    rf"{PART}h(?:ours?|rs?)?\s{{0,3}})?{PART}m(?:in|ins|inutes?)?(?![a-z])\s{{0,3}})?{PART}s(?:ecs?|econds?)?)?$"
)
MILLISECONDS = re.compile(r"\d[\d.,]{0,20}\s?(?:ms|milliseconds?)$")
COUNT = r"(\d{1,9})(?!\d)"
BATCH_FORM = re.compile(
    rf"{COUNT}\s*[x×]\s*(\d{{1,5}})(?!\d)(?:\s*=\s*{COUNT})?|(\d{{1,9}}(?:\s*\+\s*\d{{1,9}})+)(?!\d)(?:\s*=\s*{COUNT})?"
)
COUNTED_DEVICES = re.compile(  # at the start: "GTX 980 GPU" is one
    r"\s*(?:gpus?|devices?|cards?)\s*\(?(\d{1,9})\)?\s*$|\s*(\d{1,9})\s*(?:x\s*)?(?:gpus?|devices?|cards?)\b",
    re.IGNORECASE,
)

DEVICE_NAMES = re.compile(r"(?=.*[A-Za-z])[\w :.-]+(\+[\w :.-]+)*")


@dataclass(frozen=True)
class PrintedNumber:
    value: float
    step: float  # one in the last printed digit: what rounding, or cutting off, may have taken
    text: str

    @property
    def percent(self) -> bool:
        """Printed with its sign, so that the value is known to be a part."""
        return self.text.endswith("%")

    @property
    def decimals(self) -> int:
        return len(self.text.partition(".")[2].rstrip("%kK"))


@dataclass(frozen=True)
class PrintedBatch:
    text: str
    shares: tuple[int, ...]  # of the devices, where they are written
    total: int | None  # where it is written


@dataclass(frozen=True)
class PrintedMachine:
    name: str
    devices: int
    alone: bool = True  # False: the text may mean several of them


@dataclass(frozen=True)
class PrintedRow:
    where: str
    about: tuple[str, ...] = ()  # in words, what was measured
    quantities: Mapping[str, tuple[PrintedNumber, ...]] = field(default_factory=dict)
    accuracies: Mapping[str, PrintedNumber] = field(default_factory=dict)
    batch: PrintedBatch | None = None
    units: Mapping[str, str] = field(default_factory=dict)  # as printed, of quantities that have one
    setting: tuple[str, ...] | None = None  # all that was held fixed as devices were added; None where that is open
    machine: PrintedMachine | None = None
    weights_mib: float = 0.0  # that each device holds at least

    @property
    def figures(self) -> Iterator[str]:
        """What was measured, in contrast to what was set."""
        yield from (name for name in self.quantities if name not in SETTINGS)
        yield from self.accuracies

    def one(self, quantity: str) -> PrintedNumber | None:
        """The quantity where the row has one figure for it."""
        found = self.quantities.get(quantity)
        return found[0] if found and len(found) == 1 else None


@dataclass(frozen=True)
class PrintedTable:
    title: str
    rows: tuple[PrintedRow, ...]
    dataset: str = ""  # a key of DATASETS, where it is known
    memory_heading: str = ""  # by which tables of the same kind of memory know each other
    is_log: bool = False
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of quantities with several: theirs, the others


@dataclass(frozen=True)
class ProseRatio:
    """Prose that says that `better` is `factor` times as good as `worse`."""

    where: str
    quantity: str
    better: str
    worse: str
    factor: PrintedNumber
    devices: int | None = None  # None: it names no number of devices, so it speaks of all


@dataclass(frozen=True)
class RankedPlace:
    """Rows that an order names: a framework on so many devices, or one row by its name."""

    name: str
    framework: str = ""
    fewest: int = 0
    most: int = 0
    row: str = ""  # where it stands


@dataclass(frozen=True)
class ProseOrder:
    """Prose that says which of several is the fastest or smallest, best first."""

    where: str
    quantities: tuple[str, ...]  # any of them decides
    places: tuple[RankedPlace, ...]


@dataclass(frozen=True)
class PrintedCommand:
    where: str
    text: str
    devices: int  # that it stands for
    heading: str = ""  # what it claims to run: a framework


@dataclass(frozen=True)
class Document:
    name: str
    tables: tuple[PrintedTable, ...]
    claims: tuple[ProseRatio, ...] = ()
    orders: tuple[ProseOrder, ...] = ()
    commands: tuple[PrintedCommand, ...] = ()


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that contradicts others, or words that contradict cells."""

    where: str
    rule: str
    text: str  # the arithmetic in one line
    counts: bool = True  # False: worth a note, but no contradiction


def number(text: str) -> PrintedNumber | None:
    """The number that a cell begins with; 92% is 0.92, and 12k is 12000."""
    text = text.strip("*_` ")
    found = DIGITS.match(text)
    if not found or GOES_ON.match(text, found.end()):
        return None
    digits, times, sign = found[1].replace(",", ""), 1000 if found[2] else 1, found[3] or ""
    scale = times / (100 if sign else 1)
    step = 10.0 ** -len(digits.partition(".")[2])
    return PrintedNumber(float(digits) * scale, step * scale, digits + (found[2] or sign))


def duration(text: str) -> PrintedNumber | None:
    """Seconds: 43.5, 43.5s, 2m27.192s, 3 min or 1h 20m."""
    text = text.strip("*_` ")
    if MILLISECONDS.match(text):
        return None
    found = DURATION.match(text)
    if not found or not any(found.groups()):
        return number(text)
    units = [(part, seconds) for part, seconds in zip(found.groups(), (3600, 60, 1), strict=True) if part]
    last, smallest = units[-1]
    step = smallest * 10.0 ** -len(last.partition(".")[2])
    value = sum(float(part) * seconds for part, seconds in units)
    return PrintedNumber(
        value, step, last if [smallest] == [seconds for _, seconds in units] == [1] else f"{value:.10g}"
    )


def numbers(text: str) -> tuple[PrintedNumber, ...]:
    """Numbers joined by +, one for each device; none if a part is no number."""
    found = [number(part) for part in text.split("+")]
    return tuple(each for each in found if each) if all(found) else ()


MEMORY_UNIT = re.compile(r"(?<![A-Za-z])([KMG]i?B)(?![A-Za-z/])", re.IGNORECASE)
MEBIBYTES = {"kb": 1e3 / 2**20, "mb": 1e6 / 2**20, "gb": 1e9 / 2**20, "kib": 2**-10, "mib": 1.0, "gib": 1024.0}


def memory_unit(text: str) -> str:
    found = MEMORY_UNIT.search(text)
    return found[1] if found else ""


def exact(value: int) -> PrintedNumber:
    """A count, which is never rounded."""
    return PrintedNumber(value, 0.0, str(value))


def batch(text: str) -> PrintedBatch | None:
    """128x8=1024, 85+43=128 or 512; a learning rate behind it does not matter."""
    found = BATCH_FORM.match(text.strip())
    if not found:
        plain = number(text)
        return PrintedBatch(text, (), int(plain.value)) if plain else None
    share, times, product, summands, total = found.groups()
    if summands:
        return PrintedBatch(text, tuple(map(int, summands.split("+"))), int(total) if total else None)
    return PrintedBatch(text, (int(share),) * int(times), int(product) if product else None)


def device_count(text: str) -> int | None:
    """8, 2xcpu, GPU (8), 8 GPUs or names joined by +."""
    text = text.strip()
    counted = re.match(r"(\d{1,9})(?:$|\s*x)", text) or COUNTED_DEVICES.match(text)
    if counted:
        return int(next(group for group in counted.groups() if group))
    return text.count("+") + 1 if DEVICE_NAMES.fullmatch(text) else None


def dataset_in(text: str) -> str:
    """The last data set that a text names."""
    found = DATASET_NAME.findall(text)
    return found[-1].lower() if found else ""


COUNT_OF_KIND = re.compile(r"^\d{1,9}\s?[x×]\s?|^\d{1,9}\s?(?=(?:gpu|cpu|device|card)s?$)|:\d{1,9}$", re.IGNORECASE)


def device_kind(text: str) -> str | None:
    """The one kind of all devices of a set: Titan X for Titan X + Titan X, None for mixed ones."""
    kinds = {COUNT_OF_KIND.sub("", part.strip()).lower().rstrip("s") for part in text.split("+")}
    return kinds.pop() if len(kinds) == 1 else None
