"""Linux control groups: what a container lets this process use, and how often it was held back for that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")  # of the whole system; tests have systems of their own
UNLIMITED_BYTES = 2**60  # version 1 has no word for it: it is the largest number of pages there is


@dataclass(frozen=True)
class Throttling:
    """Since the groups were made; a group's threads on each core count by themselves."""

    seconds: float
    periods: int


def quota_cores(root: Path = ROOT) -> float | None:
    """How many cores' time this process may use, by the tightest of its groups; None where there is no limit."""
    return min(filter(None, map(_quota, cpu_groups(root))), default=None)


def memory_limit_bytes(root: Path = ROOT) -> int | None:
    """Likewise; what is more than any machine has is no limit."""
    limits = [limit for group in _groups("memory", root) if (limit := _memory_limit(group)) is not None]
    return min((limit for limit in limits if limit < UNLIMITED_BYTES), default=None)


def cpu_groups(root: Path = ROOT) -> list[Path]:
    """Those that may limit this process's processor time: its own and all above it that can be seen from here."""
    return list(_groups("cpu", root))


def memory_groups(root: Path = ROOT) -> list[Path]:
    """The process's own group, in each tree of groups that may count its memory."""
    return [group for _, group in _trees("memory", root)]


def throttling(groups: Sequence[Path]) -> Throttling | None:
    """How long threads had to wait because the quota of one of these groups was used up; None if not counted."""
    found = [each for group in groups if (each := _throttling(group)) is not None]
    if not found:
        return None
    return Throttling(sum(each.seconds for each in found), sum(each.periods for each in found))


def _quota(group: Path) -> float | None:
    """In cores: version 2 has quota and period in one file, version 1 in two."""
    quota, period, *_ = [*_words(group / "cpu.max"), "", ""]
    if not quota:
        quota, period = (" ".join(_words(group / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
    allowed, each = _number(quota), _number(period)
    return allowed / each if allowed and each else None


def _memory_limit(group: Path) -> int | None:
    names = ("memory.max", "memory.limit_in_bytes")
    return next((limit for name in names if (limit := _number(" ".join(_words(group / name))))), None)


def _throttling(group: Path) -> Throttling | None:
    words = _words(group / "cpu.stat")
    stat = {name: _number(value) for name, value in zip(words[::2], words[1::2], strict=False)}
    periods, micro, nano = (stat.get(name) for name in ("nr_throttled", "throttled_usec", "throttled_time"))
    if periods is None or (micro is None and nano is None):
        return None
    return Throttling(seconds=micro / 1e6 if micro is not None else (nano or 0) / 1e9, periods=periods)


def _words(file: Path) -> list[str]:
    return " ".join(lines(file)).split()


def _number(text: str) -> int | None:
    """A count; None for `max`, -1 and whatever else is no count."""
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """The folders of one controller, the process's own group first, up to the highest that is mounted."""
    for place, own in _trees(controller, root):
        group = own
        yield group
        while group != place:
            group = group.parent
            yield group


def _trees(controller: str, root: Path) -> Iterator[tuple[Path, Path]]:
    """Where each tree with this controller is mounted, and the process's own group in it."""
    own, found = _own_groups(root), set[str]()
    for controllers, top, place in _mounts(root):
        for kind in {controller, ""}.intersection(controllers) - found:
            found.add(kind)  # the same tree may be mounted again
            yield place, _folder(place, top, own.get(kind, "/"))


def _own_groups(root: Path) -> dict[str, str]:
    """The process's group by controller; that of version 2, which has all controllers in one tree, under no name."""
    parts = (line.split(":", 2) for line in lines(root / "proc/self/cgroup"))
    return {name: path for _, names, path in parts for name in names.split(",")}


def _mounts(root: Path) -> Iterator[tuple[list[str], str, Path]]:
    """Of each tree of groups: its controllers, the group that is mounted, and where."""
    for line in lines(root / "proc/self/mountinfo"):
        mounted, _, system = line.partition(" - ")
        top, place = (re.sub(r"\\([0-7]{3})", _letter, part) for part in mounted.split()[3:5])
        kind, _, options = system.split(maxsplit=2)
        if kind in ("cgroup", "cgroup2"):
            yield [""] if kind == "cgroup2" else options.split(","), top, root / place.lstrip("/")


def _letter(octal: re.Match[str]) -> str:
    """Spaces and the like, as the kernel writes them."""
    return chr(int(octal[1], 8))


def _folder(place: Path, top: str, group: str) -> Path:
    """Where a group is found; a container often sees its own as the mounted one and knows it by another name."""
    above = top.rstrip("/")
    inside = group == top or group.startswith(f"{above}/")
    found = place / group[len(above) :].lstrip("/") if inside else place
    return found if found.is_dir() and ".." not in found.parts else place


def lines(file: Path) -> list[str]:
    """Of a table of the kernel; none where there is no such table."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # no such group, no such limit, or no Linux
        return []
