"""The one training loop and its clock. No framework has its own."""

from __future__ import annotations

import math
import resource
import time
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import numpy.random  # NumPy loads it when it is first used, which would seem a cost of the framework

from paceline_worker import memory
from paceline_worker.brake import Brake
from paceline_worker.contract import Backend
from paceline_worker.data import Source, epoch_ends, evaluation_batches, training_source
from paceline_worker.graph import Graph
from paceline_worker.place import Place
from paceline_worker.protocol import EventLog, Job
from paceline_worker.weights import Array, initial_weights

STEADY = 0.05  # two blocks that differ by less count as steady
WARMUP_LIMIT = 4  # times the least number of steps; on a noisy machine blocks may never be steady


def run(backend: Backend, job: Job, place: Place, log: EventLog) -> None:
    """Take a started framework through all phases; what each gave is in the log."""
    brake = Brake(job.slow[place.rank] if job.slow else 1.0)
    log.enter("build", idle_memory_bytes=memory.held_bytes(), settings=backend.settings())
    graph = Graph.from_json(job.graph)
    backend.build(graph, initial_weights(graph, job.seed))
    with training_source(backend, job, place) as source:
        brake.engage()
        memory.forget_peak()  # our own arrays, of initial weights and to prepare images, are no cost of the framework
        log.enter("compile")
        train_block(backend, source, [job.recipe.learning_rate], place, log)
        log.enter("warmup")
        warm_up(backend, source, job, place, log)
    peak_bytes = memory.peak_bytes()
    backend.write_weights(initial_weights(graph, job.seed))  # so that training is the recipe and nothing else

    with training_source(backend, job, place) as source:
        memory.forget_peak()
        for epoch in epochs(job):
            if log.phase != "train":  # without evaluation, one epoch goes on where the other ends
                log.enter("train")
            train(backend, source, epoch, job, place, log)
            if job.evaluate == "epoch" or epoch.steps.stop == job.steps:
                peak_bytes = max(peak_bytes, memory.peak_bytes())
                log.enter("evaluate", peak_memory_bytes=peak_bytes, device_peak_bytes=backend.peak_memory_bytes())
                evaluate(backend, epoch, job, place, log)
    backend.agree(True)  # nobody leaves while another still counts what they share
    log.enter("finish")


class Epoch(NamedTuple):
    """A pass over the training images."""

    number: int
    steps: range


def epochs(job: Job) -> List[Epoch]:
    """Those of real images, of which the last may be cut short; on fake images all steps are one."""
    ends = [*(epoch_ends(job) if job.pipeline else []), job.steps]
    return [Epoch(number, range(*steps)) for number, steps in enumerate(zip([0, *ends], ends))]


def timed_steps(backend: Backend, source: Source, rates: Sequence[float]) -> Tuple[float, float]:
    """Train a step at each rate; return wall and processor seconds from idle devices to idle devices."""
    backend.agree(True)  # all ranks begin together
    backend.synchronize()
    current = None
    processor, start = time.process_time(), time.perf_counter()
    for rate, batch in zip(rates, source.batches):
        if rate != current:
            backend.set_learning_rate(rate)
            current = rate
        backend.train_step(batch)
    backend.synchronize()  # steps return before the devices have done them
    return time.perf_counter() - start, time.process_time() - processor


def train_block(
    backend: Backend, source: Source, rates: Sequence[float], place: Place, log: EventLog, epoch: Optional[int] = None
) -> float:
    """Train one block and write what it took; return its seconds."""
    waited, switches = source.waited_seconds, involuntary_switches()
    seconds, processor_seconds = timed_steps(backend, source, rates)
    log.write(
        "block",
        steps=len(rates),
        images=len(rates) * place.local_batch_size,
        seconds=seconds,
        processor_seconds=processor_seconds,
        waited_seconds=source.waited_seconds - waited,
        involuntary_switches=involuntary_switches() - switches,
        losses=[finite(loss) for loss in backend.losses()],
        correct=backend.correct(),
        epoch=epoch,
    )
    return seconds


def involuntary_switches() -> int:
    """How often a thread of this process had to leave its core to another one."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def warm_up(backend: Backend, source: Source, job: Job, place: Place, log: EventLog) -> None:
    """Train at least `job.warmup` steps and on until all ranks see two blocks that take equally long."""
    block_steps = max(1, job.warmup // 2)
    previous = 0.0
    for done in range(block_steps, WARMUP_LIMIT * job.warmup + 1, block_steps):
        seconds = train_block(backend, source, [job.recipe.learning_rate] * block_steps, place, log)
        steady = done >= job.warmup and abs(seconds - previous) < STEADY * seconds
        if backend.agree(steady):
            return
        previous = seconds


def train(backend: Backend, source: Source, epoch: Epoch, job: Job, place: Place, log: EventLog) -> None:
    """Train the steps of an epoch in blocks; between two blocks the clock stands still."""
    epochs_per_step = job.batch_size / job.epoch_images
    rates = [job.recipe.rate(step * epochs_per_step, epochs_per_step) for step in epoch.steps]
    for done in range(0, len(rates), job.block_steps):
        train_block(backend, source, rates[done : done + job.block_steps], place, log, epoch.number)


def evaluate(backend: Backend, epoch: Epoch, job: Job, place: Place, log: EventLog) -> None:
    """Judge every test image once with the running statistics, outside the training clock, if that is wanted."""
    if job.evaluate == "never":
        return
    images, loss, correct = 0, 0.0, 0
    with evaluation_batches(job, place) as batches:
        backend.agree(True)
        start = time.perf_counter()
        backend.merge_statistics()
        for batch in batches:
            logits = backend.predict(backend.to_device(backend.to_host(batch.images, batch.labels)))
            losses, right = judged(logits[: batch.valid].astype(np.float64), batch.labels[: batch.valid])
            images, loss, correct = images + batch.valid, loss + losses.sum(), correct + int(right.sum())
    seconds = time.perf_counter() - start
    found = {"images": images, "loss": finite(loss), "correct": correct, "seconds": seconds}
    log.write("evaluation", steps=epoch.steps.stop, epoch=epoch.number, **found)
    memory.forget_peak()  # it is no training


def judged(logits: Array, labels: Array) -> Tuple[Array, Array]:
    """Each image's cross entropy, and whether its class was found."""
    largest = logits.max(1)
    rest = np.log(np.exp(logits - largest[:, None]).sum(1))
    return rest + largest - logits[np.arange(len(labels)), labels], logits.argmax(1) == labels


def finite(loss: float) -> Optional[float]:
    """The loss, or None where training has diverged: JSON has no word for NaN."""
    return loss if math.isfinite(loss) else None
