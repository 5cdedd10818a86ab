"""CIFAR-10 in its official binary form, made from the prepared arrays, and the command that takes it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np

from paceline.catalog.datasets import PreparedDataset
from tests.factories.command_line import here

BATCHES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")


def write_batches(dataset: PreparedDataset, folder: Path) -> None:
    """Records of a label and the red, green and blue planes; 10,000 in each of six files."""
    records = []
    for split in ("train", "test"):
        images = np.load(dataset.folder / f"{split}_images.npy", allow_pickle=False)
        labels = np.load(dataset.folder / f"{split}_labels.npy", allow_pickle=False)
        planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
        records.append(np.concatenate([labels[:, np.newaxis], planes], axis=1))
    for name, batch in zip(BATCHES, np.concatenate(records).reshape(6, 10_000, 3073), strict=True):
        (folder / name).write_bytes(batch.tobytes())


def pack(folder: Path, archive: Path) -> Path:
    """An archive like cifar-10-binary.tar.gz, in no particular order and with files that nobody needs."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name in ("readme.html", *reversed(BATCHES), "batches.meta.txt"):
            path = folder / name
            if name in BATCHES:
                tar.add(path, f"cifar-10-batches-bin/{name}")
            else:
                tar.addfile(tarfile.TarInfo(f"cifar-10-batches-bin/{name}"))
    return archive


def arguments(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "paceline", "data", *map(str, words)]


def environment(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PACELINE_HOME": str(home), "COLUMNS": "200", **more}


def paceline_data(home: Path, *words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    with mock.patch.dict(os.environ, environment(home, **more)):
        return here("data", *map(str, words))


def paceline_data_apart(home: Path, *words: str | Path, limit: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which is gone with all that it has opened."""
    command = [*limit, *arguments(*words)]
    return subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=120, check=False)


def left_in(home: Path) -> list[str]:
    """What is in the folder of the data sets, but for the lock."""
    return sorted(path.name for path in (home / "data").iterdir() if path.suffix != ".lock")
