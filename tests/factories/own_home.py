"""A home for the tests: nothing of this machine's own is changed, and what takes gigabytes is still shared."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from paceline.catalog import datasets
from paceline.catalog.datasets.prepared import data_folder
from paceline.catalog.frameworks import find
from paceline.environments.virtual_environments import RECORD, register
from paceline.system.locks import exclusive
from paceline.system.paths import environments_folder

MACHINES_DATA = "PACELINE_TESTS_MACHINES_DATA"  # set for xdist's workers, which inherit the home, too
NUMPY_ALONE = ("fake", "reference")  # what they need is installed wherever the tests run


@contextlib.contextmanager
def own_home() -> Iterator[Path]:
    """A temporary folder as $PACELINE_HOME, with links to the environments of this machine and nothing else of it."""
    environments = environments_folder()
    os.environ[MACHINES_DATA] = str(data_folder())
    with tempfile.TemporaryDirectory(prefix="paceline-tests-") as name:
        home = Path(name)
        _link_environments(environments, home / "environments")
        os.environ["PACELINE_HOME"] = name
        os.environ["PACELINE_ENVIRONMENTS"] = str(home / "environments")
        for framework in NUMPY_ALONE:
            register(find(framework).framework, Path(sys.executable))
        yield home


def _link_environments(machines: Path, own: Path) -> None:
    """One link for each, so that those registered here are not registered on this machine."""
    own.mkdir()
    for record in machines.glob(f"*/{RECORD}"):
        if record.parent.name not in NUMPY_ALONE:
            (own / record.parent.name).symlink_to(record.parent)


def own_dataset(name: str) -> datasets.PreparedDataset:
    """A copy of what this machine has, else fetched by the command that a user would type; once for all workers."""
    machines = Path(os.environ[MACHINES_DATA], name)
    with exclusive(data_folder() / f"{name}.copying.lock"):
        if machines.is_dir() and not (data_folder() / name).exists():
            shutil.copytree(machines, data_folder() / name)
    subprocess.run([sys.executable, "-m", "paceline", "data", "get", name], check=True, stdout=subprocess.DEVNULL)
    found = datasets.find(name)
    assert found is not None
    return found
