"""This process's own resident memory, as the kernel counts it."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """What the process holds now."""
    return _status("VmRSS") if STATUS.exists() else peak_resident_bytes()


def peak_resident_bytes() -> int:
    """The most the process held since it started, or since `forget_peak`; exact, not sampled."""
    if STATUS.exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def forget_peak() -> None:
    """Count the peak anew from here (Linux; elsewhere it covers the whole life of the process)."""
    if CLEAR_REFS.exists():
        CLEAR_REFS.write_text("5")


def _status(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)
