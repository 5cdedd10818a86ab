"""How a row is called where it stands: its devices, and what sets it apart from the others of a table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from paceline.analysis.rows.row import Row
from paceline.plan.cell_names import distinctions, length_in_words

SettingTexts = Mapping[str, Callable[[Row], str]]
DEVICES = "devices"
OF_SETS = ("slow", "batch", "learning rate", "seed", "machine")  # that all frameworks may share on one device set


def where(row: Row) -> str:
    """The devices, and what is special about their use."""
    shares = ":".join(map(str, row.shares)) if len(set(row.shares)) > 1 else ""
    special = ("wrapped" if row.cell.wrapped else "", "simulated" if row.cell.slow else "")
    return " ".join(filter(None, (row.cell.devices, shares, *special)))


def update(row: Row) -> str:
    return f"{row.cell.update} on {row.cell.parameter_device}" if row.cell.parameter_device else row.cell.update


SETTINGS: SettingTexts = {
    "workload": lambda row: row.cell.workload,
    "framework": lambda row: row.cell.framework,
    DEVICES: where,
    "slow": lambda row: f"slow {':'.join(f'{times:g}' for times in row.cell.slow)}" if row.cell.slow else "",
    "batch": lambda row: f"batch {row.cell.batch_size}",
    "scaling": lambda row: f"{row.cell.scaling} scaling",
    "learning rate": lambda row: f"lr={row.cell.learning_rate:g}",
    "length": lambda row: length_in_words(row.cell.steps, row.whole_epochs),
    "update": update,
    "data": lambda row: row.cell.data,
    "input": lambda row: row.cell.input,
    "precision": lambda row: row.cell.precision,
    "warm-up": lambda row: f"warm-up {row.cell.warmup}",
    "evaluation": lambda row: f"evaluated {row.cell.evaluate}",
    "cores": lambda row: f"cores {row.cores_per_device}",
    "seed": lambda row: f"seed {row.cell.seed}",
    "quick": lambda row: "quick" if row.quick else "",
    "version": lambda row: row.framework_version or "",
    "machine": lambda row: f"machine {row.machine}" if row.machine else "",
}


def labels(rows: Sequence[Row], place: Callable[[Row], Hashable], settings: SettingTexts = SETTINGS) -> list[str]:
    """For each row what is peculiar to it among those of the same place."""
    return distinctions(rows, place, settings)


def placed(rows: Iterable[Row], *, frameworks: bool = True) -> Callable[[Row], str]:
    """The devices of each row, with what sets it apart from others of its framework there; or of all frameworks."""
    kept = list(rows)
    settings = SETTINGS if frameworks else {name: SETTINGS[name] for name in OF_SETS}
    found = labels(kept, lambda row: (row.cell.framework, where(row)), settings)
    names = {id(row): f"{where(row)} {label}".strip() for row, label in zip(kept, found, strict=True)}
    return lambda row: names.get(id(row)) or where(row)
