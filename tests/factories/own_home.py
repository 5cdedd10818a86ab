"""A home for the tests: nothing of this machine's own is changed, and what takes gigabytes is still shared."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from paceline.catalog.datasets.prepared import data_folder
from paceline.catalog.frameworks import find
from paceline.environments.virtual_environments import RECORD, register
from paceline.system.paths import environments_folder

NUMPY_ALONE = ("fake", "reference")  # what they need is installed wherever the tests run


@contextlib.contextmanager
def own_home() -> Iterator[Path]:
    """A temporary folder as $PACELINE_HOME, with links to the environments and data sets of this machine."""
    environments, data = environments_folder(), data_folder()
    with tempfile.TemporaryDirectory(prefix="paceline-tests-") as name:
        home = Path(name)
        _link_environments(environments, home / "environments")
        _link_data(data, home / "data")
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


def _link_data(machines: Path, own: Path) -> None:
    """As a whole: a data set that is missing is fetched once, not in every session."""
    machines.mkdir(parents=True, exist_ok=True)
    own.symlink_to(machines)
