"""Samples from outside what a run uses: memory and processor time of each rank, memory and load of each GPU."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psutil

from paceline.machine import nvidia
from paceline.processes import GONE

PERIOD_SECONDS = 0.5
FILE = "monitor.jsonl"


class Monitor:
    """Writes one line per period into the run's folder; the first, before any process starts, is the idle machine."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._due = 0.0
        self._gpus = _gpu_handles()

    def sample(self, pids: dict[int, int]) -> None:
        """Look at these ranks' processes, unless a period has not passed since the last look."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + PERIOD_SECONDS
        load = psutil.getloadavg()[0]
        row = {
            "time": time.time(),
            "load": load,
            "ranks": _ranks(pids),
            "gpus": [_gpu(handle) for handle in self._gpus],
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _ranks(pids: dict[int, int]) -> dict[int, Any]:
    return {rank: usage for rank, pid in pids.items() if (usage := _usage(pid)) is not None}


def _usage(pid: int) -> dict[str, float] | None:
    """Of the process and all below it."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        times = [member.cpu_times() for member in family]
        resident = sum(member.memory_info().rss for member in family)
    except GONE:
        return None
    return {"resident_bytes": resident, "processor_seconds": sum(used.user + used.system for used in times)}


def _gpu_handles() -> list[Any]:
    import pynvml

    _, gpus = nvidia()
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(len(gpus))]


def _gpu(handle: Any) -> dict[str, float]:
    import pynvml

    return {
        "memory_bytes": pynvml.nvmlDeviceGetMemoryInfo(handle).used,
        "busy_percent": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    }


def read_samples(folder: Path) -> list[dict[str, Any]]:
    """All samples of a run; the last may be half written if Paceline was killed."""
    path = folder / FILE
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"}")]
