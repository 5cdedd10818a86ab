"""A cell: one place in a table, with every setting that makes its number comparable or not."""

from __future__ import annotations

import msgspec

from paceline.plan.devices import DeviceSet, parse_devices
from paceline.plan.external.command import ExternalCommand
from paceline.plan.shares import EQUAL


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, as a value."""

    workload: str
    framework: str  # with its mode
    devices: str
    update: str
    data: str
    precision: str
    batch_size: int
    scaling: str  # what happens to the batch with more devices: "weak" it grows, "strong" it stays
    steps: int
    warmup: int
    learning_rate: float
    seed: int
    cores: tuple[tuple[int, ...], ...]
    oversubscribed: bool
    input: str = ""  # what is done to real images
    evaluate: str = "never"
    parameter_device: str = ""  # where a parameter server keeps its copy
    shares: str = EQUAL  # how the batch is divided: equal, measured, or such as 2:1
    slow: tuple[float, ...] = ()  # how much longer each device was made to take; empty if none was
    wrapped: bool = False  # one device in what several devices need
    command: ExternalCommand | None = None  # what `paceline time` measures in place of a workload

    @property
    def device_set(self) -> DeviceSet:
        return parse_devices(self.devices)
