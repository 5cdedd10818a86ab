"""Rows of results, whatever table they come from: quantities by name, with the digits that were printed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from paceline.workloads import CIFAR10_IMAGES, IMAGENET_IMAGES, MNIST_IMAGES

SECONDS = "training time"
EPOCH_SECONDS = "time per epoch"
IMAGES_PER_SECOND = "images/s"
EPOCHS = "epochs"
DEVICES = "devices"
BUSY_DEVICES = "busy devices"
BATCH = "batch"
MEMORY = "memory"
PEAK_MEMORY = "peak memory"
IDLE_MEMORY = "idle memory"
SPEED_UP = "speed-up"
EFFICIENCY = "efficiency"

# Images to train on and to test with.
DATASETS = {"cifar": (CIFAR10_IMAGES, 10_000), "mnist": (MNIST_IMAGES, 10_000), "imagenet": (IMAGENET_IMAGES, 50_000)}
DATASET_NAMES = {"cifar": "CIFAR-10", "mnist": "MNIST", "imagenet": "ImageNet"}
DATASET_NAME = re.compile("|".join(DATASETS), re.IGNORECASE)

DIGITS = re.compile(r"[~≈]?\s*(-?(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d{1,15})?)\s*(%?)")
GOES_ON = re.compile(r"[eE]?\d|\.\d|\s*[/x:]\s*\d")  # 228/228/219, 64x8 and 1e3 are no plain numbers
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
class Number:
    value: float
    step: float  # one in the last printed digit: what rounding, or cutting off, may have taken
    text: str

    @property
    def percent(self) -> bool:
        """Printed with its sign, so that the value is known to be a part."""
        return self.text.endswith("%")

    @property
    def decimals(self) -> int:
        return len(self.text.partition(".")[2].rstrip("%"))


@dataclass(frozen=True)
class Batch:
    text: str
    shares: tuple[int, ...]  # of the devices, where they are written
    total: int | None  # where it is written


@dataclass(frozen=True)
class Row:
    where: str
    about: tuple[str, ...] = ()  # in words, what was measured
    quantities: Mapping[str, tuple[Number, ...]] = field(default_factory=dict)
    accuracies: Mapping[str, Number] = field(default_factory=dict)
    batch: Batch | None = None

    def one(self, quantity: str) -> Number | None:
        """The quantity where the row has one figure for it."""
        found = self.quantities.get(quantity, ())
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class Table:
    title: str
    rows: tuple[Row, ...]
    dataset: str = ""  # a key of DATASETS, where it is known


@dataclass(frozen=True)
class Claim:
    """Prose that says that `better` is `factor` times as good as `worse`."""

    where: str
    quantity: str
    better: str
    worse: str
    factor: Number


@dataclass(frozen=True)
class Command:
    where: str
    text: str
    devices: int  # that it stands for


@dataclass(frozen=True)
class Document:
    name: str
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...] = ()
    commands: tuple[Command, ...] = ()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that contradicts others, or words that contradict cells."""

    where: str
    rule: str
    text: str  # the arithmetic in one line
    counts: bool = True  # False: worth a note, but no contradiction


Verdicts = Iterator[Finding | None]  # None: it was checked, and it is right


def number(text: str) -> Number | None:
    """The number that a cell begins with; 92% is 0.92."""
    text = text.strip("*_` ")
    found = DIGITS.match(text)
    if not found or GOES_ON.match(text, found.end()):
        return None
    digits, per = found[1].replace(",", ""), 100 if found[2] else 1
    step = 10.0 ** -len(digits.partition(".")[2])
    return Number(float(digits) / per, step / per, digits + found[2])


def numbers(text: str) -> tuple[Number, ...]:
    """Numbers joined by +, one for each device; none if a part is no number."""
    found = [number(part) for part in text.split("+")]
    return tuple(each for each in found if each) if all(found) else ()


def exact(value: int) -> Number:
    """A count, which nobody rounds."""
    return Number(value, 0.0, str(value))


def batch(text: str) -> Batch | None:
    """128x8=1024, 85+43=128 or 512; a learning rate behind it does not matter."""
    found = BATCH_FORM.match(text.strip())
    if not found:
        plain = number(text)
        return Batch(text, (), int(plain.value)) if plain else None
    share, times, product, summands, total = found.groups()
    if summands:
        return Batch(text, tuple(map(int, summands.split("+"))), int(total) if total else None)
    return Batch(text, (int(share),) * int(times), int(product) if product else None)


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
