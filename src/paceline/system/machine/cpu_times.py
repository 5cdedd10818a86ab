"""What each processor core has done since the machine started, by the core's own number."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil

STAT = Path("/proc/stat")
Core = tuple[float, float]  # busy and stolen seconds
WORK = ("user", "nice", "system", "irq", "softirq", "interrupt", "dpc")  # systems name different kinds of it


def core_counters(stat: Path = STAT) -> dict[int, Core]:
    """Of all cores that are switched on; a core that waits for a disk is idle."""
    if not stat.exists():
        return {number: _core(times) for number, times in enumerate(psutil.cpu_times(percpu=True))}
    lines = [line.split() for line in stat.read_text(encoding="ascii", errors="replace").splitlines()]
    return {
        int(line[0][3:]): _of_linux(line[1:]) for line in lines if line and line[0][:3] == "cpu" and line[0] != "cpu"
    }


def _of_linux(fields: list[str]) -> Core:
    """psutil renumbers the cores where one is switched off."""
    user, nice, system, _, _, irq, softirq, stolen = ([int(field) for field in fields] + [0] * 8)[:8]
    ticks = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / ticks, stolen / ticks


def _core(times: Any) -> Core:
    kinds = times._asdict()
    return sum(kinds.get(kind, 0.0) for kind in WORK), kinds.get("steal", 0.0)
