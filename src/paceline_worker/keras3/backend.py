"""Keras 3 on any of its backends: the contract, but for what each backend does in its own way."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from typing import Any, ClassVar, ContextManager, Dict, List, Tuple

import keras
import numpy as np

from paceline_worker.contract import Batch, OneProcess, taken
from paceline_worker.graph import Graph
from paceline_worker.keras3.builder import Make, build, channels_last, variables
from paceline_worker.keras3.training import CORRECT, LOSS, as_outputs, compile_model, metric_names
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights


class KerasBackend(OneProcess):
    """Each step calls the model's train function, as `fit` does: `train_on_batch` waits for its loss every time."""

    layers: ClassVar[Dict[type, Make]]
    layout: ClassVar[str]
    _start: Weights  # from where on `_steps` were taken
    _rate: float

    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        keras.utils.set_random_seed(job.seed)  # for dropout; the weights come from outside

    @abstractmethod
    def _train(self, data: Tuple[Any, Any]) -> Dict[str, Any]:
        """Call the train function on images and labels; give its logs."""

    @abstractmethod
    def _set_rate(self, rate: float, factor: float) -> None:
        """Set the optimiser's rate, and multiply its velocities by a factor; quickly, the clock may be running."""

    @abstractmethod
    def _look(self, batch: Batch) -> Tuple[List[Array], List[Array]]:
        """What `_every_output` gives in training, and from the same pass gradients of the loss without decay."""

    def _scope(self) -> ContextManager[Any]:
        """Where the model is made."""
        return contextlib.nullcontext()

    def _predict(self, images: Any) -> Any:
        """What the model gives in inference."""
        return self._model.predict_on_batch(images)

    def _settle(self) -> None:
        """See to it that the model's variables hold what training has reached."""

    def _copies(self, variable: Any) -> List[Any]:
        """The variable on each device."""
        return [variable]

    def settings(self) -> Dict[str, Any]:
        return {
            "versions": {"keras": keras.__version__, "numpy": np.__version__},
            "threads": self._place.threads,
            "layout": self.layout,
            "step": "train_function",
        }

    def build(self, graph: Graph, weights: Weights) -> None:
        self._graph, self._parameters = graph, graph.parameters()
        with self._scope():
            values = build(graph, self.layers, self.layout, self._job.recipe)
            images = values[graph.input.name]
            self._model = keras.Model(images, as_outputs([values[name] for name in graph.losses]))
            self._every_output = keras.Model(images, list(values.values()))
            compile_model(self._model, graph, self._job)
        self._model.make_train_function()
        self._variables = variables(graph, self._model)
        self._losses: List[List[Any]] = []  # of each step and output
        self._correct: List[Any] = []
        self._loss_names = metric_names(LOSS, graph, self._model)
        self._correct_name = metric_names(CORRECT, graph, self._model)[0]  # of the prediction
        self.write_weights(weights)

    def train_step(self, batch: Batch) -> None:
        images, labels = batch
        logs = self._train((images, as_outputs([labels] * len(self._graph.losses))))
        self._losses.append([logs[name] for name in self._loss_names])
        if self._job.count_correct:
            self._correct.append(logs[self._correct_name])
        self._steps += 1

    def set_learning_rate(self, rate: float) -> None:
        """Keras' velocity contains the rate, v = momentum * v - rate * g, so what it has gathered gets the new one."""
        if rate != self._rate:
            self._set_rate(rate, rate / self._rate)
            self._rate = rate

    def losses(self) -> List[float]:
        weights = self._graph.losses.values()
        return [sum(weight * number(loss) for weight, loss in zip(weights, step)) for step in taken(self._losses)]

    def correct(self) -> List[int]:
        devices = len(self._place.devices)
        return [round(number(mean) * devices) for mean in taken(self._correct)]  # Keras gives a mean over devices

    def merge_statistics(self) -> None:
        self._settle()
        merged = self._averaged()
        for name, value in merged.items():
            for copy in self._copies(self._variables[name]):
                copy.assign(value)
        self._start.update({name: np.array(value) for name, value in merged.items()})  # as in write_weights
        self._steps = 0

    def predict(self, batch: Batch) -> Array:
        outputs = self._predict(batch[0])
        return np.array(outputs[0] if len(self._graph.losses) > 1 else outputs, dtype=np.float32)

    def outputs(self, batch: Batch) -> Weights:
        self._settle()
        with self._unchanged():
            found, _ = self._look(batch)
        return {name: np.array(channels_last(value, self.layout)) for name, value in zip(self._graph.nodes, found)}

    def gradients(self, batch: Batch) -> Weights:
        self._settle()
        with self._unchanged():
            _, found = self._look(batch)
        names = {variable.path: name for name, variable in self._variables.items()}
        order = [names[variable.path] for variable in self._every_output.trainable_variables]
        return {name: np.array(value) for name, value in zip(order, found)}

    @contextlib.contextmanager
    def _unchanged(self) -> Any:
        """Put running statistics back afterwards: a forward pass moves them."""
        copies = [copy for name in self._graph.names("running") for copy in self._copies(self._variables[name])]
        kept = [np.array(copy.numpy()) for copy in copies]
        yield
        for copy, value in zip(copies, kept):
            copy.assign(value)

    def _averaged(self) -> Weights:
        """Running statistics over all devices, of the kind that the graph asks for."""
        return {name: self._as_asked(name, self._read(self._variables[name])) for name in self._graph.names("running")}

    def _read(self, variable: Any) -> Array:
        return np.mean([copy.numpy() for copy in self._copies(variable)], axis=0)

    def _as_asked(self, name: str, value: Array) -> Array:
        """Keras keeps the biased running variance; turn what was added to it since the start into the unbiased."""
        layer, _, role = name.rpartition(".")
        op = self._graph.nodes[layer].op
        if role != "variance" or not op.unbiased_running_variance:
            return value
        *size, _ = self._graph.source(self._graph.nodes[layer])
        count = self._place.shares[0] * int(np.prod(size))
        rest = np.float32(op.decay**self._steps) * self._start[name]
        return np.asarray(rest + (value - rest) * np.float32(count / (count - 1)), dtype=np.float32)

    def read_weights(self) -> Weights:
        self._settle()
        trained = {
            name: np.array(self._copies(self._variables[name])[0].numpy()) for name in self._graph.names("trainable")
        }
        arrays = {**self._start, **trained, **self._averaged()}
        return {name: arrays[name] for name in self._parameters}

    def write_weights(self, weights: Weights) -> None:
        self._settle()
        self._steps = 0
        self._start = {name: np.array(value) for name, value in weights.items()}  # a backend may train in the array
        for name, variable in self._variables.items():
            variable.assign(weights[name])
        for velocity in self._model.optimizer.momentums:
            velocity.assign(np.zeros(velocity.shape, dtype=np.float32))
        self._rate = self._job.recipe.learning_rate
        self._set_rate(self._rate, 1.0)  # compiles what sets it, too, where that is compiled


def number(value: Any) -> float:
    return float(keras.ops.convert_to_numpy(value))
