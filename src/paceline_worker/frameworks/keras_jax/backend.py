"""Keras 3 on JAX: a whole step compiled as one program, its state handed from step to step as `fit` does."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

import jax
import jaxlib
import numpy as np

from paceline_worker.contract import Batch
from paceline_worker.frameworks.keras_jax.builder import LAYERS, LAYOUT
from paceline_worker.graph import Graph
from paceline_worker.keras3.backend import KerasBackend
from paceline_worker.keras3.training import total_loss
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights

State = Tuple[List[Any], ...]  # arrays of the trained variables, the others, the optimiser and the metrics


class FrameworkBackend(KerasBackend):
    layers, layout = LAYERS, LAYOUT

    def __init__(self, job: Job, place: Place) -> None:
        kind, index = place.devices[0].split(":")
        if kind == "cpu":
            jax.config.update("jax_platforms", "cpu")
            many = "true" if place.threads > 1 else "false"
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen={many}"
        jax.config.update("jax_default_matmul_precision", "highest")  # float32 means float32, also on tensor cores
        self._device = jax.devices(kind)[int(index)]
        jax.config.update("jax_default_device", self._device)
        super().__init__(job, place)

    def settings(self) -> Dict[str, Any]:
        shared = super().settings()
        return {
            **shared,
            "versions": {**shared["versions"], "jax": jax.__version__, "jaxlib": jaxlib.__version__},
            "xla_flags": os.environ.get("XLA_FLAGS", "").strip(),
            "devices": [str(self._device)],
        }

    def build(self, graph: Graph, weights: Weights) -> None:
        self._state: Optional[State] = None  # None while the model's variables hold it
        self._inspect = jax.jit(self._differentiate)
        self._scale = jax.jit(self._scaled, donate_argnums=0)
        super().build(graph, weights)
        self._model.make_predict_function()

    def _holders(self) -> Tuple[List[Any], ...]:
        model = self._model
        return (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )

    def _train(self, data: Tuple[Any, Any]) -> Dict[str, Any]:
        logs, self._state = self._model.train_function(self._taken(), iter([data]))  # the old arrays are no more
        return logs

    def _taken(self) -> State:
        """The state, from the model's variables if they hold it."""
        if self._state is None:
            found = tuple([variable.value for variable in holders] for holders in self._holders())
            # Arrays bound to their device are another type to JAX than free ones: unbound, a step compiles anew.
            self._state = jax.device_put(found, self._device)
        return self._state

    def _settle(self) -> None:
        """Give the state back to the model's variables; doing so after each step would cost much, says Keras."""
        if self._state is not None:
            for holders, values in zip(self._holders(), self._state):
                for variable, value in zip(holders, values):
                    variable.assign(value)
            self._state = None

    def to_host(self, images: Array, labels: Array) -> Batch:
        return jax.device_put((images, labels.astype(np.int32)), jax.devices("cpu")[0])

    def to_device(self, batch: Batch) -> Batch:
        return jax.device_put(batch, self._device)

    def synchronize(self) -> None:
        jax.block_until_ready((self._state, self._losses))

    def _set_rate(self, rate: float, factor: float) -> None:
        trained, others, optimizer, metrics = self._taken()
        self._state = (trained, others, self._scale(optimizer, np.float32(rate), np.float32(factor)), metrics)

    def _scaled(self, arrays: List[Any], rate: Any, factor: Any) -> List[Any]:
        """The optimiser's arrays with another rate."""
        optimizer = self._model.optimizer
        new = dict(zip((variable.path for variable in optimizer.variables), arrays))
        new[optimizer.learning_rate.path] = rate
        for velocity in optimizer.momentums:
            new[velocity.path] *= factor
        return list(new.values())

    def _predict(self, images: Any) -> Any:
        """As the model's own `predict` does, which hands the state on, too: no variable is read or written."""
        trained, others, *rest = self._taken()
        outputs, state = self._model.predict_function((trained, others), iter([(images,)]))
        self._state = (*state, *rest)
        return outputs

    def _look(self, batch: Batch) -> Tuple[List[Array], List[Array]]:
        model = self._every_output
        trained, others = (
            [variable.value for variable in own] for own in (model.trainable_variables, model.non_trainable_variables)
        )
        outputs, gradients = self._inspect(trained, others, *batch)
        return [np.array(value) for value in outputs], gradients

    def _differentiate(
        self, trained: List[Any], others: List[Any], images: Any, labels: Any
    ) -> Tuple[List[Any], List[Any]]:
        """Layer outputs and gradients from one program: in two, rounding may decide differently about a ReLU."""

        def loss(trained: List[Any]) -> Tuple[Any, List[Any]]:
            outputs, _ = self._every_output.stateless_call(trained, others, images, training=True)
            return total_loss(self._graph, labels, outputs), outputs

        gradients, outputs = jax.grad(loss, has_aux=True)(trained)
        return outputs, gradients

    def peak_memory_bytes(self) -> Optional[List[int]]:
        stats = self._device.memory_stats()
        return [stats["peak_bytes_in_use"]] if stats else None
