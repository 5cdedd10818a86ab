"""This process's own memory, as the kernel counts it.

Pages that several processes share count in proportion, so that the processes of a run add up: half a page for each of
two. The kernel keeps no such peak, and sampling it often would cost the run. So the peak is the kernel's exact one of
all resident pages, less what others hold of them when it is asked for.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Dict

STATUS = Path("/proc/self/status")
ROLLUP = Path("/proc/self/smaps_rollup")  # Linux 4.14 and later
CLEAR_REFS = Path("/proc/self/clear_refs")


def held_bytes() -> int:
    """What the process holds now: its own pages, and its part of those that it shares."""
    return resident_bytes() - shared_bytes()


def peak_bytes() -> int:
    """The most it held since it started, or since `forget_peak`, if it shared then as much as now."""
    return peak_resident_bytes() - shared_bytes()


def shared_bytes() -> int:
    """Others' part of the resident pages; 0 where the system does not tell."""
    sizes = _sizes(ROLLUP) if ROLLUP.exists() else {}
    return sizes["Rss"] - sizes["Pss"] if sizes else 0


def resident_bytes() -> int:
    """All pages that the process has in memory."""
    return _sizes(STATUS)["VmRSS"] if STATUS.exists() else peak_resident_bytes()


def peak_resident_bytes() -> int:
    """The most pages since the process started, or since `forget_peak`; exact, not sampled."""
    if STATUS.exists():
        return _sizes(STATUS)["VmHWM"]
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def forget_peak() -> None:
    """Count the peak anew from here (Linux; elsewhere it covers the whole life of the process)."""
    if CLEAR_REFS.exists():
        CLEAR_REFS.write_text("5")


def _sizes(table: Path) -> Dict[str, int]:
    """The lines such as `VmRSS:   2345 kB`, in bytes."""
    lines = [line.split() for line in table.read_text().splitlines() if line.endswith(" kB")]
    return {name.rstrip(":"): int(size) * 1024 for name, size, _ in lines}
