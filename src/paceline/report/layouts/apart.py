"""What tells rows apart that would have the same place in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from paceline.metrics import Row
from paceline.report.columns import where
from paceline.report.layouts.grid import grouped


def update(row: Row) -> str:
    return f"{row.update} on {row.parameter_device}" if row.parameter_device else row.update


SETTINGS: dict[str, Callable[[Row], str]] = {
    "workload": lambda row: row.workload,
    "framework": lambda row: row.framework,
    "devices": where,
    "slow": lambda row: f"slow {':'.join(f'{times:g}' for times in row.slow)}" if row.slow else "",
    "batch": lambda row: f"batch {row.batch_size}",
    "scaling": lambda row: f"{row.scaling_kind} scaling",
    "learning rate": lambda row: f"lr={row.learning_rate:g}",
    "steps": lambda row: f"{row.steps} steps",
    "update": update,
    "data": lambda row: row.data,
    "input": lambda row: row.input,
    "precision": lambda row: row.precision,
    "cores": lambda row: f"cores {row.cores_per_device}",
    "seed": lambda row: f"seed {row.seed}",
    "quick": lambda row: "quick" if row.quick else "",
    "version": lambda row: row.framework_version or "",
    "machine": lambda row: f"machine {row.machine}" if row.machine else "",
}


def told_apart(rows: Sequence[Row], place: Callable[[Row], Hashable]) -> list[str]:
    """For each row the settings in which any two of the same place differ; a number where none does."""
    groups = grouped(rows, place).values()
    differing = [text for text in SETTINGS.values() if any(len(set(map(text, group))) > 1 for group in groups)]
    labels, seen = [], Counter[Hashable]()
    for row in rows:
        label = " ".join(filter(None, (text(row) for text in differing)))
        seen[place(row), label] += 1
        count = seen[place(row), label]
        labels.append(f"{label} ({count})".strip() if count > 1 else label)
    return labels
