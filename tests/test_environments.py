"""Environments: made once, repaired when broken, never half there."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from paceline import environments
from paceline.errors import UserError
from paceline.frameworks import Framework, all_frameworks

SMALL = "six==1.17.0\n"  # a package that installs in a second


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Framework:
    """A framework of one tiny package, in a home of its own."""
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    return msgspec.structs.replace(all_frameworks()["fake"], name="small", package="six", requirements=SMALL)


def test_environment_is_made_once_with_exact_pins(small: Framework, tmp_path: Path) -> None:
    said: list[str] = []
    made = environments.ensure(small, said.append)
    assert made.packages["six"] == "1.17.0"
    assert Path(made.python).is_relative_to(tmp_path / "home" / "environments" / "small")
    assert said == [f"Installing small (six==1.17.0) into {tmp_path / 'home' / 'environments' / 'small'}"]
    assert environments.ensure(small, said.append) == made
    assert len(said) == 1


def test_half_made_and_damaged_environments_are_repaired(small: Framework) -> None:
    said: list[str] = []
    made = environments.ensure(small, said.append)
    folder = Path(made.python).parent.parent
    (folder / "environment.json").unlink()
    assert environments.installed(small) is None
    assert environments.ensure(small, said.append).fingerprint == made.fingerprint
    for dist_info in folder.glob("lib/python*/site-packages/six-*"):
        shutil.rmtree(dist_info)
    assert environments.installed(small) is None
    assert environments.ensure(small, said.append) == made
    assert len(said) == 3


def test_other_pins_make_a_new_environment(small: Framework) -> None:
    first = environments.ensure(small, print)
    newer = msgspec.structs.replace(small, requirements="six==1.16.0\n")
    assert environments.installed(newer) is None
    second = environments.ensure(newer, print)
    assert second.packages["six"] == "1.16.0"
    assert first.fingerprint != second.fingerprint


def test_package_that_does_not_exist_is_named_and_nothing_is_left(small: Framework, tmp_path: Path) -> None:
    impossible = msgspec.structs.replace(small, requirements="six==999.0\n")
    with pytest.raises(UserError, match=r"Installing small failed: .*six==999\.0.*small\.log"):
        environments.ensure(impossible, print)
    assert not (tmp_path / "home" / "environments" / "small").exists()
