"""Moving images about: borders, crops, mirrors, shifts and enlargement, all without interpolation."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from paceline_worker.input.draws import Draws
from paceline_worker.weights import Array

FILL = 127  # what lies outside an image, in MXNet's CIFAR-10 example
SHIFT = 0.1  # of width and of height, in the Keras runs


def pad(images: Array, *, border: int) -> Array:
    """A grey border on each side."""
    return np.pad(images, around(border), mode="constant", constant_values=FILL)


def around(border: int) -> tuple[tuple[int, int], ...]:
    """The border of a batch: nothing before and after the images themselves and their channels."""
    return ((0, 0), (border, border), (border, border), (0, 0))


def cut(images: Array, tops: Array, lefts: Array, size: int) -> Array:
    """A square from each image, each at a place of its own."""
    count, height, width, channels = images.shape
    of_image, of_row, of_column, of_channel = images.strides
    windows = as_strided(
        images,
        (count, height - size + 1, width - size + 1, size, size, channels),
        (of_image, of_row, of_column, of_row, of_column, of_channel),
        writeable=False,
    )
    return windows[np.arange(count), tops, lefts]


def crop(images: Array, draws: Draws, *, size: int) -> Array:
    """A square from anywhere in the image."""
    _, height, width, _ = images.shape
    tops = draws.integers("crop top", 0, height - size)
    lefts = draws.integers("crop left", 0, width - size)
    return cut(images, tops, lefts, size)


def centre(images: Array, *, size: int) -> Array:
    """The square in the middle."""
    _, height, width, _ = images.shape
    top, left = (height - size) // 2, (width - size) // 2
    return images[:, top : top + size, left : left + size]


def mirror(images: Array, draws: Draws) -> Array:
    """Half of the images with left and right exchanged."""
    turned = draws.coins("mirror")
    result = np.array(images, order="C")
    pixels = result.view(f"V{result.shape[-1] * result.itemsize}")  # whole pixels move faster than their channels
    pixels[turned] = pixels[turned][:, :, ::-1]
    return result


def shift(images: Array, draws: Draws) -> Array:
    """Keras: each image moved by up to a tenth of its size, its edge repeated into the gap.

    The shift is drawn from a continuous range, but the nearest pixel is taken: this moves by whole pixels.
    """
    size = images.shape[1]
    furthest = int(SHIFT * size + 0.5)
    reach = SHIFT * size
    tops, lefts = (
        np.floor(draws.uniform(name, -reach, reach) + 0.5).astype(np.int64) + furthest
        for name in ("shift down", "shift right")
    )
    return cut(np.pad(images, around(furthest), mode="edge"), tops, lefts, size)


def enlarge(images: Array, *, times: int, before: int, after: int) -> Array:
    """Each pixel repeated in both directions, with a black border before and after."""
    count, height, width, channels = images.shape
    tall, wide = (before + side * times + after for side in (height, width))
    result = np.zeros((count, tall, wide, channels), images.dtype)
    inside = result[:, before : tall - after, before : wide - after]
    rows = inside.reshape(count, height, times, width * times, channels)  # a view: only an axis is split
    rows[:] = np.repeat(images, times, axis=2)[:, :, np.newaxis]
    return result
