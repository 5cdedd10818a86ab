"""The one training loop and its clock. No framework has its own."""

from __future__ import annotations

import itertools
import math
import time
from typing import Iterator, Optional

from paceline_worker import memory
from paceline_worker.contract import Backend, Batch
from paceline_worker.data import batches
from paceline_worker.graph import Graph
from paceline_worker.place import Place
from paceline_worker.protocol import EventLog, Job
from paceline_worker.weights import initial_weights

STEADY = 0.05  # two blocks that differ by less count as steady
WARMUP_LIMIT = 4  # times the least number of steps; on a noisy machine blocks may never be steady


def run(backend: Backend, job: Job, place: Place, log: EventLog) -> None:
    """Take a started framework through all phases; what each gave is in the log."""
    log.enter("build", idle_memory_bytes=memory.resident_bytes(), settings=backend.settings())
    graph = Graph.from_json(job.graph)
    backend.build(graph, initial_weights(graph, job.seed))
    memory.forget_peak()  # our own arrays of initial weights are no cost of the framework
    warm = batches(backend, job, place)

    log.enter("compile")
    train_block(backend, warm, 1, place, log)
    log.enter("warmup")
    warm_up(backend, warm, job, place, log)
    backend.write_weights(initial_weights(graph, job.seed))  # so that training is the recipe and nothing else

    log.enter("train")
    train(backend, batches(backend, job, place), job, place, log)
    log.enter("evaluate", peak_memory_bytes=memory.peak_resident_bytes(), device_peak_bytes=backend.peak_memory_bytes())
    evaluate(backend, batches(backend, job, place), job, log)
    log.enter("finish")


def timed_steps(backend: Backend, source: Iterator[Batch], steps: int) -> tuple[float, float]:
    """Train; return wall and processor seconds from idle devices to idle devices."""
    backend.agree(True)  # all ranks begin together
    backend.synchronize()
    processor, start = time.process_time(), time.perf_counter()
    for batch in itertools.islice(source, steps):
        backend.train_step(batch)
    backend.synchronize()  # steps return before the devices have done them
    return time.perf_counter() - start, time.process_time() - processor


def train_block(backend: Backend, source: Iterator[Batch], steps: int, place: Place, log: EventLog) -> float:
    """Train one block and write what it took; return its seconds."""
    seconds, processor_seconds = timed_steps(backend, source, steps)
    log.write(
        "block",
        steps=steps,
        images=steps * place.local_batch_size,
        seconds=seconds,
        processor_seconds=processor_seconds,
        losses=[finite(loss) for loss in backend.losses()],
    )
    return seconds


def warm_up(backend: Backend, source: Iterator[Batch], job: Job, place: Place, log: EventLog) -> None:
    """Train at least `job.warmup` steps and on until all ranks see two blocks that take equally long."""
    block_steps = max(1, job.warmup // 2)
    previous = 0.0
    for done in range(block_steps, WARMUP_LIMIT * job.warmup + 1, block_steps):
        seconds = train_block(backend, source, block_steps, place, log)
        steady = done >= job.warmup and abs(seconds - previous) < STEADY * seconds
        if backend.agree(steady):
            return
        previous = seconds


def train(backend: Backend, source: Iterator[Batch], job: Job, place: Place, log: EventLog) -> None:
    """Train `job.steps` steps in blocks; between two blocks the clock stands still."""
    for done in range(0, job.steps, job.block_steps):
        train_block(backend, source, min(job.block_steps, job.steps - done), place, log)


def evaluate(backend: Backend, source: Iterator[Batch], job: Job, log: EventLog) -> None:
    """Judge some batches with the running statistics, outside the training clock."""
    for batch in itertools.islice(source, job.evaluation_steps):
        start = time.perf_counter()
        result = backend.evaluate(batch)
        seconds = time.perf_counter() - start
        log.write("evaluation", images=result.images, loss=finite(result.loss), correct=result.correct, seconds=seconds)


def finite(loss: float) -> Optional[float]:
    """The loss, or None where training has diverged: JSON has no word for NaN."""
    return loss if math.isfinite(loss) else None
