"""From a cell back to the flags of `paceline run` that make it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from paceline.plan.cell import Cell

SAID: dict[str, Callable[[Cell], str]] = {  # settings that a cell has by another name or in another form
    "batch_size": lambda cell: str(cell.batch_size) if cell.scaling == "strong" else "",
    "batch_per_device": lambda cell: str(cell.batch_size // cell.device_set.count) if cell.scaling == "weak" else "",
    "lr": lambda cell: repr(cell.learning_rate),
    "slow": lambda cell: ",".join(f"{device}:{times:g}" for device, times in enumerate(cell.slow) if times > 1),
    "single": lambda cell: "wrapped" if cell.wrapped else "",
}


def run_command(cell: Cell, settings: Iterable[str], others: Mapping[str, str]) -> list[str]:
    """The words of the command, with these settings of the cell in this order; `others` are said instead of its own."""
    values = {name: others[name] if name in others else _said(cell, name) for name in settings}
    flags = {f"--{name.replace('_', '-')}": value for name, value in values.items() if value}
    return ["paceline", "run", cell.workload, *(word for flag in flags.items() for word in flag)]


def _said(cell: Cell, name: str) -> str:
    return SAID[name](cell) if name in SAID else str(getattr(cell, name))
