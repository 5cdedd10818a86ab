"""A data set on disk: four NumPy files in a folder, mapped into memory and never copied as a whole."""

from __future__ import annotations

import hashlib
import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paceline_worker.weights import Array


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images (count, height, width, channels) and labels (count), all of eight bits."""

    folder: Path
    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array

    @classmethod
    def open(cls, folder: Path) -> Dataset:
        """Map the four files; wrong ones are refused by name."""
        train = labelled(folder, "train")
        test = labelled(folder, "test")
        return cls(folder, *train, *test)

    def release(self) -> None:
        """Give back the pages that were read, which the system still has: they are no cost of a framework."""
        for images in (self.train_images, self.test_images):
            if isinstance(images.base, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
                images.base._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]  # NumPy tells no other way


def labelled(folder: Path, part: str) -> tuple[Array, Array]:
    images, labels = mapped(folder / f"{part}_images.npy", 4), mapped(folder / f"{part}_labels.npy", 1)
    if len(images) != len(labels):
        raise ValueError(f"{folder}: {len(images)} {part} images have {len(labels)} labels; expected as many.")
    return images, labels


def mapped(path: Path, dimensions: int) -> Array:
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    if values.dtype != np.uint8 or values.ndim != dimensions:
        raise ValueError(f"{path} holds {values.dtype}{values.shape}; expected uint8 with {dimensions} dimensions.")
    return values.view(np.ndarray)  # still mapped, without the cost of memmap's own bookkeeping at each index


def checksum(images: Array) -> str:
    """The SHA-256 of the pixels, whatever file they came from."""
    return hashlib.sha256(np.ascontiguousarray(images).data).hexdigest()
