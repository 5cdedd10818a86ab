"""Lays open what a framework computes, for a judge to compare: layer outputs, gradients, weights, losses."""

from __future__ import annotations

from typing import Dict, List

import numpy as np

from paceline_worker.contract import Backend, Batch
from paceline_worker.data import fake_batch
from paceline_worker.graph import Graph
from paceline_worker.place import Place
from paceline_worker.protocol import EventLog, Job, arrays_file
from paceline_worker.weights import Array, Weights, initial_weights


def run(backend: Backend, job: Job, place: Place, log: EventLog) -> None:
    """Show one batch to the framework in every way, then train with `job.rates`; all it gave is in one file."""
    log.enter("build", settings=backend.settings())
    graph = Graph.from_json(job.graph)
    weights = initial_weights(graph, job.seed)
    backend.build(graph, weights)
    log.enter("compile")
    found = {"agreed": np.array([backend.agree(True), backend.agree(place.rank > 0)])}
    found.update(look(backend, device_batch(backend, job, place, 0)))
    if job.rates:
        log.enter("train")
        found.update(train(backend, job, place, weights))
    np.savez(arrays_file(log.path.parent, place.rank), **found)  # type: ignore[arg-type]  # NumPy names a flag there
    log.enter("finish")


def device_batch(backend: Backend, job: Job, place: Place, index: int) -> Batch:
    return backend.to_device(backend.to_host(*fake_batch(job, place, index)))


def look(backend: Backend, batch: Batch) -> Dict[str, Array]:
    """What can be seen without changing anything; that nothing changed is seen too."""
    found = {f"written/{name}": value for name, value in backend.read_weights().items()}
    found.update(prefixed("output", backend.outputs(batch)))
    found.update(prefixed("gradient", backend.gradients(batch)))
    found.update(prefixed("undisturbed", backend.read_weights()))
    return found


def train(backend: Backend, job: Job, place: Place, weights: Weights) -> Dict[str, Array]:
    """Weights after one step of the recipe; then, from the start again, all steps, predictions, and two steps anew."""
    backend.train_step(device_batch(backend, job, place, 0))
    found = prefixed("trained", backend.read_weights())
    if job.given:
        return found  # they were for this step; further ones would repeat what is known without them
    found["losses"] = np.array(take_steps(backend, job, place, weights, len(job.rates)))
    found["correct"] = np.array(backend.correct())
    found.update(prefixed("final", backend.read_weights()))
    backend.merge_statistics()
    found["evaluation"] = backend.predict(device_batch(backend, job, place, 0))
    found["losses again"] = np.array(take_steps(backend, job, place, weights, 2))  # the second would show old momentum
    return found


def take_steps(backend: Backend, job: Job, place: Place, weights: Weights, count: int) -> List[float]:
    """Their losses, from these weights on."""
    backend.write_weights(weights)
    backend.losses()  # those of before are not asked for
    backend.correct()
    for index, rate in enumerate(job.rates[:count]):
        backend.set_learning_rate(rate)
        backend.train_step(device_batch(backend, job, place, index))
    return backend.losses()


def prefixed(part: str, arrays: Weights) -> Dict[str, Array]:
    return {f"{part}/{name}": value for name, value in arrays.items()}
