"""Shapes of a table besides one row per cell: the same rows, arranged as published tables are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from paceline.metrics import Row
from paceline.report.columns import NOTHING, accuracy, batch, number, remarks, title, where

SOURCES = ("fake:device", "fake:host", "fake:python")
MISSING = "N/A"  # as published tables say what crashed


@dataclass(frozen=True)
class Grid:
    """A table that is words already: a title above it, notes below."""

    title: str
    lines: tuple[tuple[str, ...], ...]  # the first has the headings
    notes: tuple[str, ...]
    turns: bool = True  # may be turned on its side to fit

    def transposed(self) -> Grid:
        return Grid(self.title, tuple(zip(*self.lines, strict=True)), self.notes)


def grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def by_source(rows: Sequence[Row]) -> list[Grid]:
    """A table for each update: device sets down, frameworks across, and one value for each data source joined by /."""
    return [_sources(name, group) for name, group in grouped(rows, lambda row: title(row, source=False)).items()]


def _sources(name: str, rows: list[Row]) -> Grid:
    order = {source: position for position, source in enumerate(SOURCES)}
    sources = sorted({row.data for row in rows}, key=lambda source: (order.get(source, len(order)), source))

    def joined(cells: dict[str, Row]) -> str:
        """One word where all have no value for the same cause."""
        values = [_speed(cells.get(source)) for source in sources]
        return values[0] if len(set(values)) == 1 and not values[0][0].isdigit() else "/".join(values)

    unit = f"images/s, {'/'.join(source.removeprefix('fake:') for source in sources)}"
    return Grid(f"{name}: {unit}", _matrix_lines(rows, joined), (_sureness(rows), *remarks(rows)))


def _matrix_lines(rows: list[Row], text: Callable[[dict[str, Row]], str]) -> tuple[tuple[str, ...], ...]:
    """Device sets down, frameworks across; a place is given its rows by data source."""
    frameworks = list(dict.fromkeys(row.framework for row in rows))
    devices = list(dict.fromkeys(where(row) for row in rows))
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((where(row), row.framework), {})[row.data] = row
    lines = [(device, *(text(found.get((device, name), {})) for name in frameworks)) for device in devices]
    return (("", *frameworks), *lines)


def _speed(row: Row | None) -> str:
    if row is None:
        return NOTHING
    return number(row.images_per_second.median) if row.images_per_second else row.status


def _sureness(rows: list[Row]) -> str:
    """How sure the numbers are: most shapes have no room for an interval at each."""
    speeds = [row.images_per_second for row in rows if row.images_per_second]
    widths = sorted(
        (speed.high - speed.low) / speed.median for speed in speeds if speed.low is not None and speed.high is not None
    )
    if not widths:
        return "one run each: how sure these numbers are is not known; more repeats tell"
    middle = widths[len(widths) // 2]
    return f"95 % intervals of images/s are {middle:.0%} of the value wide in the middle and {widths[-1]:.0%} at most"


def matrix(rows: Sequence[Row]) -> list[Grid]:
    """Framework by device set: a table for time, one for memory, and below each cell's own block."""
    return [grid for name, group in grouped(rows, title).items() for grid in _two_matrices(name, group)]


def _two_matrices(name: str, rows: list[Row]) -> list[Grid]:
    def seconds(cells: dict[str, Row]) -> str:
        return next((f"{row.seconds:.3f}s" for row in cells.values() if row.seconds is not None), MISSING)

    def memory(cells: dict[str, Row]) -> str:
        found = [" + ".join(f"{value:.0f}" for value in row.peak_memory_mib) for row in cells.values()]
        return f"{found[0]} MiB" if found and found[0] else MISSING

    blocks = [_block(row) for row in rows]
    return [
        Grid(f"{name}: time", _matrix_lines(rows, seconds), (_sureness(rows),)).transposed(),
        Grid(f"{name}: memory, peak minus idle", _matrix_lines(rows, memory), (*blocks, *remarks(rows))).transposed(),
    ]


