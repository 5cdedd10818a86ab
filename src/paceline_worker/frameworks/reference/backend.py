"""NumPy in float64: forward, loss, gradients and the optimiser step, on any number of imagined devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

import numpy as np

from paceline_worker.contract import Batch, OneProcess, taken
from paceline_worker.frameworks.reference.builder import LAYERS_IN, Own
from paceline_worker.graph import Dropout, Graph
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights


@dataclass
class Trace:
    """One forward pass of one device: every output, every layer's arrays as it left them, and what the next layers saw.

    They see the outputs, unless those of another framework are given. Then each layer is judged by itself, and a value
    so near to zero that rounding decides whether a ReLU lets it pass is decided as that framework did: otherwise one
    such value, among millions, would look like a wrong gradient.
    """

    outputs: Dict[str, Array]
    own: Dict[str, Own]
    seen: Dict[str, Array]


class FrameworkBackend(OneProcess):
    _shared: Weights  # trained and frozen: the same on every device
    _running: List[Weights]  # of each device

    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        self._layers = LAYERS_IN[job.precision]
        self._given: Weights = dict(np.load(job.given)) if job.given else {}

    def settings(self) -> Dict[str, Any]:
        return {"versions": {"numpy": np.__version__}, "threads": self._place.threads, "precision": "float64"}

    def build(self, graph: Graph, weights: Weights) -> None:
        self._graph, self._parameters = graph, graph.parameters()
        self._losses: List[float] = []
        self._correct: List[int] = []
        self.write_weights(weights)

    def to_host(self, images: Array, labels: Array) -> Batch:
        return images.astype(np.float64), labels

    def to_device(self, batch: Batch) -> Batch:
        """A part for each device, as equal as the job says."""
        ends = np.cumsum(self._place.shares)[:-1]
        return list(zip(np.split(batch[0], ends), np.split(batch[1], ends)))

    def _forward(self, device: int, images: Array, *, training: bool) -> Trace:
        trace = Trace({}, {}, {})
        for node in self._graph.nodes.values():
            names = [parameter.name for parameter in node.op.parameters(self._graph.source(node))]
            arrays = {**self._shared, **self._running[device]}
            own = trace.own[node.name] = {name: arrays[f"{node.name}.{name}"] for name in names}
            inputs = [trace.seen[name] for name in node.inputs] or [images]
            given = self._given_part(node.name, device) if training and node.name in self._given else None
            if given is not None and isinstance(node.op, Dropout) and node.op.rate:
                output = given  # what chance decided is no matter of this comparison
            else:
                output = self._layers[type(node.op)][0](node.op, own, inputs, training)
            trace.outputs[node.name] = output
            trace.seen[node.name] = output if given is None else given
        return trace

    def _given_part(self, name: str, device: int) -> Array:
        first = sum(self._place.shares[:device])
        return self._given[name][first : first + self._place.shares[device]].astype(np.float64)

    def _backward(self, trace: Trace, labels: Array) -> Tuple[float, Weights]:
        """Loss of the device's part, and the gradient of every trained array."""
        slopes: Dict[str, Array] = {}
        gradients: Weights = {}
        loss = 0.0
        for name, weight in self._graph.losses.items():
            value, slopes[name] = cross_entropy(trace.seen[name], labels)
            loss, slopes[name] = loss + weight * value.mean(), weight * slopes[name] / len(labels)
        for node in reversed(list(self._graph.nodes.values())):
            inputs = [trace.seen[name] for name in node.inputs] or [trace.seen[node.name]]
            own, slope = trace.own[node.name], slopes.pop(node.name)
            back, found = self._layers[type(node.op)][1](node.op, own, inputs, trace.seen[node.name], slope)
            gradients.update({f"{node.name}.{name}": value for name, value in found.items()})
            for source, part in zip(node.inputs, back):
                slopes[source] = slopes[source] + part if source in slopes else part
        return float(loss), {name: gradients[name] for name in self._graph.names("trainable")}

    def _differentiate(self, batch: Batch) -> Tuple[List[Trace], float, Weights]:
        """Each device on its own part with its own statistics; loss and gradients are means over all images."""
        traces = [self._forward(device, images, training=True) for device, (images, _) in enumerate(batch)]
        results = [self._backward(trace, labels) for trace, (_, labels) in zip(traces, batch)]
        parts = [share / self._place.local_batch_size for share in self._place.shares]
        gradients = {
            name: sum(part * found[name] for part, (_, found) in zip(parts, results)) for name in results[0][1]
        }
        return traces, float(sum(part * loss for part, (loss, _) in zip(parts, results))), gradients

    def train_step(self, batch: Batch) -> None:
        traces, loss, gradients = self._differentiate(batch)
        recipe = self._job.recipe
        for name, gradient in gradients.items():
            decayed = self._parameters[name].role in recipe.decayed
            pull = gradient + recipe.weight_decay * self._shared[name] if decayed else gradient
            velocity = self._velocity[name] = recipe.momentum * self._velocity[name] + pull
            move = pull + recipe.momentum * velocity if recipe.nesterov else velocity
            self._shared[name] = self._shared[name] - self._rate * move
        for device, trace in enumerate(traces):
            for name in self._graph.names("running"):
                layer, _, own = name.rpartition(".")
                self._running[device][name] = trace.own[layer][own]
        self._losses.append(loss)
        if self._job.count_correct:
            guesses = np.concatenate([trace.outputs[self._graph.prediction].argmax(1) for trace in traces])
            self._correct.append(int((guesses == np.concatenate([labels for _, labels in batch])).sum()))
        self._given = {}  # it was for the first step; from here on the reference goes its own way

    def set_learning_rate(self, rate: float) -> None:
        self._rate = rate

    def synchronize(self) -> None:
        """Nothing is ever queued."""

    def losses(self) -> List[float]:
        return taken(self._losses)

    def correct(self) -> List[int]:
        return taken(self._correct)

    def merge_statistics(self) -> None:
        self._running = [self._averaged() for _ in self._running]

    def predict(self, batch: Batch) -> Array:
        traces = [self._forward(device, images, training=False) for device, (images, _) in enumerate(batch)]
        return np.concatenate([trace.outputs[self._graph.prediction] for trace in traces])

    def outputs(self, batch: Batch) -> Weights:
        traces = [self._forward(device, images, training=True) for device, (images, _) in enumerate(batch)]
        return {name: np.concatenate([trace.outputs[name] for trace in traces]) for name in self._graph.nodes}

    def gradients(self, batch: Batch) -> Weights:
        return self._differentiate(batch)[2]

    def _averaged(self) -> Weights:
        return {name: np.mean([own[name] for own in self._running], axis=0) for name in self._graph.names("running")}

    def read_weights(self) -> Weights:
        arrays = {**self._shared, **self._averaged()}
        return {name: arrays[name].copy() for name in self._parameters}

    def write_weights(self, weights: Weights) -> None:
        wide = {name: value.astype(np.float64) for name, value in weights.items()}
        running = self._graph.names("running")
        self._shared = {name: value for name, value in wide.items() if name not in running}
        self._running = [{name: wide[name] for name in running} for _ in self._place.devices]
        self._velocity = {name: np.zeros_like(wide[name]) for name in self._graph.names("trainable")}
        self._rate = self._job.recipe.learning_rate


def cross_entropy(logits: Array, labels: Array) -> Tuple[Array, Array]:
    """Loss of each image, and its slope."""
    shifted = logits - logits.max(1, keepdims=True)
    chances = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    wanted = np.eye(logits.shape[1])[labels]
    return -np.log((chances * wanted).sum(1)), chances - wanted
