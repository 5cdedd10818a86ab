"""Environments: made once, repaired when broken, never half there."""

from __future__ import annotations

import shutil
import sys
import venv
from pathlib import Path

import msgspec
import numpy as np
import pytest

from paceline.catalog.frameworks import Framework, all_frameworks
from paceline.environments import pip, virtual_environments
from paceline.system.errors import UserError

SMALL = "six==1.17.0\n"  # a package that installs in a second


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Framework:
    """A framework of one tiny package, in a home of its own."""
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PACELINE_ENVIRONMENTS", raising=False)
    return msgspec.structs.replace(all_frameworks()["fake"], name="small", package="six", requirements=SMALL)


@pytest.mark.slow
def test_environment_is_made_once_with_exact_pins(small: Framework, tmp_path: Path) -> None:
    said: list[str] = []
    made = virtual_environments.ensure(small, said.append)
    assert made.packages["six"] == "1.17.0"
    assert Path(made.python).is_relative_to(tmp_path / "home" / "environments" / "small")
    assert said == [f"Installing small (six==1.17.0) into {tmp_path / 'home' / 'environments' / 'small'}"]
    assert virtual_environments.ensure(small, said.append) == made
    assert len(said) == 1


@pytest.mark.slow
def test_half_made_and_damaged_environments_are_repaired(small: Framework) -> None:
    said: list[str] = []
    made = virtual_environments.ensure(small, said.append)
    folder = Path(made.python).parent.parent
    (folder / "environment.json").unlink()
    assert virtual_environments.installed(small) is None
    assert virtual_environments.ensure(small, said.append).fingerprint == made.fingerprint
    for dist_info in folder.glob("lib/python*/site-packages/six-*"):
        shutil.rmtree(dist_info)
    assert virtual_environments.installed(small) is None
    assert virtual_environments.ensure(small, said.append) == made
    assert len(said) == 3


@pytest.mark.slow
def test_other_pins_make_a_new_environment(small: Framework) -> None:
    first = virtual_environments.ensure(small, print)
    newer = msgspec.structs.replace(small, requirements="six==1.16.0\n")
    assert virtual_environments.installed(newer) is None
    second = virtual_environments.ensure(newer, print)
    assert second.packages["six"] == "1.16.0"
    assert first.fingerprint != second.fingerprint


@pytest.mark.slow
def test_package_that_does_not_exist_is_named_and_nothing_is_left(small: Framework, tmp_path: Path) -> None:
    impossible = msgspec.structs.replace(small, requirements="six==999.0\n")
    with pytest.raises(UserError, match=r"Installing small failed at six==999\.0: there is no such build.*small\.log"):
        virtual_environments.ensure(impossible, print)
    assert not (tmp_path / "home" / "environments" / "small").exists()


@pytest.mark.slow
def test_offline_is_said_with_the_package_and_what_to_do(small: Framework, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
    for name, value in {**nowhere, "PIP_RETRIES": "1", "PIP_CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=r"small failed at six==1\.17\.0: pip cannot reach its package index: check"):
        virtual_environments.ensure(small, print)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("Collecting six==1\nERROR: Could not install: [Errno 28] No space left on device", " at six==1: the disk is"),
        ("ERROR: Failed to build 'grpcio' when getting requirements", " at grpcio: it could not be built from source"),
        ("Segmentation fault", ": Segmentation fault"),
        ("", ": no output"),
    ],
)
def test_other_failures_of_pip_are_told_apart(said: str, message: str) -> None:
    assert f"{pip.at_package(said)}: {pip.cure(said, 'small')}".startswith(message)


@pytest.fixture
def outside(tmp_path: Path, small: Framework) -> Path:
    """An interpreter that a user might have, with the framework `fake` importable: it needs NumPy and no more."""
    code = f"import sys; sys.path[:0] = {[entry for entry in sys.path if 'site-packages' in entry]!r}\n"
    folder = tmp_path / "outside"
    venv.create(folder, with_pip=False, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "more.pth").write_text(code)
    return folder / "bin" / "python"


def test_interpreter_of_the_user_is_registered_as_it_is(outside: Path) -> None:
    fake = all_frameworks()["fake"]
    registered = virtual_environments.register(fake, outside)
    assert (registered.python, registered.brought) == (str(outside), True)
    assert registered.packages["numpy"] == np.__version__
    assert virtual_environments.ensure(fake, pytest.fail) == registered
    assert virtual_environments.remove(fake)
    assert outside.exists()
    assert virtual_environments.installed(fake) is None


def test_interpreter_that_changed_must_be_registered_again(outside: Path) -> None:
    fake = all_frameworks()["fake"]
    virtual_environments.register(fake, outside)
    info = next(outside.parent.parent.glob("lib/python*/site-packages")) / "novelty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: novelty\nVersion: 1.0\n")
    with pytest.raises(UserError, match=rf"{outside} has changed or is gone .* registers it again"):
        virtual_environments.ensure(fake, print)
    assert virtual_environments.register(fake, outside).packages["novelty"] == "1.0"
    assert virtual_environments.hindrance(fake) is None


def test_interpreter_without_the_framework_is_refused_with_the_import_error(outside: Path, tmp_path: Path) -> None:
    torch = all_frameworks()["torch"]
    with pytest.raises(UserError, match=r"cannot import torch: ModuleNotFoundError: No module named 'torch'"):
        virtual_environments.register(torch, outside)
    assert not (tmp_path / "home" / "environments" / "torch").exists()


@pytest.mark.parametrize(
    ("program", "message"),
    [("/no/such/python", "cannot be run: .*No such file"), ("/bin/true", "is not a Python"), ("/bin/false", "nothing")],
)
def test_what_is_no_interpreter_is_refused(small: Framework, program: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        virtual_environments.register(all_frameworks()["fake"], Path(program))
    assert virtual_environments.installed(all_frameworks()["fake"]) is None


def test_framework_that_pip_does_not_have_says_how_to_bring_it(small: Framework) -> None:
    foreign = msgspec.structs.replace(small, name="fake", provided="it is not on PyPI")
    with pytest.raises(UserError, match=r"fake: it is not on PyPI; `paceline install fake --python PATH` registers"):
        virtual_environments.ensure(foreign, print)
