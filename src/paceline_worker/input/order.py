"""Which image stands where: the sequence of batches is one for all ranks, and each rank takes its slice of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Callable, Dict, NamedTuple, Tuple

import numpy as np

from paceline_worker.input.draws import Draws
from paceline_worker.weights import Array


class Positions(NamedTuple):
    """For each image of a batch the epoch it belongs to and its index in the data set."""

    epochs: Array
    indices: Array


class Ending(NamedTuple):
    """What happens where a batch crosses the end of the data set."""

    steps: Callable[[int, int, int], int]  # images, batch, epochs -> steps
    places: Callable[[int, int, int], Tuple[Array, Array]]  # images, batch, step -> epochs, places in their order


def steps_going_on(images: int, batch: int, epochs: int) -> int:
    return -(-images * epochs // batch)


def places_going_on(images: int, batch: int, step: int) -> Tuple[Array, Array]:
    epochs, places = np.divmod(np.arange(step * batch, (step + 1) * batch, dtype=np.int64), images)
    return epochs, places


def steps_completed(images: int, batch: int, epochs: int) -> int:
    return epochs * -(-images // batch)


def places_completed(images: int, batch: int, step: int) -> Tuple[Array, Array]:
    epoch, step_of_epoch = divmod(step, steps_completed(images, batch, 1))
    first = step_of_epoch * batch
    return np.full(batch, epoch, np.int64), np.arange(first, first + batch, dtype=np.int64) % images


ENDINGS: Dict[str, Ending] = {
    # neon: the last batch takes the first images of the next epoch, which begins after those.
    "continue": Ending(steps_going_on, places_going_on),
    # MXNet: the last batch is filled up with the first images of the same epoch; the next has batches of its own.
    "complete": Ending(steps_completed, places_completed),
}


@lru_cache(maxsize=4)  # the epochs that a batch touches, in training and in a thread that is ahead of it
def permutation(images: int, seed: int, epoch: int) -> Array:
    """The images of an epoch in random order."""
    everyone = Draws(seed, np.int64(epoch), np.arange(images))
    shuffled = np.argsort(everyone.bits("order"), kind="stable")
    shuffled.setflags(write=False)
    return shuffled


@dataclass(frozen=True)
class Order:
    """The endless sequence of whole batches over a data set."""

    images: int
    batch: int  # images of a step on all devices together
    seed: int
    shuffled: bool
    ending: str  # a key of ENDINGS

    def steps(self, epochs: int) -> int:
        """Steps until each image has been seen `epochs` times."""
        return ENDINGS[self.ending].steps(self.images, self.batch, epochs)

    def positions(self, step: int) -> Positions:
        """The whole batch of this step."""
        epochs, places = ENDINGS[self.ending].places(self.images, self.batch, step)
        return Positions(epochs, self.indices(epochs, places) if self.shuffled else places)

    def indices(self, epochs: Array, places: Array) -> Array:
        found = np.empty_like(places)
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
            here = epochs == epoch
            found[here] = permutation(self.images, self.seed, epoch)[places[here]]
        return found
