"""The cases that `verify` compares: a workload, the devices that train it, and how they compute, share and agree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.catalog.frameworks import Framework
from paceline.catalog.networks.cost import NetworkCost
from paceline.catalog.workloads import known_workload
from paceline.catalog.workloads.definition import Workload
from paceline.plan.devices import DeviceSet, check_present, wanted_devices
from paceline.plan.matrix import PRECISIONS, WRAPPED, check_split
from paceline.plan.planning import lacking, too_many_devices, unable
from paceline.plan.shares import EQUAL, MEASURED, check_shares, fitting, given_shares, proportions
from paceline.store.records.certificate import setting
from paceline.system.errors import UserError, unknown
from paceline.system.machine.hardware import Machine

LARGE_MACS = 10**9  # of one image: from here on the reference is given few of them
SMALL_BATCH, BATCH = 4, 16
MOST_IMAGES = 256  # that the reference is given by itself


@dataclass(frozen=True, kw_only=True)
class VerificationCase:
    workload: Workload
    devices: DeviceSet
    update: str = "replicated"
    precision: str = "float32"
    shares: str = EQUAL
    wrapped: bool = False
    batch_size: int | None = None

    @property
    def setting(self) -> str:
        return setting(self.devices.name, self.update, self.precision, self.shares, self.wrapped)

    def images(self) -> tuple[int, ...]:
        """Of each device; a batch that is not told is made to fit the shares."""
        size = self.batch_size or (
            SMALL_BATCH if NetworkCost.of(self.workload.graph()).forward_macs > LARGE_MACS else BATCH
        )
        if self.shares == EQUAL:
            check_split(size, self.devices)
            return given_shares(EQUAL, size, self.devices)
        whole = sum(int(part) for part in self.shares.split(":"))
        fitting = math.ceil(size / whole) * whole
        if self.batch_size and fitting != size:
            raise UserError(f"A batch of {size} cannot be divided {self.shares}; use a multiple of {whole}: {fitting}.")
        if not self.batch_size and fitting > MOST_IMAGES:
            raise UserError(f"Shares {self.shares} need {fitting} images; say --batch-size {fitting} if that is meant.")
        return given_shares(self.shares, fitting, self.devices)

    def reason_to_skip(self, framework: Framework) -> str | None:
        """What the framework has not got, by its own framework.toml."""
        offers = {
            self.devices.kind: framework.devices,
            self.update: framework.updates,
            self.precision: framework.precisions,
        }
        missing = lacking(framework, offers) or too_many_devices(framework, self.devices.count)
        return missing or unable(framework, equally=self.shares == EQUAL, wrapped=self.wrapped)


@dataclass(frozen=True, kw_only=True)
class VerificationMatrix:
    """Cases as the command line asks for them: every combination that makes sense for its devices."""

    workloads: Sequence[str]
    devices: Sequence[str]
    update: str = "replicated"
    precisions: Sequence[str] = ("float32",)
    shares: Sequence[str] = (EQUAL,)
    single: str = "plain"
    batch_size: int | None = None

    def cases(self, machine: Machine) -> list[VerificationCase]:
        sets = [wanted_devices(text) for text in self.devices]
        for devices in sets:
            check_present(devices, machine)
        self._check(sets)
        found = [
            VerificationCase(
                workload=known_workload(name),
                devices=devices,
                update=self.update,
                precision=precision,
                shares=shares,
                wrapped=wrapped,
                batch_size=self.batch_size,
            )
            for name, devices, precision in itertools.product(self.workloads, sets, self.precisions)
            for shares, wrapped in self._uses(devices)
        ]
        for case in found:
            case.images()  # refuses what cannot be divided before anything is computed
        return found

    def _check(self, sets: Sequence[DeviceSet]) -> None:
        for precision in self.precisions:
            if precision not in PRECISIONS:
                raise unknown("precision", precision, PRECISIONS)
        alone = any(devices.count == 1 for devices in sets)
        if self.update == "parameter_server" and alone and False in WRAPPED[self.single]:
            raise UserError(f"One device has nobody to agree with by {self.update}; use --devices 2xcpu.")
        for text in self.shares:
            if text == MEASURED:
                raise UserError("shares 'measured': nothing is measured here; write equal or numbers such as 2:1.")
            check_shares(text, sets)

    def _uses(self, devices: DeviceSet) -> Iterator[tuple[str, bool]]:
        if devices.count == 1:
            yield from ((EQUAL, wrapped) for wrapped in WRAPPED[self.single])
        else:
            listed = fitting(self.shares, devices)
            yield from ((shares, False) for shares in dict.fromkeys(map(proportions, listed)))
