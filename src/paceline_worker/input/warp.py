"""MXNet's rotation, shear and change of aspect ratio: one affine map, sampled as OpenCV does, in whole numbers."""

from __future__ import annotations

import math
from typing import Tuple

import numpy as np

from paceline_worker.input.blocks import by_blocks
from paceline_worker.input.draws import Draws
from paceline_worker.input.geometry import pad
from paceline_worker.weights import Array

DEGREES, SHEAR, ASPECT = 10, 0.1, 0.25  # MXNet's CIFAR-10 example at level 3
# Read from a table: NumPy's own sine may differ in the last bit between its versions.
COSINES = np.array([math.cos(math.radians(angle)) for angle in range(-DEGREES, DEGREES + 1)])
SINES = np.array([math.sin(math.radians(angle)) for angle in range(-DEGREES, DEGREES + 1)])
FINE = 1024  # OpenCV finds a pixel's origin to 1/1024 and keeps 1/32 of it
PARTS, PART_BITS = 32, 5  # shifts are many times faster than divisions here
LANE = 21  # bits of each of three channels in one 64-bit integer; a weighed sum needs 18


def affine(images: Array, draws: Draws) -> Array:
    """Each image turned by whole degrees, sheared and stretched about its centre."""
    return by_blocks(sample, images, matrices(draws, images.shape[1]))


def matrices(draws: Draws, size: int) -> Array:
    """The map of each image from its own to the new coordinates, as two rows of three."""
    angle = draws.integers("angle", -DEGREES, DEGREES) + DEGREES
    shear = draws.uniform("shear", -SHEAR, SHEAR)
    ratio = draws.uniform("aspect", 1 - ASPECT, 1 + ASPECT)
    height = 2 / (1 + ratio)
    width = ratio * height
    cosine, sine = COSINES[angle], SINES[angle]
    forward = np.empty((len(angle), 2, 3))
    forward[:, 0, 0] = height * cosine - shear * sine * width
    forward[:, 0, 1] = height * sine + shear * cosine * width
    forward[:, 1, 0] = -sine * width
    forward[:, 1, 1] = cosine * width
    forward[:, :, 2] = (size - forward[:, :, :2].sum(axis=2) * size) / 2  # the centre stays where it is
    return forward


def origins(forward: Array, size: int) -> Tuple[Array, Array]:
    """The column and the row that each new pixel comes from, in 32nds of a pixel."""
    (a, b, right), (c, d, down) = forward.transpose(1, 2, 0)
    scale = 1 / (a * d - b * c)
    columns = fixed_point(d * scale, -b * scale, (b * down - d * right) * scale, size)
    rows = fixed_point(-c * scale, a * scale, (c * right - a * down) * scale, size)
    return columns, rows


def fixed_point(of_column: Array, of_row: Array, constant: Array, size: int) -> Array:
    """One coordinate of the origins of all pixels of all images, rounded where OpenCV rounds."""
    steps = np.arange(size)
    along = np.rint(of_column[:, np.newaxis] * steps * FINE).astype(np.int64)
    down = np.rint((of_row[:, np.newaxis] * steps + constant[:, np.newaxis]) * FINE).astype(np.int64)
    return (along[:, np.newaxis, :] + down[:, :, np.newaxis] + FINE // PARTS // 2) >> PART_BITS


def sample(images: Array, forward: Array) -> Array:
    """The mean of the four pixels around each origin, weighed by nearness; outside the image all is grey."""
    count, size, _, _ = images.shape
    columns, rows = origins(forward, size)
    wide = size + 4  # with a border of two: around an origin further out all is as grey as it is there
    left, top = (np.clip(values >> PART_BITS, -2, size) + 2 for values in (columns, rows))
    first = (np.arange(count)[:, np.newaxis, np.newaxis] * wide + top) * wide + left
    pixels = packed(pad(images, border=2)).ravel()
    right, down = columns & PARTS - 1, rows & PARTS - 1
    upper = pixels.take(first) * (PARTS - right) + pixels.take(first + 1) * right
    lower = pixels.take(first + wide) * (PARTS - right) + pixels.take(first + wide + 1) * right
    return unpacked(upper * (PARTS - down) + lower * down)


def packed(images: Array) -> Array:
    """The three channels of a pixel side by side in one integer, so that one multiplication weighs them all."""
    red, green, blue = (images[..., channel].astype(np.int64) for channel in range(3))
    return red | green << LANE | blue << 2 * LANE


def unpacked(weighed: Array) -> Array:
    """Eight-bit channels from sums of 1024 parts, rounded to the nearest."""
    images = np.empty((*weighed.shape, 3), np.uint8)
    for channel in range(3):
        images[..., channel] = (weighed + (FINE // 2 << channel * LANE)) >> channel * LANE + 2 * PART_BITS & 255
    return images
