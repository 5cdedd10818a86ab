"""What the processors' packages have used, as the kernel reads it from their counters (RAPL)."""

from __future__ import annotations

from pathlib import Path

ZONES = Path("/sys/class/powercap")
MICROJOULES = 1e6


class PackageEnergy:
    """Joules of each package since the first look: their counters begin again every few minutes or hours."""

    def __init__(self, zones: Path = ZONES) -> None:
        self._zones = sorted(filter(_is_package, zones.glob("intel-rapl:*")))  # AMD's have the same name
        self._last: dict[Path, int] = {}
        self._joules: dict[Path, float] = dict.fromkeys(self._zones, 0.0)

    def why_not(self) -> str:
        """Why nothing can be read here; empty if it can."""
        if not self._zones:
            return "no RAPL counters in /sys/class/powercap"
        try:
            _microjoules(self._zones[0])
        except PermissionError:
            return f"only root may read {self._zones[0]}/energy_uj"
        except (OSError, ValueError) as error:
            return str(error)
        return ""

    def look(self) -> list[float]:
        try:
            found = {zone: _microjoules(zone) for zone in self._zones}
        except (OSError, ValueError):
            return []
        for zone, now in found.items():
            grown = now - self._last.get(zone, now)
            self._joules[zone] += (grown if grown >= 0 else grown + _range(zone)) / MICROJOULES
        self._last = found
        return list(self._joules.values())


def _is_package(zone: Path) -> bool:
    """And not the whole platform, in which packages are counted again."""
    try:
        return (zone / "name").read_text(encoding="ascii").startswith("package")
    except (OSError, ValueError):
        return False


def _microjoules(zone: Path) -> int:
    return int((zone / "energy_uj").read_text(encoding="ascii"))


def _range(zone: Path) -> int:
    """At which its counter begins again."""
    return int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
