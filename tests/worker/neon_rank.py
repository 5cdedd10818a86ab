"""One rank of neon's exchange, in a process of its own that has no neon: `python -m tests.worker.neon_rank FOLDER`.

The folder has a job, and a batch for all ranks. The rank trains one matrix on its images, leaves to the exchange what
lies between its gradient and its weights, and writes what it has then.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from paceline_worker.frameworks.neon.exchange import Exchange, exchange_of
from paceline_worker.frameworks.neon.peers import Meeting, Peers
from paceline_worker.place import find_place
from paceline_worker.protocol import Job, arrays_file
from paceline_worker.weights import Array, Weights


class Tensor:
    """All that the exchange knows of neon's: a copy comes out, numbers go in."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._numbers = np.zeros(shape, np.float32)

    def get(self) -> Array:
        return self._numbers.copy()

    def set(self, numbers: Array) -> None:
        self._numbers[:] = numbers


def trained(job: Job, exchange: Exchange, images: Array, wanted: Array) -> Weights:
    """Gradients are sums over images and become means in the optimiser, as neon's do."""
    weights, gradients, velocity = (Tensor((images.shape[1], wanted.shape[1])) for _ in range(3))
    exchange.prepare(lambda of_gradients: gradients if of_gradients else weights)

    def differentiate() -> None:
        gradients.set(images.T @ (images @ weights.get() - wanted))

    def optimize() -> None:
        velocity.set(job.recipe.momentum * velocity.get() + gradients.get() / exchange.images)
        weights.set(weights.get() - job.recipe.learning_rate * velocity.get())

    differentiate()
    exchange.add_up_gradients()
    looked_at = gradients.get() / exchange.images
    for _ in range(job.steps):
        differentiate()
        exchange.step(optimize)
    return {"gradient": looked_at, "weights": weights.get()}


def main(folder: Path) -> None:
    job = Job.read(folder)
    place = find_place(job, os.environ)
    peers = Peers(place.rank, place.size, Meeting.read(os.environ), job.patience_seconds)
    exchange = exchange_of(job)(job, place, peers)
    with np.load(folder / "batch.npz") as batch:
        found = trained(job, exchange, batch["images"][place.images], batch["wanted"][place.images])
    own = {"mean": np.full((2, 3), place.rank, np.float32), "variance": np.array([10.0 * place.rank], np.float32)}
    np.savez(arrays_file(folder, place.rank), **found, **exchange.averaged(own))
    peers.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
