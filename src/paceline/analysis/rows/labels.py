"""How a row is called where it stands: its devices, and what sets it apart from the others of a table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from paceline.analysis.rows.row import Row
from paceline.plan.cell_names import SETTINGS as CELL_SETTINGS
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


def _of_cell(name: str) -> Callable[[Row], str]:
    """As cells have it in their names."""
    return lambda row: CELL_SETTINGS[name](row.cell)


SETTINGS: SettingTexts = {
    "workload": lambda row: row.cell.workload,
    "framework": lambda row: row.cell.framework,
    DEVICES: where,
    "slow": _of_cell("slow"),
    "batch": lambda row: f"batch {row.cell.batch_size}",
    "scaling": _of_cell("scaling"),
    "learning rate": _of_cell("learning rate"),
    "length": lambda row: length_in_words(row.cell.steps, row.whole_epochs),
    "update": update,
    "data": lambda row: row.cell.data,
    "input": _of_cell("input"),
    "precision": _of_cell("precision"),
    "warm-up": _of_cell("warm-up"),
    "evaluation": _of_cell("evaluation"),
    "cores": lambda row: f"cores {row.cores_per_device}",
    "seed": _of_cell("seed"),
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
