"""What other installed packages bring, found by their entry points: frameworks, workloads, quantities, samplers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from paceline.system.text.safe_text import note

FRAMEWORKS, WORKLOADS = "paceline.frameworks", "paceline.workloads"
QUANTITIES, SAMPLERS = "paceline.quantities", "paceline.samplers"
Found = TypeVar("Found")


def load(group: str, taken: set[str], take: Callable[[EntryPoint], Found]) -> dict[str, Found]:
    """What every plug-in of a group brings. One that breaks is named and left out; the rest works."""
    found: dict[str, Found] = {}
    for point in entry_points(group=group):
        try:
            if point.name in {*taken, *found}:
                raise ValueError("its name is taken")
            found[point.name] = take(point)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is foreign code, which may fail in any way
            package = point.dist.name if point.dist else "?"
            _warn(f"plug-in {point.name!r} of {package} is left out: {type(error).__name__}: {error}")
    return found


def folder(point: EntryPoint) -> Path:
    """Where the package that an entry point names lies. It is not imported: its framework need not be here."""
    spec = find_spec(point.value)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"{point.value} is no package")
    return Path(spec.submodule_search_locations[0])


_warn = cache(note)  # said once, however often plug-ins are looked at
