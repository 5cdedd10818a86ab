"""Which frameworks there are and what each can do, as their own folders say."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

import paceline_worker
from paceline.errors import unknown

FOLDER = Path(paceline_worker.__file__).parent / "frameworks"


class Framework(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One folder under frameworks/: its framework.toml and its requirements."""

    name: str
    title: str
    package: str  # the distribution whose version is shown
    devices: tuple[str, ...]
    max_devices: int | None = None  # how many can train one network together; None is any number
    updates: tuple[str, ...]
    data: tuple[str, ...]
    precisions: tuple[str, ...]
    processes: Literal["per device", "one"]
    launcher: str  # used when there is more than one process
    requirements: str
    cuda_requirements: tuple[str, ...] = ()  # on machines with an NVIDIA GPU, on top of the others
    modes: dict[str, str] = {}
    environment: dict[str, str] = {}  # variables for the worker; {threads} is the number of threads of a device
    hidden: bool = False  # not listed, and not meant for measuring

    def process_count(self, devices: int) -> int:
        """How many processes train on so many devices; each is a rank with events of its own."""
        return devices if self.processes == "per device" else 1


@dataclass(frozen=True)
class Contestant:
    """A framework in one of its modes, such as torch+compile."""

    framework: Framework
    mode: str  # "" is its plain form

    @property
    def name(self) -> str:
        return f"{self.framework.name}+{self.mode}" if self.mode else self.framework.name


def all_frameworks() -> dict[str, Framework]:
    return {path.parent.name.replace("_", "-"): _read(path) for path in sorted(FOLDER.glob("*/framework.toml"))}


def _read(path: Path) -> Framework:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    requirements = (path.parent / "requirements.txt").read_text(encoding="utf-8")
    return msgspec.convert(
        {**table, "name": path.parent.name.replace("_", "-"), "requirements": requirements}, Framework
    )


def find(name: str) -> Contestant:
    """The framework and mode that a name such as `torch+compile` means."""
    frameworks = all_frameworks()
    base, _, mode = name.partition("+")
    if base not in frameworks:
        raise unknown("framework", base, shown(frameworks))
    framework = frameworks[base]
    if mode and mode not in framework.modes:
        raise unknown(f"mode of {base}", mode, framework.modes or ["none, write just " + base])
    return Contestant(framework, mode)


def shown(frameworks: dict[str, Framework]) -> list[str]:
    """Names for lists and messages, modes included."""
    rows = (framework for framework in frameworks.values() if not framework.hidden)
    return [name for row in rows for name in (row.name, *(f"{row.name}+{mode}" for mode in row.modes))]
