"""Data sets on this machine: a folder of arrays that any process can map into memory, whole or not there at all."""

from __future__ import annotations

import hashlib
import io
import math
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from paceline.catalog.datasets.known import known
from paceline.catalog.datasets.spec import Array, DatasetSpec
from paceline.system.errors import UserError
from paceline.system.paths import home

RECORD = "dataset.json"  # written last
VERSION = 1  # of the files; those of another version are prepared again
CHUNK_BYTES = 2**20


class DatasetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What dataset.json says."""

    version: int = VERSION
    name: str
    counts: dict[str, int]  # images of `train` and `test`
    checksum: str
    channel_means: tuple[float, ...]  # of the training pixels, as parts of 255
    source: str


class PreparedDataset(DatasetRecord, frozen=True, kw_only=True):
    """A prepared data set: `train_images.npy`, `train_labels.npy` and the same for `test` in its folder."""

    folder: Path

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.iterdir())


def data_folder() -> Path:
    return home() / "data"


def folder_of(spec: DatasetSpec) -> Path:
    return data_folder() / spec.name


def find(name: str) -> PreparedDataset | None:
    """The data set if it is there; its record and the sizes of its files are looked at, not its images."""
    spec = known(name)
    folder = folder_of(spec)
    try:
        record = msgspec.json.decode((folder / RECORD).read_bytes(), type=DatasetRecord)
        sizes = {array: (folder / f"{array}.npy").stat().st_size for array in spec.shapes}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    expected = {array: len(_header(shape)) + math.prod(shape) for array, shape in spec.shapes.items()}
    whole = (record.version, record.checksum, sizes) == (VERSION, spec.checksum, expected)
    return PreparedDataset(**msgspec.structs.asdict(record), folder=folder) if whole else None


def intact(name: str) -> PreparedDataset | None:
    """The data set if it is there and every byte is right, which takes some tenths of a second to see."""
    spec, dataset = known(name), find(name)
    digest = hashlib.sha256()
    if dataset is None:
        return None
    for array, shape in spec.shapes.items():
        with (dataset.folder / f"{array}.npy").open("rb") as file:
            if file.read(len(_header(shape))) != _header(shape):
                return None
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    return dataset if digest.hexdigest() == spec.checksum else None


def check(spec: DatasetSpec, arrays: Mapping[str, Array]) -> None:
    """Refuse anything but the images and labels as published, in their order."""
    digest = hashlib.sha256()
    for array in spec.shapes:
        digest.update(arrays[array].data)
    if digest.hexdigest() != spec.checksum:
        raise UserError(f"it is not {spec.name} as published: its SHA-256 is {digest.hexdigest()}, not {spec.checksum}")


def write(spec: DatasetSpec, arrays: Mapping[str, Array], source: str, folder: Path) -> PreparedDataset:
    """Fill an empty folder; the record comes last."""
    for array, shape in spec.shapes.items():
        _write(folder / f"{array}.npy", _header(shape), arrays[array].data)
    pixels = arrays["train_images"]
    sums = [int(pixels[..., channel].sum(dtype=np.int64)) for channel in range(pixels.shape[-1])]
    record = DatasetRecord(
        name=spec.name,
        counts={split: spec.shapes[f"{split}_labels"][0] for split in ("train", "test")},
        checksum=spec.checksum,
        channel_means=tuple(total / (pixels.size // len(sums) * 255) for total in sums),
        source=source,
    )
    _write(folder / RECORD, msgspec.json.format(msgspec.json.encode(record)))
    return PreparedDataset(**msgspec.structs.asdict(record), folder=folder)


def _write(path: Path, *parts: bytes | memoryview) -> None:
    """Plain writes, not a memory map: a full disk must be an error, not a signal that ends the process."""
    try:
        with path.open("wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())  # moved into place only when the disk has it
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _header(shape: tuple[int, ...]) -> bytes:
    """How a .npy file of bytes of this shape begins."""
    start = io.BytesIO()
    np.lib.format.write_array_header_1_0(start, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return start.getvalue()
