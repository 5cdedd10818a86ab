"""Chainer on one processor: everything is computed by NumPy, at once, so nothing is ever waited for."""

from __future__ import annotations

import os
from typing import Any

import chainer
import numpy as np
from chainer import functions

from paceline_worker.contract import Backend, Batch
from paceline_worker.graph import Graph
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights

from .builder import Network, from_neutral, to_neutral


class NesterovRule(chainer.optimizers.momentum_sgd.MomentumSGDRule):
    """Chainer's own Nesterov rule takes the new velocity where its formula has the old one."""

    def update_core_cpu(self, param: Any) -> None:
        velocity, step = self.state["v"], self.hyperparam.lr * param.grad
        velocity *= self.hyperparam.momentum
        velocity -= step
        param.data += self.hyperparam.momentum * velocity - step


class Nesterov(chainer.optimizers.MomentumSGD):
    def create_update_rule(self) -> NesterovRule:
        return NesterovRule(self.hyperparam)


class FrameworkBackend(Backend):
    def __init__(self, job: Job, place: Place) -> None:
        self._job = job
        np.random.seed(job.seed)  # for dropout; the weights come from outside
        chainer.global_config.type_check = False  # shapes are checked when a graph is made

    def settings(self) -> dict[str, Any]:
        return {
            "versions": {"chainer": chainer.__version__, "numpy": np.__version__},
            "threads": int(os.environ["OPENBLAS_NUM_THREADS"]),
            "layout": "NCHW",
            "type_check": chainer.config.type_check,
        }

    def build(self, graph: Graph, weights: Weights) -> None:
        self._network = Network(graph, weights)
        self._losses: list[float] = []
        self._correct: list[int] = []
        self._optimizer = self._new_optimizer()

    def _new_optimizer(self) -> Any:
        recipe = self._job.recipe
        kind = Nesterov if recipe.nesterov else chainer.optimizers.MomentumSGD
        optimizer = kind(recipe.learning_rate, recipe.momentum).setup(self._network)
        for path, parameter in self._network.namedparams():
            if recipe.weight_decay and self._network.roles[path[1:]] in recipe.decayed:
                parameter.update_rule.add_hook(chainer.optimizer_hooks.WeightDecay(recipe.weight_decay))
        return optimizer

    def to_host(self, images: Array, labels: Array) -> Batch:
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2)), labels

    def to_device(self, batch: Batch) -> Batch:
        return batch

    def _differentiate(self, batch: Batch) -> tuple[float, Array]:
        """Leave the gradients in the parameters; return the loss and the logits of the prediction."""
        images, labels = batch
        weights = self._network.graph.losses
        logits = self._network.forward(images, weights)
        loss = sum(weight * functions.softmax_cross_entropy(logits[name], labels) for name, weight in weights.items())
        self._network.cleargrads()
        loss.backward()
        return float(loss.array), logits[self._network.graph.prediction].array

    def train_step(self, batch: Batch) -> None:
        loss, logits = self._differentiate(batch)
        self._optimizer.update()
        self._losses.append(loss)
        if self._job.count_correct:
            self._correct.append(int((logits.argmax(1) == batch[1]).sum()))

    def set_learning_rate(self, rate: float) -> None:
        for parameter in self._network.params():
            if parameter.update_rule.state:  # there is none before the first step
                parameter.update_rule.state["v"] *= rate / self._optimizer.lr  # Chainer's velocity is a sum of steps
        self._optimizer.lr = rate

    def synchronize(self) -> None:
        """Nothing is ever queued."""

    def losses(self) -> list[float]:
        losses, self._losses = self._losses, []
        return losses

    def correct(self) -> list[int]:
        correct, self._correct = self._correct, []
        return correct

    def agree(self, ready: bool) -> bool:
        return ready

    def merge_statistics(self) -> None:
        """There is one device."""

    def predict(self, batch: Batch) -> Array:
        prediction = self._network.graph.prediction
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            logits: Array = self._network.forward(batch[0], (prediction,))[prediction].array
        return logits

    def outputs(self, batch: Batch) -> Weights:
        before = self.read_weights()
        with chainer.no_backprop_mode():
            values = self._network.forward(batch[0], self._network.graph.nodes)
        self._write(before)  # a pass in training moves the running statistics
        arrays = {name: value.array for name, value in values.items()}
        return {name: array.transpose(0, 2, 3, 1) if array.ndim == 4 else array for name, array in arrays.items()}

    def gradients(self, batch: Batch) -> Weights:
        before = self.read_weights()
        self._differentiate(batch)
        self._write(before)
        found = {path[1:]: parameter.grad for path, parameter in self._network.namedparams()}
        return {name: to_neutral(self._network.roles[name], array) for name, array in found.items()}

    def read_weights(self) -> Weights:
        return {name: to_neutral(self._network.roles[name], array) for name, array in self._network.arrays.items()}

    def write_weights(self, weights: Weights) -> None:
        self._write(weights)
        self._optimizer = self._new_optimizer()

    def _write(self, weights: Weights) -> None:
        for name, value in weights.items():
            self._network.arrays[name][...] = from_neutral(self._network.roles[name], value)

    def peak_memory_bytes(self) -> list[int] | None:
        return None

    def close(self) -> None:
        """Nothing is held."""
