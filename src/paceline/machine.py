"""What this machine is: it goes into every record."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import msgspec
import psutil


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    system: str
    processor: str
    cores: tuple[int, ...]  # those that this process may use
    memory_bytes: int
    gpus: tuple[str, ...]
    gpu_driver: str | None

    @property
    def id(self) -> str:
        """Short name of the hardware; the same after a reboot or a kernel update."""
        parts = (self.host, self.processor, len(self.cores), self.memory_bytes >> 30, *self.gpus)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]

    @property
    def description(self) -> str:
        """For the list of machines under a table."""
        memory = f"{self.memory_bytes / 2**30:.0f} GiB"
        cards = [f"{self.gpus.count(card)} × {card}" for card in dict.fromkeys(self.gpus)]
        driver = [f"driver {self.gpu_driver}"] if self.gpu_driver else []
        return ", ".join([self.processor, f"{len(self.cores)} cores", memory, *cards, *driver, self.system])


def this_machine() -> Machine:
    driver, gpus = nvidia()
    return Machine(
        host=platform.node(),
        system=f"{platform.system()} {platform.release()}",
        processor=processor_name(),
        cores=usable_cores(),
        memory_bytes=psutil.virtual_memory().total,
        gpus=gpus,
        gpu_driver=driver,
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


def nvidia() -> tuple[str | None, tuple[str, ...]]:
    """Driver version and card names; none without NVIDIA's driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None, ()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    return str(pynvml.nvmlSystemGetDriverVersion()), tuple(str(pynvml.nvmlDeviceGetName(handle)) for handle in handles)
