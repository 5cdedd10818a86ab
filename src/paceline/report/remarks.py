"""What must be said below a table: causes, reasons, marks, and which rows are not the same training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from paceline.metrics import Row
from paceline.report.columns import batch, joined, where


def remarks(rows: Iterable[Row], *, memory: bool = True) -> list[str]:
    """About all rows, then about single ones, those of which the same is to be said together."""
    rows = list(rows)
    about: dict[tuple[str, str], list[str]] = {}
    for row, name in zip(rows, _names(rows), strict=True):
        for said in _about_one(row, memory):
            about.setdefault(said, []).append(name)
    return [*_about_all(rows), *(_sentence(names, *said) for said, names in about.items())]


def _names(rows: list[Row]) -> list[str]:
    """Framework and devices, and the batch where that is not enough."""
    short = [f"{row.framework} {where(row)}" for row in rows]
    return [
        name if short.count(name) == 1 or row.command else f"{name} {batch(row)}"
        for row, name in zip(rows, short, strict=True)
    ]


def _about_all(rows: list[Row]) -> Iterator[str]:
    if any(row.quick for row in rows):
        yield "scaled down for a small machine (--quick): not the sizes that were published"
    if proven := list(dict.fromkeys(row.framework for row in rows if row.verified)):
        yield f"verified to compute the same network: {', '.join(proven)}"
    yield from unlike_trainings(rows)


def _about_one(row: Row, memory: bool) -> Iterator[tuple[str, str]]:
    """What it is, and why or what that means."""
    if row.reason:
        yield f"{'is ' if row.status == 'noisy' else ''}{row.status}", row.reason
    if row.failed_run:
        yield "log", f"paceline log {row.failed_run}"
    for mark in row.marks if row.status != "skipped" else ():
        yield "" if mark in where(row) else f"is {mark}", MARKS[mark](row)
    if memory and row.memory_of == "all devices" and row.peak_memory_mib and not row.command:
        yield "", "one process serves all devices, so its memory is that of all together"


def _sentence(names: list[str], state: str, words: str) -> str:
    names = list(dict.fromkeys(names))
    if len(names) > 1 and state.startswith("is "):
        state = f"are {state.removeprefix('is ')}"
    return f"{', '.join(names)}{' ' if state else ''}{state}: {words}"


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


def slowed(row: Row) -> str:
    factors = [f"device {index} by {times:g}×" for index, times in enumerate(row.slow) if times > 1]
    return f"devices were slowed down on purpose ({', '.join(factors)})"


def early_memory(row: Row) -> str:
    own = f"; its own allocator needed {joined(row.allocator_memory_mib)} MiB" if row.allocator_memory_mib else ""
    started, most = joined(row.started_memory_mib), joined(row.peak_memory_mib)
    return f"of {most} MiB that the driver saw at most, {started} MiB were taken before anything was built{own}"


MARKS: dict[str, Callable[[Row], str]] = {
    "preallocated": early_memory,
    "oversubscribed": lambda row: "devices share cores",
    "simulated": slowed,
}
