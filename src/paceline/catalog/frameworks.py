"""Which frameworks there are and what each can do, as their own folders say."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

import paceline_worker
from paceline.catalog import plugins
from paceline.system.errors import unknown

FOLDER = Path(paceline_worker.__file__).parent / "frameworks"


class Framework(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One folder under frameworks/: its framework.toml and its requirements."""

    name: str
    title: str
    package: str  # the distribution whose version is shown
    devices: tuple[str, ...]
    max_devices: int | None = None  # how many can train one network together; None is any number
    updates: tuple[str, ...]
    unequal_shares: bool = False  # devices may get unlike parts of a batch
    wrapper: bool = False  # one device can run in what several need
    exchange: str = ""  # whose the exchange between devices is, where it is not the framework's own
    data: tuple[str, ...]
    precisions: tuple[str, ...]
    processes: Literal["per device", "one"]
    launcher: str  # used when there is more than one process
    requirements: str
    cuda_requirements: tuple[str, ...] = ()  # on machines with an NVIDIA GPU, on top of the others
    modes: dict[str, str] = {}
    environment: dict[str, str] = {}  # variables for the worker; {threads} is the number of threads of a device
    provided: str = ""  # why pip cannot install it, so that the user brings an interpreter that has it
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


@cache
def folders() -> dict[str, Path]:
    """Where each framework's files are: next to the worker half's own, or in a plug-in."""
    own = {_name(path.parent): path.parent for path in sorted(FOLDER.glob("*/framework.toml"))}
    return {
        **own,
        **plugins.load(plugins.FRAMEWORKS, set(own), lambda point: _checked(point.name, plugins.folder(point))),
    }


@cache
def all_frameworks() -> dict[str, Framework]:
    return {name: _read(name, folder) for name, folder in folders().items()}


def _name(folder: Path) -> str:
    return folder.name.replace("_", "-")


def _checked(name: str, folder: Path) -> Path:
    """A plug-in's folder, if all that is needed of it is there."""
    _read(name, folder)
    for file in ("builder.py", "backend.py"):
        if not (folder / file).exists():
            raise FileNotFoundError(f"{folder / file} is missing")
    return folder


def _read(name: str, folder: Path) -> Framework:
    table = tomllib.loads((folder / "framework.toml").read_text(encoding="utf-8"))
    requirements = (folder / "requirements.txt").read_text(encoding="utf-8")
    return msgspec.convert({**table, "name": name, "requirements": requirements}, Framework)


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


def expand(names: Sequence[str]) -> list[str]:
    """The names, with `all` in place of every listed framework."""
    listed = [framework.name for framework in all_frameworks().values() if not framework.hidden]
    return list(dict.fromkeys(name for given in names for name in (listed if given == "all" else [given])))
