"""What a cell is scaled against: the same training on one device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

from paceline.measured import Measured
from paceline.stats import Estimate, quotient, ratio

SAME = (
    *("workload", "framework", "update", "parameter_device", "data", "input"),
    *("precision", "scaling", "warmup", "seed"),
)


class Bases:
    """The cells on one device, by all that must be the same for another cell to be held against them."""

    def __init__(self, measured: Iterable[Measured]) -> None:
        self._found: dict[Hashable, list[Measured]] = defaultdict(list)
        for one in measured:
            cell = one.cell
            if cell.device_set.count == 1 and not cell.slow and not cell.command:
                self._found[_training(one, cell.batch_size, cell.wrapped)].append(one)

    def scaling(self, one: Measured, *, wrapped: bool) -> Estimate | None:
        """Images/s against one device, with an interval, or in a wrapper; nobody knows what commands train."""
        if one.cell.command:
            return None
        if one.cell.device_set.count == 1 and one.cell.wrapped == wrapped:
            return Estimate(1.0) if one.good else None
        base, compare = self._base(one, wrapped), quotient if wrapped else ratio
        return compare(one.values("images_per_second"), base.values("images_per_second")) if base else None

    def _base(self, one: Measured, wrapped: bool) -> Measured | None:
        """On one of the same cards, not on any other."""
        devices = one.cell.device_set
        batch_size = one.cell.batch_size / (devices.count if one.cell.scaling == "weak" else 1)
        bases = self._found.get(_training(one, batch_size, wrapped), [])
        return next((base for base in bases if set(base.cell.device_set.indices) <= set(devices.indices)), None)


def _training(one: Measured, batch_size: float, wrapped: bool) -> Hashable:
    cell = one.cell
    hardware = (one.planned.machine, cell.device_set.kind, len(cell.cores[0]))
    return (wrapped, batch_size, *hardware, *(getattr(cell, name) for name in SAME))
