"""Modules that plug-ins and their tests may still import by the name that they had in 0.1. It goes with 0.3."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {"paceline.workloads": "paceline.catalog.workloads", "paceline.networks": "paceline.catalog.networks"}


class OlderNames:
    """Finds and loads the very module that has moved: a copy of it would have other classes by the same names.

    Of no class from `importlib.abc`: every command imports this file, and that takes a tenth of the time of `--help`.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        loader: Any = self
        older = ".".join(name.split(".")[:2])
        return ModuleSpec(name, loader, is_package=name == older) if older in MOVED else None

    def create_module(self, _: ModuleSpec) -> None:
        """An empty one, whose place the moved one takes."""

    def exec_module(self, module: ModuleType) -> None:
        room, package, *rest = module.__name__.split(".")
        older = f"{room}.{package}"
        if not rest:  # a package is imported before what is in it, so each is told of once
            warnings.warn(f"{older} is {MOVED[older]}; its old name goes with 0.3", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = import_module(".".join([MOVED[older], *rest]))


def keep() -> None:
    """Asked first: a package that has moved would otherwise find what is in it by itself, and load it again."""
    sys.meta_path.insert(0, OlderNames())
