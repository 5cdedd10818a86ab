"""What `verify` keeps: whether a framework trains the same network as the reference, and where it does not."""

from __future__ import annotations

import msgspec

from paceline.plan.shares import EQUAL

USUAL = ("replicated", "float32", EQUAL, "")  # need not be said


class Divergence(msgspec.Struct, frozen=True):
    """The largest difference of one quantity, and the first place where it is too large."""

    quantity: str
    tolerance: float
    largest: float | None  # None: infinite or no number, which JSON cannot hold
    where: str
    diverges_at: str | None  # in the order of computation
    by: float | None  # likewise


def setting(devices: str, update: str, precision: str, shares: str, wrapped: bool) -> str:
    """The devices, and how they agree, compute and share where that is not as usual."""
    ways = (update, precision, shares, "wrapped" if wrapped else "")
    return " ".join([devices, *(word for word in ways if word not in USUAL)])


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """One framework on one workload: equal, or where it is not, or why it could not be seen."""

    workload: str
    framework: str
    devices: str
    version: str
    fingerprint: str  # of the framework's environment
    worker_code: str
    machine: str
    update: str = "replicated"
    parameter_device: str = "cpu"  # where a parameter server kept its copy
    precision: str = "float32"
    shares: str = EQUAL  # or such as 2:1
    wrapped: bool = False  # one device in what several devices need
    equal: bool
    findings: tuple[Divergence, ...]
    failure: str | None

    @property
    def setting(self) -> str:
        return setting(self.devices, self.update, self.precision, self.shares, self.wrapped)
