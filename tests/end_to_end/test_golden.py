"""What is printed of a fixed store stays as it is, letter by letter, however the code behind it is arranged.

`python -m tests.end_to_end.test_golden` writes the files again after a change that is meant: look at the difference.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest

from tests.factories.command_line import here

FOLDER = Path(__file__).parent / "older_results"
TRAININGS = ("show", "--workload", "cifar10-conv")
SHOWN = {
    "trainings-80.txt": (80, TRAININGS),
    "trainings-120.txt": (120, TRAININGS),
    "trainings.md": (120, (*TRAININGS, "--format", "markdown")),
    "trainings.csv": (120, (*TRAININGS, "--format", "csv")),
    "trainings.json": (120, (*TRAININGS, "--format", "json")),
    "findings.json": (120, (*TRAININGS, "--format", "findings")),
    "matrix.txt": (120, (*TRAININGS, "--layout", "matrix")),
    "long.md": (120, (*TRAININGS, "--layout", "long", "--format", "markdown")),
    "transposed.txt": (120, (*TRAININGS, "--layout", "transposed")),
    "commands.txt": (120, ("show", "--suite", "time")),
    "commands.csv": (120, ("show", "--suite", "time", "--format", "csv")),
}


def printed(name: str, store: Path) -> str:
    width, words = SHOWN[name]
    with mock.patch.dict(os.environ, {"COLUMNS": str(width)}):
        ended = here(*words, "--store", str(store))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def unpacked(folder: Path) -> Path:
    with tarfile.open(FOLDER / "results.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "results"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", SHOWN)
def test_output_is_that_of_the_golden_file(store: Path, name: str) -> None:
    assert printed(name, store) == (FOLDER / "golden" / name).read_text(encoding="utf-8")


def main() -> None:
    (FOLDER / "golden").mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        results = unpacked(Path(folder))
        for name in SHOWN:
            (FOLDER / "golden" / name).write_text(printed(name, results), encoding="utf-8")


if __name__ == "__main__":
    main()
