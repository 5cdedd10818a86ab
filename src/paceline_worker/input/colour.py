"""Colour jitter in OpenCV's eight-bit HLS space: hue 0 to 180 (two degrees each), lightness and saturation 0 to 255."""

from __future__ import annotations

from typing import Tuple

import numpy as np

from paceline_worker.input.blocks import by_blocks
from paceline_worker.input.draws import Draws
from paceline_worker.weights import Array

HUES, LEVELS = 180, 255
STEP = np.float32(1) / np.float32(LEVELS)
MOST = {"hue": 36, "lightness": 50, "saturation": 50}  # MXNet's CIFAR-10 example at level 2


def ramps() -> Array:
    """How far red, green and blue lie below the lightness at each hue: from -1 (brightest) to 1 (darkest)."""
    twelfths = (np.array([[0], [8], [4]]) + np.arange(HUES + 1) / 15) % 12
    return np.clip(np.minimum(twelfths - 3, 9 - twelfths), -1, 1).astype(np.float32)


RAMPS = ramps()


def to_hls(images: Array) -> Tuple[Array, Array, Array]:
    """Hue, lightness and saturation of each pixel: whole numbers, as float32."""
    # From 0 to 1, as in OpenCV: so that where half a step is rounded, the same float32 decides.
    red, green, blue = (images[..., channel] * STEP for channel in range(3))
    highest = np.maximum(np.maximum(red, green), blue)
    lowest = np.minimum(np.minimum(red, green), blue)
    spread, total = highest - lowest, highest + lowest
    room = np.minimum(total, 2 - total)  # the largest spread at this lightness
    saturation = np.rint(spread / np.maximum(room, STEP) * LEVELS)  # where there is no room, there is no spread
    slope = 30 / np.maximum(spread, STEP)
    hue = (red - green) * slope + 120
    np.copyto(hue, (blue - red) * slope + 60, where=highest == green)
    np.copyto(hue, (green - blue) * slope, where=highest == red)  # red comes first where two are highest
    np.copyto(hue, hue + HUES, where=hue < 0)
    return np.rint(hue), np.rint(total * (LEVELS / 2)), saturation


def from_hls(hue: Array, lightness: Array, saturation: Array) -> Array:
    """Eight-bit red, green and blue."""
    reach = saturation * np.minimum(lightness, LEVELS - lightness) / LEVELS
    at = hue.astype(np.intp)
    images = np.empty((*hue.shape, 3), np.uint8)
    for channel, ramp in enumerate(RAMPS):
        images[..., channel] = np.rint(lightness - reach * ramp.take(at))
    return images


def offsets(draws: Draws, name: str) -> Array:
    """What is added to all pixels of an image; MXNet cuts off the fraction, so that zero is twice as likely."""
    drawn = np.trunc(draws.uniform(name, -MOST[name], MOST[name]))
    return drawn.astype(np.float32)[:, np.newaxis, np.newaxis]


def jitter(images: Array, draws: Draws) -> Array:
    """Each image with its own change of hue, lightness and saturation."""
    return by_blocks(changed, images, *(offsets(draws, name) for name in MOST))


def changed(images: Array, by_hue: Array, by_lightness: Array, by_saturation: Array) -> Array:
    """What leaves its range is clipped, hue too, as in MXNet."""
    hue, lightness, saturation = to_hls(images)
    return from_hls(
        np.clip(hue + by_hue, 0, HUES),
        np.clip(lightness + by_lightness, 0, LEVELS),
        np.clip(saturation + by_saturation, 0, LEVELS),
    )
