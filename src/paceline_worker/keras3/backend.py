"""Keras 3 on any of its backends: the contract, but for what each backend does in its own way."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from typing import Any, ClassVar, ContextManager, Dict, List, Optional, Tuple

import keras
import numpy as np

from paceline_worker.contract import Backend, Batch, Evaluation
from paceline_worker.graph import Graph
from paceline_worker.keras3.builder import Make, build, channels_last, variables
from paceline_worker.keras3.training import as_outputs, compile_model, judged, loss_names
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights


class KerasBackend(Backend):
    """Each step calls the model's train function, as `fit` does: `train_on_batch` waits for its loss every time."""

    layers: ClassVar[Dict[type, Make]]
    layout: ClassVar[str]

    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        keras.utils.set_random_seed(job.seed)  # for dropout; the weights come from outside

    @abstractmethod
    def _train(self, data: Tuple[Any, Any]) -> Dict[str, Any]:
        """Call the train function on images and labels; give its logs."""

    @abstractmethod
    def _outputs(self, model: Any, batch: Batch) -> List[Array]:
        """What a model gives for a batch in training."""

    @abstractmethod
    def _gradients(self, batch: Batch) -> List[Array]:
        """Gradients of the loss without decay, in the order of the model's trainable variables."""

    def _scope(self) -> ContextManager[Any]:
        """Where the model is made."""
        return contextlib.nullcontext()

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
            compile_model(self._model, graph, self._job.recipe)
        self._model.make_train_function()
        self._variables = variables(graph, self._model)
        self._losses: List[Dict[str, Any]] = []
        self.write_weights(weights)

    def _names(self, kind: str) -> List[str]:
        return [name for name, parameter in self._parameters.items() if parameter.kind == kind]

    def train_step(self, batch: Batch) -> None:
        images, labels = batch
        self._losses.append(self._train((images, as_outputs([labels] * len(self._graph.losses)))))
        self._steps += 1

    def losses(self) -> List[float]:
        steps, self._losses = self._losses, []
        weights = dict(zip(loss_names(self._graph, self._model), self._graph.losses.values()))
        return [
            sum(weight * float(keras.ops.convert_to_numpy(logs[name])) for name, weight in weights.items())
            for logs in steps
        ]

    def agree(self, ready: bool) -> bool:
        return ready

    def evaluate(self, batch: Batch) -> Evaluation:
        images, labels = batch
        self._settle()
        with self._unchanged():
            for name, value in self._averaged().items():
                for copy in self._copies(self._variables[name]):
                    copy.assign(value)
            outputs = self._model.predict_on_batch(images)
        logits = outputs[0] if len(self._graph.losses) > 1 else outputs
        known = self._host(labels)
        return Evaluation(len(known), *judged(logits, known))

    def _host(self, labels: Any) -> Array:
        return keras.ops.convert_to_numpy(labels)

    def outputs(self, batch: Batch) -> Weights:
        self._settle()
        with self._unchanged():
            found = self._outputs(self._every_output, batch)
        return {name: np.array(channels_last(value, self.layout)) for name, value in zip(self._graph.nodes, found)}

    def gradients(self, batch: Batch) -> Weights:
        self._settle()
        with self._unchanged():
            found = self._gradients(batch)
        names = {variable.path: name for name, variable in self._variables.items()}
        order = [names[variable.path] for variable in self._model.trainable_variables]
        return {name: np.array(value) for name, value in zip(order, found)}

    @contextlib.contextmanager
    def _unchanged(self) -> Any:
        """Put running statistics back afterwards: a forward pass moves them."""
        copies = [copy for name in self._names("running") for copy in self._copies(self._variables[name])]
        kept = [np.array(copy.numpy()) for copy in copies]
        yield
        for copy, value in zip(copies, kept):
            copy.assign(value)

    def _averaged(self) -> Weights:
        """Running statistics over all devices, of the kind that the graph asks for."""
        return {name: self._as_asked(name, self._read(self._variables[name])) for name in self._names("running")}

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
        trained = {name: np.array(self._copies(self._variables[name])[0].numpy()) for name in self._names("trainable")}
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

    def peak_memory_bytes(self) -> Optional[List[int]]:
        return None

    def close(self) -> None:
        """Nothing is held beyond this process."""
