"""What a recipe does to its images, as names in a value that can be written into a job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Callable, Dict, Tuple

import numpy as np

from paceline_worker.input import colour, geometry, pixels, warp, whitening
from paceline_worker.input.dataset import Dataset
from paceline_worker.input.draws import Draws
from paceline_worker.input.order import ENDINGS
from paceline_worker.weights import Array

FixedStep = Callable[[Array], Array]
Step = Callable[[Array, Draws], Array]

# The same for every image, whenever it comes.
FIXED: Dict[str, FixedStep] = {
    "scale": pixels.scale,
    "mean": pixels.subtract_mean,
    "contrast": pixels.normalise_contrast,
    "pad4": partial(geometry.pad, border=4),
    "centre28": partial(geometry.centre, size=28),
    "centre32": partial(geometry.centre, size=32),
    "enlarge299": partial(geometry.enlarge, times=9, before=5, after=6),
}
# Drawn anew for each image in each epoch.
RANDOM: Dict[str, Step] = {
    "crop28": partial(geometry.crop, size=28),
    "crop32": partial(geometry.crop, size=32),
    "mirror": geometry.mirror,
    "jitter": colour.jitter,
    "affine": warp.affine,
    "shift": geometry.shift,
}
# Learnt from the training images before the first batch.
FITTED: Dict[str, Callable[[Dataset], FixedStep]] = {"whiten": whitening.fitted}


@dataclass(frozen=True)
class Pipeline:
    """The steps of training and of evaluation, and the order of the images."""

    training: Tuple[str, ...]
    evaluation: Tuple[str, ...]
    shuffled: bool
    ending: str  # where a batch crosses the end of the data set: a key of ENDINGS

    def __post_init__(self) -> None:
        expect(self.training, {**FIXED, **FITTED, **RANDOM})
        expect(self.evaluation, {**FIXED, **FITTED})  # nothing random: an accuracy must not depend on luck
        expect((self.ending,), ENDINGS)

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Dict[str, Any]) -> Pipeline:
        return cls(**{**value, "training": tuple(value["training"]), "evaluation": tuple(value["evaluation"])})


def expect(names: Tuple[str, ...], known: Dict[str, Any]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"Unknown step {name!r}; expected one of {', '.join(known)}.")


def prepare(names: Tuple[str, ...], dataset: Dataset) -> Step:
    """All the steps as one; what they need is learnt from the data set now, not at the first batch."""
    steps = [prepared(name, dataset) for name in names]
    dataset.release()

    def apply(images: Array, draws: Draws) -> Array:
        for step in steps:
            images = step(images, draws)
        return np.ascontiguousarray(images, np.float32)

    return apply


def prepared(name: str, dataset: Dataset) -> Step:
    if name in RANDOM:
        return RANDOM[name]
    fixed = FITTED[name](dataset) if name in FITTED else FIXED[name]
    return lambda images, draws: fixed(images)


def mxnet(level: int, size: int = 28) -> Pipeline:
    """MXNet's CIFAR-10 example at one of its levels of augmentation, for a network of this input size."""
    centre, crop = f"centre{size}", f"crop{size}"
    training = {
        0: (centre, "mean"),
        1: ("pad4", crop, "mirror", "mean"),
        2: ("pad4", crop, "jitter", "mirror", "mean"),
        3: ("affine", "pad4", crop, "jitter", "mirror", "mean"),
    }
    return Pipeline(training[level], (centre, "mean"), shuffled=True, ending="complete")


SCALED = Pipeline(("scale",), ("scale",), shuffled=False, ending="continue")  # neon to 1.5.4
WHITENED = Pipeline(
    ("contrast", "whiten"), ("contrast", "whiten"), shuffled=False, ending="continue"
)  # neon from 1.6.0
MXNET_LEVELS = {level: mxnet(level) for level in range(4)}
KERAS = Pipeline(("shift", "mirror", "scale"), ("scale",), shuffled=True, ending="complete")
INCEPTION = Pipeline(("scale", "enlarge299"), ("scale", "enlarge299"), shuffled=True, ending="complete")
