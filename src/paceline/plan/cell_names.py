"""Names of cells, short and no two alike: where they would be, they say what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from paceline.catalog.workloads import all_workloads
from paceline.plan.cell import Cell
from paceline.plan.shares import EQUAL

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def distinctions(
    items: Sequence[Item], place: Callable[[Item], Hashable], settings: Mapping[str, Callable[[Item], str]]
) -> list[str]:
    """For each item the settings in which any two of the same place differ; a number where none does."""
    groups = grouped(items, place).values()
    differing = [text for text in settings.values() if any(len(set(map(text, group))) > 1 for group in groups)]
    labels, seen = [], Counter[Hashable]()
    for item in items:
        label = " ".join(filter(None, (text(item) for text in differing)))
        seen[place(item), label] += 1
        count = seen[place(item), label]
        labels.append(f"{label} ({count})".strip() if count > 1 else label)
    return labels


def cell_name(cell: Cell) -> str:
    """Of a cell by itself; others of its plan may have the same."""
    if cell.command:
        return f"{cell.workload} {cell.framework} {cell.devices}"
    use = [cell.devices, *([cell.shares] if cell.shares != EQUAL else []), *(["wrapped"] if cell.wrapped else [])]
    update = "" if cell.update == "replicated" else f" {cell.update}"
    return f"{cell.workload} {cell.framework} {' '.join(use)}{update} {cell.data} batch {cell.batch_size}"


def cell_names(cells: Iterable[Cell]) -> dict[Cell, str]:
    """Of the cells of a plan or a list, each with what sets it apart from the others."""
    kept = list(dict.fromkeys(cells))
    labels = distinctions(kept, cell_name, SETTINGS)
    return {cell: f"{cell_name(cell)}{_added(label)}" for cell, label in zip(kept, labels, strict=True)}


def _added(label: str) -> str:
    return f"{' ' if label.startswith('(') else ', '}{label}" if label else ""


def length_in_words(steps: int, whole_epochs: int | None) -> str:
    """In whole epochs if it can be: the steps then follow from the batch."""
    if not whole_epochs:
        return f"{steps} steps"
    return f"{whole_epochs} epoch{'s' if whole_epochs > 1 else ''}"


def _length(cell: Cell) -> str:
    workload = all_workloads().get(cell.workload)
    return length_in_words(
        cell.steps, workload.whole_epochs(cell.steps, cell.batch_size, cell.input) if workload else None
    )


def _cores(cell: Cell) -> str:
    """`on cores 0-3`: all of its devices together."""
    numbers = sorted({core for device in cell.cores for core in device})
    breaks = [place for place, (one, other) in enumerate(pairwise(numbers), 1) if other > one + 1]
    parts = [numbers[start:end] for start, end in pairwise([0, *breaks, len(numbers)])] if numbers else []
    return f"on cores {'+'.join(f'{part[0]}-{part[-1]}' if len(part) > 1 else str(part[0]) for part in parts)}"


SETTINGS: dict[str, Callable[[Cell], str]] = {  # that are not in its name
    "slow": lambda cell: f"slow {':'.join(f'{times:g}' for times in cell.slow)}" if cell.slow else "",
    "scaling": lambda cell: f"{cell.scaling} scaling",
    "learning rate": lambda cell: f"lr={cell.learning_rate:g}",
    "length": _length,
    "parameter device": lambda cell: f"parameters on {cell.parameter_device}" if cell.parameter_device else "",
    "input": lambda cell: cell.input,
    "precision": lambda cell: cell.precision,
    "warm-up": lambda cell: f"warm-up {cell.warmup}",
    "evaluation": lambda cell: f"evaluated {cell.evaluate}",
    "cores": _cores,
    "seed": lambda cell: f"seed {cell.seed}",
}
