"""Keras 3 on TensorFlow: one process for all devices, replicated by MirroredStrategy."""

from __future__ import annotations

import contextlib
import os
from typing import Any, ContextManager, Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from paceline_worker.contract import Batch
from paceline_worker.frameworks.keras_tensorflow.builder import LAYERS, LAYOUT
from paceline_worker.graph import Graph
from paceline_worker.keras3.backend import KerasBackend
from paceline_worker.keras3.training import total_loss
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights


class FrameworkBackend(KerasBackend):
    layers, layout = LAYERS, LAYOUT

    def __init__(self, job: Job, place: Place) -> None:
        tf.config.experimental.enable_tensor_float_32_execution(False)  # float32 means float32, also on tensor cores
        # All CPU devices share both pools: a device's threads work on one op, and each device has an op of its own.
        tf.config.threading.set_intra_op_parallelism_threads(place.threads)
        tf.config.threading.set_inter_op_parallelism_threads(len(place.devices))
        self._kind = place.devices[0].split(":")[0]
        self._divide_devices([int(name.split(":")[1]) for name in place.devices])
        kind = self._kind.replace("cuda", "gpu")
        self._devices = [f"{kind}:{index}" for index in range(len(place.devices))]
        self._strategy = tf.distribute.MirroredStrategy(self._devices) if job.exchanges else None
        super().__init__(job, place)
        if job.task != "train":
            # TensorFlow joins layers of a training step and then rounds otherwise than where each of them is shown. On
            # few images some values near zero pass a ReLU in one of the two only: 2 % of the gradient of ResNet-50.
            tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

    def _divide_devices(self, indices: List[int]) -> None:
        """Let TensorFlow see the job's devices and no others: Keras takes the first that it finds."""
        gpus = tf.config.list_physical_devices("GPU")
        if self._kind == "cpu":
            tf.config.set_visible_devices([], "GPU")
            parts = [tf.config.LogicalDeviceConfiguration() for _ in indices]
            tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
        else:
            tf.config.set_visible_devices([gpus[index] for index in indices], "GPU")
            for index in indices:  # otherwise TensorFlow takes the whole memory of every GPU at once
                tf.config.experimental.set_memory_growth(gpus[index], True)

    def settings(self) -> Dict[str, Any]:
        shared = super().settings()
        return {
            **shared,
            "versions": {**shared["versions"], "tensorflow": tf.__version__},
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
            "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "1",
            "strategy": type(self._strategy).__name__ if self._strategy else None,
            "exchange": "all-reduce" if self._strategy else "none",
            "devices": self._devices,
        }

    def build(self, graph: Graph, weights: Weights) -> None:
        self._scale = tf.function(self._scaled)
        super().build(graph, weights)

    def _scope(self) -> ContextManager[Any]:
        return self._strategy.scope() if self._strategy else contextlib.nullcontext()

    def _copies(self, variable: Any) -> List[Any]:
        return self._parts(variable.value)

    def _parts(self, value: Any) -> List[Any]:
        """What each device has of a value."""
        return list(self._strategy.experimental_local_results(value)) if self._strategy else [value]

    def to_host(self, images: Array, labels: Array) -> Batch:
        with tf.device("cpu:0"):
            return tf.constant(images), tf.constant(labels)

    def to_device(self, batch: Batch) -> Batch:
        """A part for each device, as equal as the job says."""
        if not self._strategy:
            return self._local(0, batch)
        with tf.device("cpu:0"):
            parts = list(zip(*(tf.split(tensor, self._place.shares) for tensor in batch)))

        def local(context: Any) -> Batch:
            index = context.replica_id_in_sync_group
            return self._local(index, parts[index])

        return self._strategy.experimental_distribute_values_from_function(local)

    def _local(self, index: int, batch: Batch) -> Batch:
        with tf.device(self._devices[index]):
            return tuple(tf.identity(tensor) for tensor in batch)

    def _train(self, data: Tuple[Any, Any]) -> Dict[str, Any]:
        return self._model.train_function(iter([data]))

    def synchronize(self) -> None:
        tf.test.experimental.sync_devices()

    def _set_rate(self, rate: float, factor: float) -> None:
        self._scale(tf.constant(factor, tf.float32))
        self._model.optimizer.learning_rate = rate

    def _scaled(self, factor: Any) -> None:
        for velocity in self._model.optimizer.momentums:
            for copy in self._copies(velocity):
                copy.assign(copy * factor)

    def _look(self, batch: Batch) -> Tuple[List[Array], List[Array]]:
        run = self._strategy.run if self._strategy else (lambda function, arguments: function(*arguments))
        outputs, gradients = run(self._differentiate, batch)
        return (
            [np.concatenate(self._parts(value)) for value in outputs],
            [np.mean(self._parts(value), axis=0) for value in gradients],
        )

    def _differentiate(self, images: Any, labels: Any) -> Tuple[List[Any], List[Any]]:
        """Layer outputs and gradients of one device."""
        with tf.GradientTape() as tape:
            outputs = self._every_output(images, training=True)
            loss = total_loss(self._graph, labels, outputs)
        return outputs, tape.gradient(loss, [variable.value for variable in self._every_output.trainable_variables])

    def peak_memory_bytes(self) -> Optional[List[int]]:
        if self._kind == "cpu":
            return None
        return [tf.config.experimental.get_memory_info(name)["peak"] for name in self._devices]
