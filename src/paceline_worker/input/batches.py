"""The batches of one process: its slice of every training step, and its part of the test images."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Iterator, NamedTuple, Tuple

import numpy as np

from paceline_worker.input.dataset import Dataset
from paceline_worker.input.draws import Draws
from paceline_worker.input.order import Order
from paceline_worker.input.pipeline import Pipeline, Step, prepare
from paceline_worker.weights import Array


@dataclass(frozen=True)
class TrainingBatches:
    """Endless pairs of images (float32, channels last) and labels (int64); each iteration begins at the first step."""

    dataset: Dataset
    pipeline: Pipeline
    batch: int  # images of a step on all devices together
    part: slice  # of the batch: this process's own
    seed: int

    @property
    def order(self) -> Order:
        pipeline = self.pipeline
        return Order(len(self.dataset.train_labels), self.batch, self.seed, pipeline.shuffled, pipeline.ending)

    def __iter__(self) -> Iterator[Tuple[Array, Array]]:
        return self.steps(prepare(self.pipeline.training, self.dataset))

    def steps(self, transform: Step) -> Iterator[Tuple[Array, Array]]:
        order = self.order
        for step in itertools.count():
            epochs, indices = (values[self.part] for values in order.positions(step))
            images = transform(self.dataset.train_images[indices], Draws(self.seed, epochs, indices))
            self.dataset.release()
            yield images, self.dataset.train_labels[indices].astype(np.int64)


class EvaluationBatch(NamedTuple):
    """Some test images; those from `valid` on only fill the batch up and must not be counted."""

    images: Array
    labels: Array
    valid: int


@dataclass(frozen=True)
class EvaluationBatches:
    """Every test image once over all ranks; all ranks have equally many batches, each as large as its share."""

    dataset: Dataset
    pipeline: Pipeline
    batch: int
    part: slice

    def __len__(self) -> int:
        return math.ceil(len(self.dataset.test_labels) / self.batch)

    def __iter__(self) -> Iterator[EvaluationBatch]:
        return self.steps(prepare(self.pipeline.evaluation, self.dataset))

    def steps(self, transform: Step) -> Iterator[EvaluationBatch]:
        count = len(self.dataset.test_labels)
        for step in range(len(self)):
            wanted = np.arange(step * self.batch, (step + 1) * self.batch)[self.part]
            indices = wanted % count  # the last batch is filled up with the first images
            nobody = Draws(0, np.zeros_like(indices), indices)  # no step of evaluation draws
            images = transform(self.dataset.test_images[indices], nobody)
            self.dataset.release()
            labels = self.dataset.test_labels[indices].astype(np.int64)
            yield EvaluationBatch(images, labels, int(np.count_nonzero(wanted < count)))
