"""Batches: where the images come from and how they reach the devices."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from paceline_worker.contract import Backend, Batch
from paceline_worker.input.batches import EvaluationBatch, EvaluationBatches, TrainingBatches
from paceline_worker.input.dataset import Dataset
from paceline_worker.input.order import ENDINGS
from paceline_worker.input.pipeline import Pipeline
from paceline_worker.input.prefetch import Prefetch
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array

Arrays = Tuple[Array, Array]
PYTHON_BATCHES = 4  # fed in turn, so that no cache can serve the last step's arrays again


@dataclass(frozen=True)
class Source:
    """Endless device batches."""

    batches: Iterator[Batch]
    ahead: Optional[Prefetch[Arrays]] = None  # what makes their images meanwhile, where they are real

    @property
    def waited_seconds(self) -> float:
        """How long the program stood still since images were not ready."""
        return self.ahead.waited_seconds if self.ahead else 0.0


def fake_batch(job: Job, place: Place, index: int) -> Arrays:
    """This rank's part of the fake batch with this index; the whole batch is the same for any number of ranks."""
    height_width_channels = next(node["size"] for node in job.graph["nodes"] if node["op"] == "Input")
    # Frozen streams: every NumPy makes the same, and a smaller batch is the beginning of a larger one.
    pixels, classes = (np.random.RandomState([job.seed, index, part]) for part in range(2))
    images = pixels.uniform(-1, 1, (job.batch_size, *height_width_channels)).astype(np.float32)
    labels = classes.randint(0, job.classes, job.batch_size).astype(np.int64)
    return np.ascontiguousarray(images[place.images]), labels[place.images]


def from_device(backend: Backend, job: Job, place: Place) -> Source:
    """One batch that lies on the devices: no input cost at all."""
    return Source(itertools.repeat(backend.to_device(backend.to_host(*fake_batch(job, place, 0)))))


def from_host(backend: Backend, job: Job, place: Place) -> Source:
    """One batch in the framework's host memory, copied to the devices each step."""
    return Source(map(backend.to_device, itertools.repeat(backend.to_host(*fake_batch(job, place, 0)))))


def from_python(backend: Backend, job: Job, place: Place) -> Source:
    """NumPy arrays handed to the framework each step, as a data loader written in Python would."""
    arrays = [fake_batch(job, place, index) for index in range(PYTHON_BATCHES)]
    return Source(backend.to_device(backend.to_host(*batch)) for batch in itertools.cycle(arrays))


def from_files(backend: Backend, job: Job, place: Place) -> Source:
    """Real images in the recipe's order and form, made ready by a thread while the devices train."""
    dataset, pipeline = Dataset.open(Path(job.dataset)), Pipeline.from_json(job.pipeline)
    ahead = Prefetch(TrainingBatches(dataset, pipeline, job.batch_size, place.images, job.seed))
    return Source((backend.to_device(backend.to_host(*arrays)) for arrays in ahead), ahead)


FAKE: Dict[str, Callable[[Backend, Job, Place], Source]] = {
    "fake:device": from_device,
    "fake:host": from_host,
    "fake:python": from_python,
}


@contextlib.contextmanager
def training_source(backend: Backend, job: Job, place: Place) -> Iterator[Source]:
    """Endless device batches from the start of the job's data source."""
    source = FAKE.get(job.data, from_files)(backend, job, place)
    try:
        yield source
    finally:
        if source.ahead:
            source.ahead.close()


@contextlib.contextmanager
def evaluation_batches(job: Job, place: Place) -> Iterator[Iterator[EvaluationBatch]]:
    """This process's part of the test images, each of which is in exactly one part."""
    dataset, pipeline = Dataset.open(Path(job.dataset)), Pipeline.from_json(job.pipeline)
    with Prefetch(EvaluationBatches(dataset, pipeline, job.batch_size, place.images)) as ahead:
        yield ahead


def epoch_ends(job: Job) -> List[int]:
    """The steps after which the training images have been seen once, twice, and so on, up to the last step."""
    steps = ENDINGS[job.pipeline["ending"]].steps
    ends = (steps(job.epoch_images, job.batch_size, epochs) for epochs in itertools.count(1))
    return list(itertools.takewhile(lambda end: end < job.steps, ends))
