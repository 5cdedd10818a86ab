"""Backends that do one thing wrong around a framework's own backend; they run in its process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.mutants.optimizers import RULES, State, Step
from paceline_worker.contract import Backend, Batch
from paceline_worker.graph import Graph
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights, initial_weights


class Faithful(Backend):
    """Does what the framework does; the network inside may be another one than the one that is asked for."""

    def __init__(self, inner: Backend, job: Job, about: dict[str, Any]) -> None:
        self.inner, self.job, self.about = inner, job, about
        self.asked = Graph.from_json(job.graph)  # what the mutant should be
        self.site = about.get("site", "")

    def settings(self) -> dict[str, Any]:
        return self.inner.settings()

    def build(self, graph: Graph, weights: Weights) -> None:
        self.graph = graph
        self.inner.build(graph, self.adapted(weights))

    def go_on(self, graph: Graph, weights: Weights) -> None:
        """With the network as it is built already."""
        self.graph = graph
        self.write_weights(weights)

    def adapted(self, weights: Weights) -> Weights:
        """For the network inside; what it alone has starts as it would."""
        own = {name: weights.get(name, value) for name, value in initial_weights(self.graph, self.job.seed).items()}
        return self.to_inner(own)

    def to_inner(self, weights: Weights) -> Weights:
        return weights

    def from_inner(self, weights: Weights) -> Weights:
        """Of weights and gradients."""
        return weights

    def to_host(self, images: Array, labels: Array) -> Batch:
        return self.inner.to_host(images, labels)

    def to_device(self, batch: Batch) -> Batch:
        return self.inner.to_device(batch)

    def train_step(self, batch: Batch) -> None:
        self.inner.train_step(batch)

    def set_learning_rate(self, rate: float) -> None:
        self.inner.set_learning_rate(rate)

    def synchronize(self) -> None:
        self.inner.synchronize()

    def losses(self) -> list[float]:
        return self.inner.losses()

    def correct(self) -> list[int]:
        return self.inner.correct()

    def agree(self, ready: bool) -> bool:
        return self.inner.agree(ready)

    def merge_statistics(self) -> None:
        self.inner.merge_statistics()

    def predict(self, batch: Batch) -> Array:
        return self.inner.predict(batch)

    def outputs(self, batch: Batch) -> Weights:
        return {name: value for name, value in self.inner.outputs(batch).items() if name in self.asked.nodes}

    def gradients(self, batch: Batch) -> Weights:
        return self.from_inner(self.inner.gradients(batch))

    def read_weights(self) -> Weights:
        return self.from_inner(self.inner.read_weights())

    def write_weights(self, weights: Weights) -> None:
        self.inner.write_weights(self.adapted(weights))

    def peak_memory_bytes(self) -> list[int] | None:
        return self.inner.peak_memory_bytes()

    def close(self) -> None:
        self.inner.close()


class OtherImages(Faithful):
    change: Callable[[Array], Array]

    def to_host(self, images: Array, labels: Array) -> Batch:
        return self.inner.to_host(np.ascontiguousarray(type(self).change(images)), labels)


class ImagesTurned(OtherImages):
    change = staticmethod(lambda images: images.swapaxes(1, 2))


class ImagesMirrored(OtherImages):
    change = staticmethod(lambda images: images[:, :, ::-1])


class ColoursReversed(OtherImages):
    change = staticmethod(lambda images: images[..., ::-1])


class ImagesScaled(OtherImages):
    change = staticmethod(lambda images: images / np.float32(128))


class LabelsShifted(Faithful):
    def to_host(self, images: Array, labels: Array) -> Batch:
        return self.inner.to_host(images, (labels + 1) % self.job.classes)


class OtherKernel(Faithful):
    """A layer that reads its kernel in another way; the way is its own opposite."""

    turn: Callable[[Array], Array]

    def to_inner(self, weights: Weights) -> Weights:
        return {**weights, self.site: np.ascontiguousarray(type(self).turn(weights[self.site]))}

    def from_inner(self, weights: Weights) -> Weights:
        return self.to_inner(weights)


class KernelFlipped(OtherKernel):
    turn = staticmethod(lambda kernel: kernel[::-1, ::-1])


class KernelTurned(OtherKernel):
    turn = staticmethod(lambda kernel: kernel.swapaxes(0, 1))


class FlattenedChannelsFirst(Faithful):
    """A map is flattened as (channel, height, width), and the dense layer behind it reads it so."""

    def __init__(self, inner: Backend, job: Job, about: dict[str, Any]) -> None:
        super().__init__(inner, job, about)
        shape = about["map"]
        self.order = np.arange(int(np.prod(shape))).reshape(shape).transpose(2, 0, 1).ravel()

    def to_inner(self, weights: Weights) -> Weights:
        name = self.about["kernel"]
        kernel = np.empty_like(weights[name])
        kernel[self.order] = weights[name]
        return {**weights, name: kernel}

    def from_inner(self, weights: Weights) -> Weights:
        name = self.about["kernel"]
        return {**weights, name: weights[name][self.order]}

    def outputs(self, batch: Batch) -> Weights:
        found = super().outputs(batch)
        return {**found, self.site: found[self.site][:, self.order]}


class OwnStart(Faithful):
    """A parameter starts from what the framework makes itself."""

    def to_inner(self, weights: Weights) -> Weights:
        return {**weights, self.site: initial_weights(self.asked, self.job.seed + 1)[self.site]}


class BatchStatisticsInEvaluation(Faithful):
    def predict(self, batch: Batch) -> Array:
        return self.inner.outputs(batch)[self.asked.prediction]


class ScheduleIgnored(Faithful):
    def set_learning_rate(self, rate: float) -> None:
        """As the recipe says, for ever."""


class RateLate(Faithful):
    """A new rate holds from the step after the next on."""

    _waiting: float | None = None

    def write_weights(self, weights: Weights) -> None:
        super().write_weights(weights)
        self._waiting = None

    def set_learning_rate(self, rate: float) -> None:
        self._waiting = rate

    def train_step(self, batch: Batch) -> None:
        super().train_step(batch)
        if self._waiting is not None:
            self.inner.set_learning_rate(self._waiting)
            self._waiting = None


class Rule(Faithful):
    """The framework's own gradients and losses, with another rule of the step."""

    def __init__(self, inner: Backend, job: Job, about: dict[str, Any]) -> None:
        super().__init__(inner, job, about)
        self._state, self._rate = State(), job.recipe.learning_rate

    def write_weights(self, weights: Weights) -> None:
        super().write_weights(weights)
        kept = self._state.velocity if self.about["rule"] == "kept" else {}
        self._state, self._rate = State(kept), self.job.recipe.learning_rate

    def set_learning_rate(self, rate: float) -> None:
        self._rate = rate

    def train_step(self, batch: Batch) -> None:
        weights, gradients = self.read_weights(), self.gradients(batch)
        roles = {name: parameter.role for name, parameter in self.asked.parameters().items()}
        step = Step(self.job.recipe, roles, weights, gradients, self._rate, self.about)
        changes = RULES[self.about["rule"]](self._state, step)
        self.inner.train_step(batch)  # for its loss and running statistics
        moved = {name: (weights[name] + change).astype(np.float32) for name, change in changes.items()}
        self.inner.write_weights(self.adapted({**self.read_weights(), **moved}))


class GradientsTimes(Rule):
    """Gradients are added up over the devices where their mean is wanted."""

    def __init__(self, inner: Backend, job: Job, about: dict[str, Any]) -> None:
        super().__init__(inner, job, {**about, "rule": "right"})

    def gradients(self, batch: Batch) -> Weights:
        return {name: value * np.float32(len(self.job.devices)) for name, value in super().gradients(batch).items()}


KINDS = {
    kind.__name__: kind
    for kind in (
        Faithful,
        ImagesTurned,
        ImagesMirrored,
        ColoursReversed,
        ImagesScaled,
        LabelsShifted,
        KernelFlipped,
        KernelTurned,
        FlattenedChannelsFirst,
        OwnStart,
        BatchStatisticsInEvaluation,
        ScheduleIgnored,
        RateLate,
        Rule,
        GradientsTimes,
    )
}
