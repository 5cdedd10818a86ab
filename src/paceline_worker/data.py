"""Batches: where the images come from and how they reach the devices."""

from __future__ import annotations

import itertools
from typing import Callable, Iterator, Tuple

import numpy as np

from paceline_worker.contract import Backend, Batch
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array

Arrays = Tuple[Array, Array]
PYTHON_BATCHES = 4  # fed in turn, so that no cache can serve the last step's arrays again


def fake_batch(job: Job, place: Place, index: int) -> Arrays:
    """This rank's part of the fake batch with this index; the whole batch is the same for any number of ranks."""
    height_width_channels = next(node["size"] for node in job.graph["nodes"] if node["op"] == "Input")
    stream = np.random.RandomState([job.seed, index])  # a frozen stream: every NumPy makes the same images
    images = stream.uniform(-1, 1, (job.batch_size, *height_width_channels)).astype(np.float32)
    labels = stream.randint(0, job.classes, job.batch_size).astype(np.int64)
    return np.ascontiguousarray(images[place.images]), labels[place.images]


def from_device(backend: Backend, job: Job, place: Place) -> Iterator[Batch]:
    """One batch that lies on the devices: no input cost at all."""
    return itertools.repeat(backend.to_device(backend.to_host(*fake_batch(job, place, 0))))


def from_host(backend: Backend, job: Job, place: Place) -> Iterator[Batch]:
    """One batch in the framework's host memory, copied to the devices each step."""
    return map(backend.to_device, itertools.repeat(backend.to_host(*fake_batch(job, place, 0))))


def from_python(backend: Backend, job: Job, place: Place) -> Iterator[Batch]:
    """NumPy arrays handed to the framework each step, as a data loader written in Python would."""
    arrays = [fake_batch(job, place, index) for index in range(PYTHON_BATCHES)]
    return (backend.to_device(backend.to_host(*batch)) for batch in itertools.cycle(arrays))


SOURCES: dict[str, Callable[[Backend, Job, Place], Iterator[Batch]]] = {
    "fake:device": from_device,
    "fake:host": from_host,
    "fake:python": from_python,
}


def batches(backend: Backend, job: Job, place: Place) -> Iterator[Batch]:
    """Endless device batches from the start of the job's data source."""
    return SOURCES[job.data](backend, job, place)
