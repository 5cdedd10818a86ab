"""How often the kernel has killed a process of a control group because memory ran out.

Only the group that a run is in counts: the machine may have run out of memory for somebody else.
"""

from __future__ import annotations

from pathlib import Path

from paceline.system.machine.cgroups import ROOT, lines, memory_groups

TABLES = ("memory.oom_control", "memory.events")  # of version 1, and of version 2


def kills(root: Path = ROOT) -> int | None:
    """Those in the group of this process so far; None where the kernel does not tell."""
    tables = (group / name for group in memory_groups(root) for name in TABLES)
    return next((count for table in tables if (count := _count(table)) is not None), None)


def killed_since(before: int | None) -> bool:
    """Whether there are more than there were."""
    now = kills()
    return before is not None and now is not None and now > before


def _count(table: Path) -> int | None:
    return next((int(line.split()[1]) for line in lines(table) if line.startswith("oom_kill ")), None)
