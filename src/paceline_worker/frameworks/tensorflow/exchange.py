"""How the devices agree: by an all-reduce, through one copy of all variables, or not at all."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Dict, List

import tensorflow as tf

from paceline_worker.frameworks.tensorflow.builder import Tensors
from paceline_worker.protocol import Job

Apply = Callable[[Tensors, Tensors], None]  # changes variables, given gradients and running statistics
MEAN = tf.distribute.ReduceOp.MEAN


def own(aggregation: Any) -> Dict[str, Any]:
    """Each device has the variable for itself; who reads it from outside a step gets one value of them all."""
    return {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": aggregation}


class Exchange:
    """Nothing to exchange; `mean` and `step` are called by every device within a step."""

    name: ClassVar[str] = "none"
    trained: ClassVar[Dict[str, Any]] = {}  # how variables are made: weights and velocities,
    running: ClassVar[Dict[str, Any]] = own(tf.VariableAggregation.MEAN)  # and running statistics

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy

    def mean(self, gradients: Tensors) -> Tensors:
        """Gradients of all devices that train together."""
        return gradients

    def step(self, apply: Apply, gradients: Tensors, running: Tensors) -> None:
        """Change the variables: each device its own."""
        apply(self.mean(gradients), running)


class AllReduce(Exchange):
    name = "all-reduce"

    def mean(self, gradients: Tensors) -> Tensors:
        return tf.distribute.get_replica_context().all_reduce(MEAN, gradients)


class Separate(Exchange):
    """From outside a step, only the first device is seen."""

    trained = running = own(tf.VariableAggregation.ONLY_FIRST_REPLICA)


class Central(AllReduce):
    """The strategy has one copy of every variable, so running statistics are averaged there in each step, too."""

    name = "central storage"

    def step(self, apply: Apply, gradients: Tensors, running: Tensors) -> None:
        def update(strategy: Any, *parts: Tensors) -> None:
            """Called once for all devices; `parts` have what all of them gave."""
            (place,) = strategy.extended.parameter_devices
            with tf.device(place):
                apply(*(self._gathered(part, place) for part in parts))

        tf.distribute.get_replica_context().merge_call(update, (gradients, running))

    def _gathered(self, parts: Tensors, place: str) -> Tensors:
        """Their mean, brought to the variables; this strategy makes it on the host, wherever they are."""
        pairs = [(value, place) for value in parts.values()]
        found = self.strategy.extended.batch_reduce_to(MEAN, pairs) if pairs else []
        return dict(zip(parts, found))


def exchange_for(job: Job, devices: List[str]) -> Exchange:
    if not job.exchanges:
        return Exchange(tf.distribute.OneDeviceStrategy(devices[0]))
    if job.update == "parameter_server":
        place = "cpu:0" if job.parameter_device == "cpu" else devices[0]
        return Central(tf.distribute.experimental.CentralStorageStrategy(devices, place))
    kinds = {"replicated": AllReduce, "independent": Separate}
    return kinds[job.update](tf.distribute.MirroredStrategy(devices))
