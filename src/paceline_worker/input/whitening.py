"""ZCA whitening as in neon from 1.6.0: fitted once on the training images and kept beside them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paceline_worker.input.dataset import Dataset, checksum
from paceline_worker.input.pixels import normalise_contrast
from paceline_worker.weights import Array

RIDGE = 0.1  # added to the variances, so that directions that hardly vary are not blown up
AT_ONCE = 2000  # images: the set as float64 would be over a gigabyte


@dataclass(frozen=True, eq=False)
class Whitening:
    """Takes the mean away and makes all directions vary alike."""

    mean: Array
    matrix: Array

    def __call__(self, images: Array) -> Array:
        flat = images.reshape(len(images), -1)
        return ((flat - self.mean) @ self.matrix).reshape(images.shape)


def fit(images: Array) -> Whitening:
    """Learn from eight-bit images, whose contrast is normalised first."""
    count, size = len(images), images[0].size
    total, products = np.zeros(size), np.zeros((size, size))
    for first in range(0, count, AT_ONCE):
        flat = normalise_contrast(images[first : first + AT_ONCE]).reshape(-1, size).astype(np.float64)
        total += flat.sum(axis=0)
        products += flat.T @ flat
    mean = total / count
    covariance = (products - count * np.outer(mean, mean)) / (count - 1)
    variances, directions = np.linalg.eigh(covariance + RIDGE * np.eye(size))
    matrix = (directions / np.sqrt(variances)) @ directions.T
    return Whitening(mean.astype(np.float32), matrix.astype(np.float32))


def fitted(dataset: Dataset) -> Whitening:
    """The whitening of this data set: read from its folder, or fitted and stored there for the next one."""
    path = dataset.folder / f"whitening-{checksum(dataset.train_images)[:16]}.npz"
    if not path.exists():
        store(fit(dataset.train_images), path)
    with np.load(path, allow_pickle=False) as stored:
        return Whitening(stored["mean"], stored["matrix"])


def store(whitening: Whitening, path: Path) -> None:
    """Put it in place whole: another rank may be reading, or writing the same."""
    part = path.with_name(f"{path.stem}.{os.getpid()}.part.npz")
    try:
        with part.open("wb") as file:
            np.savez(file, mean=whitening.mean, matrix=whitening.matrix)
            file.flush()
            os.fsync(file.fileno())  # or a power failure may leave the name without the content
        part.replace(path)
    finally:
        if part.exists():
            part.unlink()
