"""Short runs of each device alone, by which a batch is divided among unlike devices."""

from __future__ import annotations

from msgspec.structs import replace

from paceline.plan.cell import Cell
from paceline.plan.shares import EQUAL, MEASURED

STEPS, WARMUP = 20, 5
ROUNDS = 3  # of each device, by turns: a short run in a busy moment must not decide alone


def pilots(cell: Cell) -> list[Cell]:
    """For each device of a set whose shares are to be measured: the same training there alone, on an equal share."""
    return [_alone(cell, index) for index in range(cell.device_set.count)] if cell.shares == MEASURED else []


def _alone(cell: Cell, index: int) -> Cell:
    share = max(1, cell.batch_size // cell.device_set.count)
    slow = cell.slow[index] if cell.slow else 1.0
    return replace(
        on_one_device(cell, index, share, slow),
        scaling="strong",
        update="independent",
        parameter_device="",
        steps=STEPS,
        warmup=WARMUP,
        evaluate="never",
    )


def on_one_device(cell: Cell, index: int, batch_size: int, slow: float = 1.0) -> Cell:
    """The same on one of its devices, which exchanges nothing, whatever the update."""
    devices = cell.device_set
    return replace(
        cell,
        devices="1xcpu" if devices.kind == "cpu" else devices.devices[index],
        cores=(cell.cores[index],),
        oversubscribed=False,
        shares=EQUAL,
        batch_size=batch_size,
        slow=(slow,) if slow > 1 else (),
    )
