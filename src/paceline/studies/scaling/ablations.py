"""The ablations of a cell: the same training with one thing after the other taken away, down to one device alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from paceline.analysis.rows.scaling import kinds_of
from paceline.catalog.frameworks import find
from paceline.plan.cell import Cell
from paceline.plan.pilots import on_one_device
from paceline.plan.shares import given_shares

NO_INPUT = "fake:device"  # one batch that lies on the devices
NO_EXCHANGE = "independent"


@dataclass(frozen=True)
class Ablations:
    """Where there is nothing to take away, an ablation is the cell before it."""

    whole: Cell
    without_input: Cell
    without_exchange: Cell | None  # None where the framework cannot do without
    alone: tuple[Cell, ...]  # for each device
    bases: tuple[Cell, ...]  # one device of each kind
    counts: tuple[int, ...]  # how many devices are like it

    def named(self) -> dict[str, Cell]:
        """All of them by the names that reports use."""
        exchange = {"without exchange": self.without_exchange} if self.without_exchange else {}
        alone = {f"device {index} alone": cell for index, cell in enumerate(self.alone)}
        bases = {f"one {cell.devices}" if len(self.bases) > 1 else "one device": cell for cell in self.bases}
        return {"whole": self.whole, "without input": self.without_input, **exchange, **alone, **bases}

    def cells(self) -> list[Cell]:
        """What has to be measured, each once."""
        return list(dict.fromkeys(self.named().values()))


def make_ablations(cell: Cell, cards: Sequence[str] = ()) -> Ablations:
    """For a cell of several devices whose shares are known, as are the cards if these are GPUs."""
    without_input = replace(cell, data=NO_INPUT, input="", evaluate="never")
    can_part = NO_EXCHANGE in find(cell.framework).framework.updates
    count = cell.device_set.count
    shares = given_shares(cell.shares, cell.batch_size, cell.device_set)
    slow = cell.slow or (1.0,) * count
    kinds = kinds_of(count, cards)
    whole_batch = cell.batch_size // (count if cell.scaling == "weak" else 1)
    return Ablations(
        whole=cell,
        without_input=without_input,
        without_exchange=replace(without_input, update=NO_EXCHANGE, parameter_device="") if can_part else None,
        alone=tuple(on_one_device(without_input, index, shares[index], slow[index]) for index in range(count)),
        bases=tuple(on_one_device(without_input, first, whole_batch) for first, *_ in kinds),
        counts=tuple(map(len, kinds)),
    )
