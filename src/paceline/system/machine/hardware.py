"""What this machine is: it goes into every record."""

from __future__ import annotations

import hashlib
import math
import os
import platform
from pathlib import Path

import msgspec
import psutil

from paceline.system.machine import cgroups
from paceline.system.machine.gpus import nvidia
from paceline.system.machine.identity import identity, name_in


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Fields with a default came later than the first records."""

    host: str
    system: str
    processor: str
    cores: tuple[int, ...]  # those that this process may use
    memory_bytes: int
    gpus: tuple[str, ...]
    gpu_driver: str | None
    identity: str = ""  # tells it from equal ones; empty where nothing does but the host name
    quota_cores: float | None = None  # as much time of its cores the container may use, where that is less than all
    memory_limit_bytes: int | None = None  # likewise

    @property
    def id(self) -> str:
        """Short name; the same after a reboot or an update of the kernel, and with an identity by any host name."""
        if not self.identity:
            return self.older_id
        quota = () if self.quota_cores is None else (f"quota {self.quota_cores:g}",)
        return _short(self.identity, *self._hardware, *quota)

    @property
    def older_id(self) -> str:
        """As records have it from before there were identities."""
        return _short(self.host, *self._hardware)

    @property
    def ids(self) -> frozenset[str]:
        """All under which this machine may have left results."""
        return frozenset((self.id, self.older_id))

    @property
    def _hardware(self) -> tuple[str | int, ...]:
        return (self.processor, len(self.cores), self.memory_bytes >> 30, *self.gpus)

    @property
    def allowed_cores(self) -> float:
        """How many cores' time there is, by number and by quota."""
        return len(self.cores) if self.quota_cores is None else min(self.quota_cores, len(self.cores))

    @property
    def whole_cores(self) -> int:
        """How many can be kept busy all the time."""
        return max(1, math.floor(self.allowed_cores))

    @property
    def cores_in_words(self) -> str:
        if self.quota_cores is None:
            return f"{len(self.cores)} cores"
        return f"{round(self.quota_cores, 2):g} of {len(self.cores)} cores by quota"

    @property
    def description(self) -> str:
        """For the list of machines under a table."""
        name = [called] if (called := name_in(self.identity)) else []
        cards = [f"{self.gpus.count(card)} × {card}" for card in dict.fromkeys(self.gpus)]
        driver = [f"driver {self.gpu_driver}"] if self.gpu_driver else []
        parts = [*name, self.processor, self.cores_in_words, self.memory_in_words, *cards, *driver, self.system]
        return ", ".join(parts)

    @property
    def usable_memory_bytes(self) -> int:
        return self.memory_bytes if self.memory_limit_bytes is None else self.memory_limit_bytes

    @property
    def memory_in_words(self) -> str:
        whole = f"{self.memory_bytes / 2**30:.0f} GiB"
        return (
            whole if self.memory_limit_bytes is None else f"{self.memory_limit_bytes / 2**30:.3g} of {whole} by limit"
        )


def _short(*parts: str | int) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


def this_machine() -> Machine:
    driver, gpus = nvidia()
    cores, memory = usable_cores(), psutil.virtual_memory().total
    quota, limit = cgroups.quota_cores(), cgroups.memory_limit_bytes()
    return Machine(
        host=platform.node(),
        system=f"{platform.system()} {platform.release()}",
        processor=processor_name(),
        cores=cores,
        memory_bytes=memory,
        gpus=gpus,
        gpu_driver=driver,
        identity=identity(),
        quota_cores=quota if quota is not None and quota < len(cores) else None,
        memory_limit_bytes=limit if limit is not None and limit < memory else None,
    )


def usable_cores() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def processor_name() -> str:
    table = Path("/proc/cpuinfo")
    lines = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
