"""Lays open what a framework computes, for a judge to compare: layer outputs, gradients, weights, losses."""

from __future__ import annotations

from typing import Callable, Dict, List, Sequence

import numpy as np

from paceline_worker.contract import Backend, Batch
from paceline_worker.data import fake_batch
from paceline_worker.graph import Graph
from paceline_worker.place import Place
from paceline_worker.probing_weights import probing_weights, strained
from paceline_worker.protocol import EventLog, Job, arrays_file
from paceline_worker.weights import Array, Weights

Found = Dict[str, Array]
SAMPLE = 4096  # values of an array that are kept of every step: the rule of a step is the same for each of them
CHANCES = 8  # passes in which dropout may choose


def run(backend: Backend, job: Job, place: Place, log: EventLog) -> None:
    """Show one batch to the framework in every way, then train with `job.rates`; all it gave is in one file."""
    log.enter("build", settings=backend.settings())
    graph = Graph.from_json(job.graph)
    weights = probing_weights(graph, job.seed)
    backend.build(graph, weights)
    log.enter("compile")
    found = SHOWN[job.task](backend, job, place, weights)
    np.savez(arrays_file(log.path.parent, place.rank), **found)
    log.enter("finish")


def everything(backend: Backend, job: Job, place: Place, weights: Weights) -> Found:
    """What a framework is asked."""
    found = {"agreed": np.array([backend.agree(True), backend.agree(place.rank > 0)])}
    found.update(whole(backend, job, place, weights))
    if job.rates:
        found.update(watch(backend, job, place, weights))
        found.update(strain(backend, job, place, weights))
    return found


def whole(backend: Backend, job: Job, place: Place, weights: Weights) -> Found:
    """What the reference, too, is asked about the whole network."""
    found = look(backend, device_batch(backend, job, place, 0))
    if job.rates:
        found.update(train(backend, job, place, weights))
    return found


def layers(backend: Backend, job: Job, place: Place, weights: Weights) -> Found:
    """What the reference makes of what each layer was given, and of one step."""
    found = look(backend, device_batch(backend, job, place, 0))
    found.update(step(backend, job, place))
    return found


def strained_layers(backend: Backend, job: Job, place: Place, weights: Weights) -> Found:
    """The same on strained weights, where only outputs are compared."""
    hard = strained(Graph.from_json(job.graph), weights)
    backend.write_weights(hard.weights)
    return prefixed("strained", backend.outputs(device_batch(backend, job, place, 0, hard.brightness)))


def chances(backend: Backend, job: Job, place: Place, weights: Weights) -> Found:
    """What random layers do in several passes, and that they are still in inference."""
    batch = device_batch(backend, job, place, 0)
    found = prefixed("written", backend.read_weights())
    for index in range(1 if job.given else CHANCES):
        found.update(prefixed(f"pass {index}", backend.outputs(batch)))
    found.update(prefixed("gradient", backend.gradients(batch)))
    found["inference"] = backend.predict(batch)
    return found


SHOWN: Dict[str, Callable[[Backend, Job, Place, Weights], Found]] = {
    "probe": everything,
    "probe whole": whole,
    "probe layers": layers,
    "probe strained": strained_layers,
    "probe chances": chances,
}


def device_batch(backend: Backend, job: Job, place: Place, index: int, brightness: float = 1.0) -> Batch:
    images, labels = fake_batch(job, place, index)
    return backend.to_device(backend.to_host(images * np.float32(brightness), labels))


def look(backend: Backend, batch: Batch) -> Found:
    """What can be seen without changing anything; that nothing changed is seen too."""
    found = prefixed("written", backend.read_weights())
    found.update(prefixed("output", backend.outputs(batch)))
    found.update(prefixed("gradient", backend.gradients(batch)))
    found.update(prefixed("undisturbed", backend.read_weights()))
    return found


def step(backend: Backend, job: Job, place: Place) -> Found:
    """Weights after one step of the recipe."""
    backend.train_step(device_batch(backend, job, place, 0))
    return prefixed("trained", backend.read_weights())


def train(backend: Backend, job: Job, place: Place, weights: Weights) -> Found:
    """Weights after one step; then, from the start again, losses of all steps, predictions, and two steps anew."""
    found = step(backend, job, place)
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


def watch(backend: Backend, job: Job, place: Place, weights: Weights) -> Found:
    """All steps again, each with the gradients that it takes: by them the rule of a step can be judged for itself."""
    batches = [device_batch(backend, job, place, index) for index in range(len(job.rates))]
    backend.write_weights(weights)
    return prefixed("watched", watched_steps(backend, batches, job.rates))


def strain(backend: Backend, job: Job, place: Place, weights: Weights) -> Found:
    """Outputs on strained weights, and a step there, whose gradients are large."""
    hard = strained(Graph.from_json(job.graph), weights)
    batch = device_batch(backend, job, place, 0, hard.brightness)
    backend.write_weights(hard.weights)
    found = prefixed("strained", backend.outputs(batch))
    found.update(prefixed("large", watched_steps(backend, [batch], [job.recipe.learning_rate])))
    return found


def watched_steps(backend: Backend, batches: List[Batch], rates: Sequence[float]) -> Found:
    """A sample of trained weights before the first step and after each, and of the gradients that each took."""
    gradients: List[Found] = []
    weights = [sampled(backend.read_weights())]
    for batch, rate in zip(batches, rates):
        gradients.append(sampled(backend.gradients(batch)))
        backend.set_learning_rate(rate)
        backend.train_step(batch)
        weights.append(sampled(backend.read_weights()))
    found = {f"gradients/{name}": np.stack([row[name] for row in gradients]) for name in gradients[0]}
    found.update({f"weights/{name}": np.stack([row[name] for row in weights]) for name in gradients[0]})
    return found


def sampled(arrays: Weights) -> Found:
    return {name: np.ravel(value)[:: -(-value.size // SAMPLE)] for name, value in arrays.items()}


def prefixed(part: str, arrays: Weights) -> Found:
    return {f"{part}/{name}": value for name, value in arrays.items()}
