"""What a mistake is, and a mutant: the mistake at one place of one network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.mutants.networks import Setting
from paceline_worker.graph import (
    Graph,
)
from paceline_worker.protocol import Recipe


@dataclass(frozen=True)
class Change:
    """What a framework is given in place of what is right; JSON says it to the driver."""

    graph: Graph | None = None
    recipe: Recipe | None = None
    wrong: str = ""  # a backend of wrong.py around the framework's own
    about: dict[str, Any] = field(default_factory=dict)  # what that needs to know
    job: dict[str, Any] = field(default_factory=dict)  # settings of the job
    native: str = ""  # an operation of native.py in place of the framework's own


Sites = Callable[[Setting], Iterable[str]]


Make = Callable[[Setting, str], Change]


Proof = Callable[[Setting, str], str]  # why it is no mistake there, or ""


def never(setting: Setting, site: str) -> str:
    return ""


@dataclass(frozen=True)
class Mistake:
    name: str
    sites: Sites
    make: Make
    quantities: tuple[str, ...]  # of which one must be the first that differs
    proof: Proof = never
    behind: bool = False  # what reads the layer may be named, and not the layer, whose own output is right
    anywhere: bool = False  # a rule, or what all layers share: the quantity alone names it
    site_is_role: bool = False  # any parameter with this role may be named


@dataclass(frozen=True)
class Mutant:
    mistake: Mistake
    setting: Setting
    site: str
    change: Change

    @property
    def name(self) -> str:
        return f"{self.mistake.name} @ {self.site}" if self.site else self.mistake.name


@dataclass(frozen=True)
class Omitted:
    """A change that is no mistake, or that no network could have."""

    mistake: Mistake
    setting: Setting
    site: str
    reason: str
