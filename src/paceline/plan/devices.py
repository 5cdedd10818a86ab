"""Device sets: which devices train together, as the user writes them and as the worker gets them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from paceline.system.errors import UserError
from paceline.system.machine.hardware import Machine
from paceline.system.text.safe_text import quoted
from paceline.system.text.synonyms import devices_meant

FORMS = "2xcpu, 1xcuda, cuda:0 or cuda:0+cuda:2"
MOST_DEVICES = 256  # more is a slip of the finger, and each would be a process


@dataclass(frozen=True)
class DeviceSet:
    """Some devices of one kind; `name` is how tables show them."""

    name: str
    kind: str  # cpu or cuda
    indices: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.indices)

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(f"{self.kind}:{index}" for index in self.indices)

    @property
    def gpus(self) -> tuple[int, ...]:
        """The numbers of the cards among them."""
        return self.indices if self.kind == "cuda" else ()


def parse_devices(text: str) -> DeviceSet:
    """Read `2xcpu`, `cuda:0` or `cuda:0+cuda:2`, with or without spaces around the plus."""
    if counted := re.fullmatch(r"([1-9]\d{0,3})x(cpu|cuda)", text):
        count, kind = int(counted[1]), counted[2]
        return DeviceSet(text, kind, tuple(range(count)))
    if "cpu" in text and "cuda" in text:
        raise UserError(
            f"{quoted(text)} mixes processors and GPUs, which no framework trains on together; write {FORMS}."
        )
    name = re.sub(r" *\+ *", "+", text)
    named = [re.fullmatch(r"(cuda):(\d{1,4})", part) for part in name.split("+")]
    indices = [int(match[2]) for match in named if match]
    if meant := devices_meant(text):
        raise UserError(f"Unknown devices {quoted(text)}: here that is {meant}.")
    if len(indices) < len(named) or len(set(indices)) < len(indices):
        raise UserError(f"Unknown devices {quoted(text)}; write {FORMS}, each device once.")
    return DeviceSet(name, "cuda", tuple(indices))


def wanted_devices(text: str) -> DeviceSet:
    """A set that is still to be used; what is stored may be larger."""
    devices = parse_devices(text)
    if devices.count > MOST_DEVICES:
        raise UserError(f"{quoted(text)} are too many devices; at most {MOST_DEVICES} train together.")
    return devices


def missing_gpus(devices: DeviceSet, machine: Machine) -> list[int]:
    return [index for index in devices.indices if devices.kind == "cuda" and index >= len(machine.gpus)]


def cards_of(devices: DeviceSet, machine: Machine) -> tuple[str, ...]:
    """What each GPU of the set is; nothing for processors, and where not all of them are known."""
    known = devices.kind == "cuda" and not missing_gpus(devices, machine)
    return tuple(machine.gpus[index] for index in devices.indices) if known else ()


def check_present(devices: DeviceSet, machine: Machine) -> None:
    """Refuse a GPU that this machine does not have."""
    missing = missing_gpus(devices, machine)
    if missing:
        present = (
            ", ".join(f"cuda:{i} ({name})" for i, name in enumerate(machine.gpus))
            or "no GPU, so use cpu sets such as 1xcpu, or a suite's --quick form"
        )
        raise UserError(
            f"There is no cuda:{missing[0]} for the device set {quoted(devices.name)}; this machine has {present}."
        )


def assign_cores(devices: DeviceSet, cores_per_device: int, cores: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Give each device a slice of the machine's cores of its own, starting over when they run out."""
    distinct = min(cores_per_device, len(cores))  # after these the same ones come again
    slices = range(0, devices.count * cores_per_device, cores_per_device)
    return tuple(
        tuple(dict.fromkeys(cores[(first + offset) % len(cores)] for offset in range(distinct))) for first in slices
    )
