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
        super().build(graph, weights)

    def _holders(self) -> Tuple[List[Any], ...]:
        model = self._model
        return (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )

    def _train(self, data: Tuple[Any, Any]) -> Dict[str, Any]:
        if self._state is None:
            found = tuple([variable.value for variable in holders] for holders in self._holders())
            # Arrays bound to their device are another type to JAX than free ones: unbound, a step compiles anew.
            self._state = jax.device_put(found, self._device)
        logs, self._state = self._model.train_function(self._state, iter([data]))  # the old arrays are no more
        return logs

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

    def _call(self, model: Any, trained: List[Any], images: Any) -> List[Any]:
        outputs, _ = model.stateless_call(
            trained, [variable.value for variable in model.non_trainable_variables], images, training=True
        )
        return outputs if isinstance(outputs, list) else [outputs]

    def _outputs(self, model: Any, batch: Batch) -> List[Array]:
        trained = [variable.value for variable in model.trainable_variables]
        return [np.array(value) for value in jax.jit(lambda *given: self._call(model, *given))(trained, batch[0])]

    def _gradients(self, batch: Batch) -> List[Array]:
        images, labels = batch

        def loss(trained: List[Any]) -> Any:
            return total_loss(self._graph, labels, self._call(self._model, trained, images))

        return jax.jit(jax.grad(loss))([variable.value for variable in self._model.trainable_variables])

    def peak_memory_bytes(self) -> Optional[List[int]]:
        stats = self._device.memory_stats()
        return [stats["peak_bytes_in_use"]] if stats else None
