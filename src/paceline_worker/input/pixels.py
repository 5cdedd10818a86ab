"""Pixel values: from eight bits to what a network is fed."""

from __future__ import annotations

import numpy as np

from paceline_worker.weights import Array

MEAN = np.array([123.68, 116.779, 103.939], np.float32)  # red, green, blue: MXNet's default for all its examples
CONTRAST = 55.0  # norm of an image after contrast normalisation, in neon
LEAST = 1e-8  # smaller than this is no contrast at all


def scale(images: Array) -> Array:
    """Values from 0 to 1: neon to 1.5.4, Keras."""
    return np.divide(images, np.float32(255), dtype=np.float32)


def subtract_mean(images: Array) -> Array:
    """MXNet: each channel without its mean, and not divided by anything."""
    count, height, width, channels = images.shape
    rows = images.reshape(count, height, width * channels)  # one long row is faster than many short pixels
    return np.subtract(rows, np.tile(MEAN, width), dtype=np.float32).reshape(images.shape)


def normalise_contrast(images: Array) -> Array:
    """neon from 1.6.0: each image without its own mean and with a norm of 55; one of a single grey stays zero."""
    flat = images.reshape(len(images), -1).astype(np.float32)
    flat -= flat.mean(axis=1, keepdims=True)
    divisors = np.sqrt(np.square(flat).sum(axis=1, keepdims=True)) / np.float32(CONTRAST)
    divisors[divisors < LEAST] = 1
    return (flat / divisors).reshape(images.shape)
