"""The one training loop and its clock. No framework has its own."""

from __future__ import annotations

import math
import resource
import time
from typing import List, Optional, Sequence, Tuple

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
    brake.engage()
    memory.forget_peak()  # our own arrays of initial weights are no cost of the framework
    with training_source(backend, job, place) as source:
        log.enter("compile")
        train_block(backend, source, [job.recipe.learning_rate], place, log)
        log.enter("warmup")
        warm_up(backend, source, job, place, log)
    peak_bytes = memory.peak_bytes()
    backend.write_weights(initial_weights(graph, job.seed))  # so that training is the recipe and nothing else
    memory.forget_peak()

    with training_source(backend, job, place) as source:
        for part in parts(job):
            log.enter("train")
            train(backend, source, part, job, place, log)
            peaks = {
                "peak_memory_bytes": max(peak_bytes, memory.peak_bytes()),
                "device_peak_bytes": backend.peak_memory_bytes(),
            }
            log.enter("evaluate", **peaks)
            if job.evaluate != "never":
                evaluate(backend, part.stop, job, place, log)
                memory.forget_peak()  # evaluation is no training
    backend.agree(True)  # nobody leaves while another still counts what they share
    log.enter("finish")


def parts(job: Job) -> List[range]:
    """The steps between two evaluations."""
    ends = [*(epoch_ends(job) if job.evaluate == "epoch" else []), job.steps]
    return [range(first, last) for first, last in zip([0, *ends], ends)]


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


def train_block(backend: Backend, source: Source, rates: Sequence[float], place: Place, log: EventLog) -> float:
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


def train(backend: Backend, source: Source, steps: range, job: Job, place: Place, log: EventLog) -> None:
    """Train these steps in blocks; between two blocks the clock stands still."""
    epochs_per_step = job.batch_size / job.epoch_images
    rates = [job.recipe.rate(step * epochs_per_step, epochs_per_step) for step in steps]
    for done in range(0, len(rates), job.block_steps):
        train_block(backend, source, rates[done : done + job.block_steps], place, log)


def evaluate(backend: Backend, steps: int, job: Job, place: Place, log: EventLog) -> None:
    """Judge every test image once with the running statistics, outside the training clock."""
    backend.agree(True)
    start = time.perf_counter()
    backend.merge_statistics()
    images, loss, correct = 0, 0.0, 0
    with evaluation_batches(job, place) as batches:
        for batch in batches:
            logits = backend.predict(backend.to_device(backend.to_host(batch.images, batch.labels)))
            losses, right = judged(logits[: batch.valid].astype(np.float64), batch.labels[: batch.valid])
            images, loss, correct = images + batch.valid, loss + losses.sum(), correct + int(right.sum())
    seconds = time.perf_counter() - start
    log.write("evaluation", steps=steps, images=images, loss=finite(loss), correct=correct, seconds=seconds)


def judged(logits: Array, labels: Array) -> Tuple[Array, Array]:
    """Each image's cross entropy, and whether its class was found."""
    largest = logits.max(1)
    rest = np.log(np.exp(logits - largest[:, None]).sum(1))
    return rest + largest - logits[np.arange(len(labels)), labels], logits.argmax(1) == labels


def finite(loss: float) -> Optional[float]:
    """The loss, or None where training has diverged: JSON has no word for NaN."""
    return loss if math.isfinite(loss) else None
