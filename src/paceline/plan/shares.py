"""How a batch is divided among unlike devices, and which of them are slowed down to make them unlike."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from paceline.plan.devices import DeviceSet
from paceline.system.errors import UserError
from paceline.system.text.safe_text import QUOTED, quoted, shortened

EQUAL, MEASURED = "equal", "measured"
SLOWEST = 100.0  # times as long; more is no simulation of anything


SHARE_LIST = re.compile(r"[1-9]\d{0,5}(:[1-9]\d{0,5})+")


def check_shares(text: str, sets: Sequence[DeviceSet]) -> None:
    """Refuse what is no division, or one among as many devices as none of these sets has."""
    if text in (EQUAL, MEASURED):
        return
    if not SHARE_LIST.fullmatch(text):
        raise UserError(f"shares {quoted(text)}: write equal, measured, or whole numbers from 1 up such as 2:2:1.")
    if any(_fits(text, devices) for devices in sets):
        return
    given = shortened(text, QUOTED)
    if all(devices.count == 1 for devices in sets):
        raise UserError(f"One device has the whole batch, so shares {given} need several, such as 2xcpu.")
    others = f"{sets[0].name} has {sets[0].count}" if len(sets) == 1 else f"no device set has so many: {_named(sets)}"
    raise UserError(f"shares {given} are for {text.count(':') + 1} devices, but {others}.")


def _named(sets: Sequence[DeviceSet]) -> str:
    return shortened(", ".join(devices.name for devices in sets), QUOTED)


def _fits(text: str, devices: DeviceSet) -> bool:
    return text in (EQUAL, MEASURED) or text.count(":") + 1 == devices.count


def fitting(listed: Sequence[str], devices: DeviceSet) -> tuple[str, ...]:
    """Those that fit the number of devices; equal where none does, and where one device has the whole batch."""
    found = tuple(text for text in listed if _fits(text, devices)) if devices.count > 1 else ()
    return found or (EQUAL,)


def divide(batch_size: int, sizes: Sequence[float], devices: DeviceSet) -> tuple[int, ...]:
    """Whole images in these proportions; what rounding leaves goes to the largest remainders."""
    total = sum(sizes)
    exact = [batch_size * size / total for size in sizes]
    whole = [int(part) for part in exact]
    left = batch_size - sum(whole)
    for index in sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])[:left]:
        whole[index] += 1
    if 0 in whole:
        raise UserError(f"A batch of {batch_size} is too small for {devices.name}: a device would get no image.")
    return tuple(whole)


def given_shares(text: str, batch_size: int, devices: DeviceSet) -> tuple[int, ...]:
    """Images of each device; equal ones where they are to be measured first."""
    listed = devices.count > 1 and text not in (EQUAL, MEASURED)
    sizes = [float(size) for size in text.split(":")] if listed else [1.0] * devices.count
    return divide(batch_size, sizes, devices)


def proportions(text: str) -> str:
    """Given shares in their lowest terms, so that 4:2 is 2:1 and 3:3 is equal."""
    if not SHARE_LIST.fullmatch(text):
        return text
    sizes = [int(size) for size in text.split(":")]
    lowest = [size // math.gcd(*sizes) for size in sizes]
    return EQUAL if set(lowest) == {1} else ":".join(map(str, lowest))


def parse_slow(texts: Sequence[str], sets: Sequence[DeviceSet]) -> dict[int, float]:
    """From `1:2.0` to how much longer each of these devices takes."""
    slow = dict(_factor(text) for text in texts)
    for index, factor in slow.items():
        present = any(index in devices.indices for devices in sets)
        if not present or any(devices.kind != "cpu" for devices in sets):
            what = "is no device of any set" if not present else "cannot be slowed down: only CPU devices can"
            raise UserError(f"slow {index}:{factor:g}: device {index} {what}.")
    return slow


def _factor(text: str) -> tuple[int, float]:
    found = re.fullmatch(r"(\d{1,4}):(\d{1,3}(?:\.\d{1,3})?)", text)
    if not found or not 1 <= float(found[2]) <= SLOWEST:
        raise UserError(f"slow {quoted(text)}: write DEVICE:TIMES such as 1:2.0, with times from 1 to {SLOWEST:g}.")
    return int(found[1]), float(found[2])


def slow_factors(slow: dict[int, float], devices: DeviceSet) -> tuple[float, ...]:
    """One for each device, or none at all."""
    factors = tuple(slow.get(index, 1.0) for index in devices.indices)
    return factors if any(factor > 1 for factor in factors) else ()
