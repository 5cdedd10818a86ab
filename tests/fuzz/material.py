"""What is good, and is to be spoiled."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from paceline.bundles.exporting import export_bundle
from paceline.bundles.importing import import_bundle
from paceline.plan.external.command import ExternalCommand, OutputMetric
from paceline.store.store import Store
from tests.bundles.made import ALL, filled, timed

SPEED = OutputMetric(name="images/s", pattern="Speed: ([0-9]+)", take="median")


@dataclass(frozen=True)
class Material:
    """A store, a bundle of another, and a place for what is made of them."""

    store: Path
    bundle: Path
    place: Path

    def folder(self) -> Path:
        """Empty."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        return self.place

    def copy_of_store(self) -> Path:
        """In an empty place."""
        return Path(shutil.copytree(self.store, self.folder() / "store"))


def material(folder: Path) -> Material:
    """With every kind of file that a store may have."""
    given, store, bundle = filled(folder / "given"), Store(folder / "good"), folder / "good.zip"
    timed(given, ExternalCommand(arguments=("python", "train.py"), folder="/", metrics=(SPEED,)))
    export_bundle(given, ALL, bundle)
    import_bundle(bundle, store)
    return Material(store.folder, bundle, folder / "spoiled")
