"""No test can change what this machine has; what tests need of it is copied."""

from __future__ import annotations

import pytest

from paceline.catalog.datasets import PreparedDataset
from paceline.system.paths import environments_folder, home


def test_only_environments_lead_out_of_the_home_of_the_tests() -> None:
    links = [path for path in home().rglob("*") if path.is_symlink()]
    assert [path for path in links if not path.is_relative_to(environments_folder())] == []
    assert environments_folder().parent == home()


def test_data_set_is_a_copy(cifar10: PreparedDataset) -> None:
    assert cifar10.folder.resolve() == home().resolve() / "data" / "cifar10"
    assert {path.stat().st_nlink for path in cifar10.folder.iterdir()} == {1}


def test_what_needs_the_data_set_is_slow(request: pytest.FixtureRequest) -> None:
    """So `make test-fast` downloads nothing."""
    fast = [item for item in request.session.items if not item.get_closest_marker("slow")]
    assert [item.name for item in fast if "cifar10" in getattr(item, "fixturenames", ())] == []
