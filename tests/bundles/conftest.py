"""Stores and a bundle that each test may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from paceline.store.store import Store
from tests.bundles.made import made_stores


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_stores(tmp_path_factory.mktemp("made"))


@pytest.fixture
def source(made: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(made / "source", tmp_path / "source"))


@pytest.fixture
def target(made: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(made / "target", tmp_path / "target"))


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made / "bundle.zip", tmp_path))
