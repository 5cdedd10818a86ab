"""Random numbers that depend only on the seed, the epoch and the image: never on batches, ranks or NumPy's version."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from paceline_worker.weights import Array

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def splitmix(seeds: Array, positions: Array) -> Array:
    """The numbers at these positions in the SplitMix64 sequences of these seeds, as 64-bit integers."""
    value = np.asarray(seeds, np.uint64) + (np.atleast_1d(positions).astype(np.uint64) + np.uint64(1)) * GOLDEN
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@dataclass(frozen=True)
class Draws:
    """One random number for each image and each name of what is drawn."""

    seed: int
    epochs: Array  # of each image
    indices: Array  # of each image in the data set

    def bits(self, name: str) -> Array:
        """64 random bits for each image; each name is a sequence of its own."""
        stream = splitmix(self.seed, zlib.crc32(name.encode()))
        return splitmix(splitmix(stream, self.epochs), self.indices)

    def uniform(self, name: str, low: float = 0.0, high: float = 1.0) -> Array:
        """A float64 in [low, high) for each image."""
        fraction = (self.bits(name) >> np.uint64(11)) * 2.0**-53  # as many bits as a float64 holds
        return low + (high - low) * fraction

    def integers(self, name: str, low: int, high: int) -> Array:
        """An integer from low to high, both included, for each image."""
        return np.floor(self.uniform(name, low, high + 1)).astype(np.int64)

    def coins(self, name: str) -> Array:
        """True for one half of the images."""
        return self.bits(name) >> np.uint64(63) == 1
