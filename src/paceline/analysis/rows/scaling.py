"""What a cell is scaled against: the same training on one device that is a member of its set."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.row import DeviceScaling
from paceline.analysis.statistics.intervals import Estimate, ratio
from paceline.plan.devices import DeviceSet, parse_devices

if TYPE_CHECKING:
    from paceline.analysis.rows.row import Row

SAME = (
    *("workload", "framework", "update", "parameter_device", "data", "input", "precision"),
    *("scaling", "warmup", "seed"),
)
DIFFERENT_SPEED = 1.1  # cards of one name whose speeds surely differ by more are no equals


@dataclass(frozen=True)
class OneDeviceRow:
    """A row on one device, and how many devices of a set it stands for."""

    row: Row
    count: int


class OneDeviceRows:
    """The rows on one device, by all that must be the same for another row to be held against them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._alone: dict[Hashable, dict[int, Row]] = {}
        for row in rows:
            if row.device_count == 1 and row.of_runs(SPEED) and not row.cell.slow and not row.command:
                alone = self._alone.setdefault(training(row, wrapped=row.cell.wrapped), {})
                alone.setdefault(_members(parse_devices(row.cell.devices))[0], row)

    def of(self, row: Row, *, wrapped: bool = False) -> list[OneDeviceRow]:
        """One for each kind of device in its set, the first that was measured; none if one of these never was."""
        if row.command:
            return []  # it is not known what commands train
        if row.device_count == 1 and row.cell.wrapped == wrapped:
            return [OneDeviceRow(row, 1)]
        alone = self._alone.get(training(row, wrapped=wrapped), {})
        members = _members(parse_devices(row.cell.devices))
        kinds = [
            part
            for places in kinds_of(len(members), row.cards)
            for part in _equals([members[place] for place in places], alone)
        ]
        firsts = [next((alone[index] for index in kind if index in alone), None) for kind in kinds]
        bases = [OneDeviceRow(first, len(kind)) for first, kind in zip(firsts, kinds, strict=True) if first]
        return bases if len(bases) == len(kinds) else []


def training(row: Row, *, wrapped: bool) -> Hashable:
    """The same for rows that differ in nothing but their devices."""
    batch_size = row.cell.batch_size / (row.device_count if row.cell.scaling == "weak" else 1)
    return (
        wrapped,
        batch_size,
        "cpu" in row.cell.devices,
        *(getattr(row.cell, name) for name in SAME),
        row.machine,
        row.cores_per_device,
    )


def next_fewer(row: Row, rows: Iterable[Row]) -> list[Row]:
    """Of rows of the same training those on the most of its devices but not all: the first of each kind of set."""
    members = set(parse_devices(row.cell.devices).indices)
    parts = [one for one in rows if set(parse_devices(one.cell.devices).indices) < members]
    most = max((one.device_count for one in parts), default=0)
    kinds: dict[tuple[str, ...], Row] = {}
    for one in parts:
        if one.device_count == most:
            kinds.setdefault(tuple(sorted(one.cards)), one)
    return list(kinds.values())


def kinds_of(count: int, cards: Sequence[str]) -> list[list[int]]:
    """The places of so many devices, those with equal cards together; processors are all equal."""
    kinds: dict[str, list[int]] = {}
    for place in range(count):
        kinds.setdefault(cards[place] if cards else "", []).append(place)
    return list(kinds.values())


def _members(devices: DeviceSet) -> list[int]:
    """Any slice of cores stands for any other: they have equally many."""
    return [0] * devices.count if devices.kind == "cpu" else list(devices.indices)


def _equals(indices: list[int], alone: Mapping[int, Row]) -> list[list[int]]:
    """Devices of one name together, unless those that were measured surely differ."""
    speeds = sorted((alone[index].of_runs(SPEED) for index in indices if index in alone), key=statistics.median)
    spread = ratio(speeds[-1], speeds[0]) if speeds else None
    return [[index] for index in indices] if spread and spread.low and spread.low > DIFFERENT_SPEED else [indices]


def scaled(rows: Sequence[Row]) -> list[Row]:
    """These rows with what they are scaled against."""
    bases = OneDeviceRows(rows)
    return [_scaled(row, bases) for row in rows]


def _scaled(row: Row, bases: OneDeviceRows) -> Row:
    plain, wrapped = bases.of(row, wrapped=False), bases.of(row, wrapped=True)
    against = tuple(_against(row, base) for base in plain if base.row is not row and row.of_runs(SPEED))
    own = plain and plain[0].row is row and row.of_runs(SPEED)
    one = Estimate(1.0) if own else against[0].scaling if len(against) == 1 else None
    return msgspec.structs.replace(
        row,
        scaling=one.median if one else None,
        scaling_interval=(one.low, one.high) if one and one.low and one.high else None,
        scaling_against=against,
        efficiency=_efficiency(row, plain),
        wrapped_efficiency=_efficiency(row, wrapped),
    )


def _against(row: Row, base: OneDeviceRow) -> DeviceScaling:
    confidence = max(row.confidence, base.row.confidence)
    found = ratio(row.of_runs(SPEED), base.row.of_runs(SPEED), confidence)
    assert found is not None  # noqa: S101 - both were measured
    return DeviceScaling(base.row.cell.devices, base.count, found)


def _efficiency(row: Row, bases: Sequence[OneDeviceRow]) -> float | None:
    """Images/s as a part of what its devices do one by one."""
    if not bases or not row.of_runs(SPEED):
        return None
    together = sum(base.count * statistics.median(base.row.of_runs(SPEED)) for base in bases)
    return statistics.median(row.of_runs(SPEED)) / together
