"""TensorFlow: one process for all devices, under a strategy of its own, and a whole step in one tf.function."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from paceline_worker.contract import Batch, OneProcess, taken
from paceline_worker.frameworks.tensorflow.builder import Tensors, forward
from paceline_worker.frameworks.tensorflow.exchange import exchange_for
from paceline_worker.graph import Graph
from paceline_worker.place import Place
from paceline_worker.protocol import Job
from paceline_worker.weights import Array, Weights


class FrameworkBackend(OneProcess):
    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place
        self._kind = place.devices[0].split(":")[0]
        tf.random.set_seed(job.seed)  # for dropout; the weights come from outside
        tf.config.experimental.enable_tensor_float_32_execution(False)  # float32 means float32, also on tensor cores
        self._set_threads()
        self._divide_devices()
        self._names = [name.replace("cuda", "gpu") for name in place.devices]
        self._exchange = exchange_for(job, self._names)
        self._strategy = self._exchange.strategy

    def _set_threads(self) -> None:
        """Both pools are shared by all CPU devices."""
        devices, threads = len(self._place.devices), self._place.threads
        # A pool of one thread leaves the work to the thread that runs the op, one for each device; a larger pool does
        # it alone, and XLA hands whole programs to any pool: then all devices' threads must be in it.
        alone = threads == 1 and self._job.mode != "xla"
        intra = 1 if alone else threads * devices
        tf.config.threading.set_intra_op_parallelism_threads(intra)
        tf.config.threading.set_inter_op_parallelism_threads(devices)  # as many ops run at once as there are devices

    def _divide_devices(self) -> None:
        if self._kind == "cpu":
            tf.config.set_visible_devices([], "GPU")
            parts = [tf.config.LogicalDeviceConfiguration() for _ in self._place.devices]
            tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
        for device in tf.config.get_visible_devices("GPU"):
            tf.config.experimental.set_memory_growth(device, True)  # otherwise it takes every GPU's memory at once

    def settings(self) -> Dict[str, Any]:
        return {
            "versions": {"tensorflow": tf.__version__, "numpy": np.__version__},
            "threads": self._place.threads,
            "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
            "layout": "NHWC",
            "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "1",
            "xla": self._job.mode == "xla",
            "strategy": type(self._strategy).__name__,
            "exchange": self._exchange.name,
            "devices": [device.name for device in tf.config.list_logical_devices()],
        }

    def build(self, graph: Graph, weights: Weights) -> None:
        self._graph, self._parameters = graph, graph.parameters()
        with self._strategy.scope():
            self._variables = {name: self._variable(name, weights[name]) for name in self._parameters}
            self._velocity = {
                name: tf.Variable(tf.zeros_like(weights[name]), trainable=False, **self._exchange.trained)
                for name in self._graph.names("trainable")
                if self._job.recipe.momentum
            }
            self._rate = tf.Variable(self._job.recipe.learning_rate, trainable=False, dtype=tf.float32)
        self._losses: List[Any] = []
        self._correct: List[Any] = []
        self._differentiate = self._part(self._slopes)
        self._step = self._compiled(self._train)
        self._inspect = self._compiled(self._look)
        infer = self._part(self._predicted)
        self._infer = self._compiled(lambda images: infer(self._read(), images))

    def _variable(self, name: str, value: Array) -> Any:
        running = self._parameters[name].kind == "running"
        settings = self._exchange.running if running else self._exchange.trained
        return tf.Variable(value, trainable=False, **settings)  # gradients are of what a step has read, see _trace

    def _compiled(self, function: Any) -> Any:
        """One graph for all devices: each runs the function on its part of the batch."""
        return tf.function(lambda *arguments: self._strategy.run(function, arguments), autograph=False)

    def _part(self, function: Any) -> Any:
        """What one device computes without others, on tensors alone; in mode xla, XLA compiles it."""
        return tf.function(function, autograph=False, jit_compile=self._job.mode == "xla" or None)

    def _read(self) -> Tensors:
        """This device's weights."""
        return {name: tf.convert_to_tensor(variable) for name, variable in self._variables.items()}

    def _slopes(self, weights: Tensors, images: Any, labels: Any) -> Tuple[Tensors, Tensors, Tensors]:
        """What a step reports, gradients and running statistics of one device."""
        loss, gradients, running, values = self._trace(weights, images, labels)
        report = {"loss": loss}
        if self._job.count_correct:
            right = tf.argmax(values[self._graph.prediction], -1) == labels
            report["correct"] = tf.math.count_nonzero(right)
        return report, gradients, running

    def _trace(self, weights: Tensors, images: Any, labels: Any) -> Tuple[Any, Tensors, Tensors, Tensors]:
        """Loss, gradients, running statistics and layer outputs of one device."""
        trained = {name: weights[name] for name in self._graph.names("trainable")}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(trained)
            values, running = forward(self._graph, weights, images, training=True)
            terms = [
                weight * tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, values[name]))
                for name, weight in self._graph.losses.items()
            ]
            loss = tf.add_n(terms)
        return loss, tape.gradient(loss, trained, self._loss_gradient(labels.shape[0])), running, values

    def _loss_gradient(self, share: int) -> Any:
        """What a device's gradients start from, so that every image counts the same in the devices' mean; None is 1."""
        weight = self._job.weight(share)
        return None if weight == 1 or self._job.update == "independent" else tf.constant(weight)

    def _look(self, images: Any, labels: Any) -> Tuple[Tensors, Tensors]:
        """Layer outputs of one device, and gradients from the same pass."""
        _, gradients, _, values = self._part(self._trace)(self._read(), images, labels)
        return values, self._exchange.mean(gradients)

    def _train(self, images: Any, labels: Any) -> Tensors:
        """One optimiser step on one device."""
        report, gradients, running = self._differentiate(self._read(), images, labels)
        self._exchange.step(self._apply, gradients, running)
        return report

    def _apply(self, gradients: Tensors, running: Tensors) -> None:
        """Change the variables of one device, or the only ones."""
        rate = tf.convert_to_tensor(self._rate)  # read once for all
        for name, gradient in gradients.items():
            self._update(name, gradient, rate)
        for name, value in running.items():
            self._variables[name].assign(value)

    def _update(self, name: str, gradient: Any, rate: Any) -> None:
        """The recipe's rule in one kernel, Nesterov's form included: the rate stands outside of the velocity."""
        recipe, variable = self._job.recipe, self._variables[name]
        if recipe.weight_decay and self._parameters[name].role in recipe.decayed:
            gradient = gradient + recipe.weight_decay * variable
        if not recipe.momentum:
            tf.raw_ops.ResourceApplyGradientDescent(alpha=rate, delta=gradient, var=variable.handle)
            return
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=self._velocity[name].handle,
            lr=rate,
            grad=gradient,
            momentum=recipe.momentum,
            use_nesterov=recipe.nesterov,
        )

    def to_host(self, images: Array, labels: Array) -> Batch:
        with tf.device("cpu:0"):
            return tf.constant(images), tf.constant(labels)

    def to_device(self, batch: Batch) -> Batch:
        """A part for each device, as equal as the job says."""
        with tf.device("cpu:0"):
            parts = list(zip(*(tf.split(tensor, self._place.shares) for tensor in batch)))

        def local(context: Any) -> Batch:
            index = context.replica_id_in_sync_group
            with tf.device(self._names[index]):
                return tuple(tf.identity(tensor) for tensor in parts[index])

        return self._strategy.experimental_distribute_values_from_function(local)

    def train_step(self, batch: Batch) -> None:
        report = self._step(*batch)
        self._losses.append(report["loss"])
        if self._job.count_correct:
            self._correct.append(report["correct"])

    def set_learning_rate(self, rate: float) -> None:
        self._rate.assign(rate)

    def synchronize(self) -> None:
        tf.test.experimental.sync_devices()

    def losses(self) -> List[float]:
        parts = ([part.numpy() for part in self._parts(loss)] for loss in taken(self._losses))
        return [float(np.average(step, weights=self._place.shares)) for step in parts]

    def correct(self) -> List[int]:
        return [sum(int(part) for part in self._parts(count)) for count in taken(self._correct)]

    def _parts(self, value: Any) -> Tuple[Any, ...]:
        """What each device gave."""
        return tuple(self._strategy.experimental_local_results(value))

    def merge_statistics(self) -> None:
        if self._job.update == "independent":
            return
        for name in self._graph.names("running"):
            variable = self._variables[name]
            variable.assign(tf.convert_to_tensor(variable))  # read from outside a step, it is the mean

    def _predicted(self, weights: Tensors, images: Any) -> Any:
        """Logits with the running statistics."""
        values, _ = forward(self._graph, weights, images, training=False)
        return values[self._graph.prediction]

    def predict(self, batch: Batch) -> Array:
        return np.concatenate(self._parts(self._infer(batch[0])))

    def outputs(self, batch: Batch) -> Weights:
        values, _ = self._inspect(*batch)
        return {name: np.concatenate(self._parts(value)) for name, value in values.items()}

    def gradients(self, batch: Batch) -> Weights:
        _, gradients = self._inspect(*batch)
        return {name: self._parts(value)[0].numpy() for name, value in gradients.items()}

    def read_weights(self) -> Weights:
        return {name: np.array(tf.convert_to_tensor(variable)) for name, variable in self._variables.items()}

    def write_weights(self, weights: Weights) -> None:
        for name, variable in self._variables.items():
            variable.assign(weights[name])
        for variable in self._velocity.values():
            variable.assign(tf.zeros_like(variable))
        self.set_learning_rate(self._job.recipe.learning_rate)

    def peak_memory_bytes(self) -> Optional[List[int]]:
        if self._kind == "cpu":
            return None
        return [tf.config.experimental.get_memory_info(name)["peak"] for name in self._names]