def _block(row: Row) -> str:
    """One cell in a line: what was run, how long it took and what it held."""
    name = f"{row.framework} {where(row)}"
    if row.seconds is None:
        return f"{name}: {MISSING} ({row.status}): {row.reason}"
    held = [
        f"({idle + peak:.0f} - {idle:.0f}) MiB"
        for idle, peak in zip(row.idle_memory_mib, row.peak_memory_mib, strict=False)
    ]
    return f"{name}: real {row.seconds:.3f}s in training, peak memory {' + '.join(held) or NOTHING}"


def long(rows: Sequence[Row]) -> list[Grid]:
    """One line for each cell, with the machine as a number that is explained below."""
    machines = list(dict.fromkeys(_infrastructure(row) for row in rows if row.machine))
    headings = ("infra", "model", "batch size", "gpus", "accuracy", "epochs", "s/epoch", "samples/s")
    lines = [_long_line(row, machines) for row in rows]
    notes = [f"infrastructure {index}: {text}" for index, text in enumerate(machines, 1)]
    notes.append("accuracy: of validation. gpus: 0 is training on processors. (2-90%): 2 devices, 90 % busy")
    frameworks = ", ".join(dict.fromkeys(row.framework for row in rows))
    return [Grid(frameworks, (headings, *lines), (*notes, _sureness(list(rows)), *remarks(rows)), turns=False)]


def _infrastructure(row: Row) -> str:
    framework = row.framework.partition("+")[0]
    return f"{row.machine_description}, {framework} {row.framework_version}"


def _long_line(row: Row, machines: list[str]) -> tuple[str, ...]:
    busy = f" ({row.device_count}-{row.utilisation[0][1]:.0%})" if row.utilisation else ""
    return (
        str(1 + machines.index(_infrastructure(row))) if row.machine else "?",
        row.workload,
        batch(row),
        str(row.device_count if "cuda" in row.devices else 0),
        accuracy(row.test_accuracy) if row.test_accuracy else "x",
        "?" if row.epochs is None else f"{row.epochs:.3g}",
        number(row.seconds_per_epoch) if row.seconds_per_epoch else row.status,
        _speed(row) + busy if row.images_per_second else "x",
    )


def transposed(rows: Sequence[Row]) -> list[Grid]:
    """A table for each framework: device sets across, and a line for each thing that was measured."""
    groups = grouped(rows, lambda row: f"{row.workload} with {row.framework} {row.framework_version or ''}".strip())
    return [_per_framework(name, group) for name, group in groups.items()]


TRANSPOSED: dict[str, Callable[[Row], str]] = {
    "Training time (s)": lambda row: number(row.seconds),
    "Average time per epoch (s)": lambda row: number(row.seconds_per_epoch),
    "Images processed per s": _speed,
    "Training accuracy": lambda row: accuracy(row.train_accuracy),
    "Test accuracy": lambda row: accuracy(row.test_accuracy),
    "Maximum memory (MiB)": lambda row: number(math.fsum(row.peak_memory_mib) or None),
}


def _per_framework(name: str, rows: list[Row]) -> Grid:
    headings = ("", *(_heading(row) for row in rows))
    lines = [(what, *(text(row) for row in rows)) for what, text in TRANSPOSED.items()]
    first = rows[0]
    setup = (
        f"data: {' '.join(dict.fromkeys(f'{row.data} {row.input}'.strip() for row in rows))}",
        f"machine: {first.machine_description or 'none: nothing was run'}",
        f"batch: {', '.join(f'{_heading(row)} {batch(row)}' for row in rows)}",
        f"epochs: {', '.join(dict.fromkeys('?' if row.epochs is None else f'{row.epochs:.3g}' for row in rows))}, "
        f"seed {first.seed} and following",
        "memory: peak minus idle, all devices together",
        _sureness(rows),
    )
    return Grid(name, (headings, *lines), (*setup, *remarks(rows)), turns=False)


def _heading(row: Row) -> str:
    return f"{'GPU' if 'cuda' in row.devices else 'CPU'} ({row.device_count})"


LAYOUTS: dict[str, Callable[[Sequence[Row]], list[Grid]]] = {
    "sources": by_source,
    "matrix": matrix,
    "long": long,
    "transposed": transposed,
}
