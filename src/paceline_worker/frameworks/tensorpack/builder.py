"""Graph to Tensorpack: its own layers in a tower function, channels last, and its own input sources."""

from __future__ import annotations

import math
import queue
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf
from tensorpack.dataflow import DataFlow
from tensorpack.input_source import QueueInput, TensorInput
from tensorpack.models import AvgPooling, BatchNorm, Conv2D, Dropout, FullyConnected, GlobalAvgPooling, MaxPooling

from paceline_worker import graph as g
from paceline_worker.weights import Array, Weights

v1 = tf.compat.v1
Parts = List[Tuple[Array, Array]]  # images and labels of each device


def framed(op: Any, images: tf.Tensor, filler: float) -> tf.Tensor:
    """The images within the graph's padding."""
    top, bottom, left, right = op.padding
    return tf.pad(images, [(0, 0), (top, bottom), (left, right), (0, 0)], constant_values=filler)


def padded(op: Any, images: tf.Tensor, filler: float) -> Tuple[tf.Tensor, str]:
    """The images and the layer's padding: its own where that is the graph's, else the graph's in front of it."""
    if not any(op.padding):
        return images, "valid"
    if op.padding == g.same_padding(images.shape[1:3].as_list(), op.kernel, op.stride):
        return images, "same"
    return framed(op, images, filler), "valid"


def conv(op: g.Conv, name: str, images: tf.Tensor) -> tf.Tensor:
    images, padding = padded(op, images, 0.0)
    return Conv2D(name, images, op.channels, op.kernel, strides=op.stride, padding=padding, use_bias=op.bias)


def batch_norm(op: g.BatchNorm, name: str, values: tf.Tensor) -> tf.Tensor:
    # Tensorpack would move the statistics of its first tower only, so all are skipped here: see statistics_moved.
    settings = {"momentum": op.decay, "epsilon": op.epsilon, "scale": op.trained_gamma}
    return BatchNorm(name, values, ema_update="skip", **settings)


def max_pool(op: g.MaxPool, name: str, images: tf.Tensor) -> tf.Tensor:
    images, padding = padded(op, images, float("-inf"))
    return MaxPooling(name, images, op.kernel, strides=op.stride, padding=padding)


def average_pool(op: g.AveragePool, name: str, images: tf.Tensor) -> tf.Tensor:
    """Padding "same" is left out of the divisor; padding in front of the layer counts like any pixel."""
    if op.count_padding:
        source = framed(op, images, 0.0) if any(op.padding) else images
        return AvgPooling(name, source, op.kernel, strides=op.stride, padding="valid")
    source, padding = padded(op, images, 0.0)
    pooled = AvgPooling(name, source, op.kernel, strides=op.stride, padding=padding)
    if source is images:
        return pooled
    inside = framed(op, tf.ones((1, *images.shape[1:3], 1)), 0.0)
    return pooled / tf.nn.avg_pool2d(inside, op.kernel, op.stride, "VALID")


LAYERS: Dict[type, Callable[..., tf.Tensor]] = {
    g.Conv: conv,
    g.Dense: lambda op, name, values: FullyConnected(name, values, op.features, use_bias=op.bias),
    g.BatchNorm: batch_norm,
    g.Relu: lambda op, name, values: tf.nn.relu(values),
    g.Tanh: lambda op, name, values: tf.tanh(values),
    g.Dropout: lambda op, name, values: Dropout(name, values, rate=op.rate),
    g.MaxPool: max_pool,
    g.AveragePool: average_pool,
    g.GlobalPool: lambda op, name, images: GlobalAvgPooling(name, images),
    g.Flatten: lambda op, name, images: tf.reshape(images, (-1, math.prod(images.shape[1:].as_list()))),
    g.Add: lambda op, name, *values: tf.add_n(values),
    g.Concat: lambda op, name, *images: tf.concat(images, -1),
    g.Input: lambda op, name, images: images,
}

SCOPE = "network/"  # replicated training takes variables' names apart, and a layer's own might begin with "tower"
NAMES = {"kernel": "W", "bias": "b", "gamma": "gamma", "beta": "beta", "mean": "mean", "variance": "variance"}


@dataclass(frozen=True)
class Tower:
    """One device's copy of the network: what goes in, what every layer gives, and its variables by neutral name."""

    inputs: Tuple[tf.Tensor, tf.Tensor]
    outputs: Dict[str, tf.Tensor]
    variables: Dict[str, tf.Variable]  # frozen gammas are 1: the layer then has none
    logits: tf.Tensor  # the prediction
    cost: tf.Tensor
    correct: tf.Tensor  # how many images it gets right; computed only in a step that asks for it


def statistics_moved(towers: List[Tower], running: List[str]) -> List[tf.Operation]:
    """The operations that move the running statistics: each batch norm makes them, whoever may run them.

    Those of a variable that all towers share are made one, which moves it by their mean.
    """
    variables = {tower.variables[name].name: tower.variables[name] for tower in towers for name in running}
    return [moved(variable) for variable in variables.values()]


def moved(variable: tf.Variable) -> tf.Operation:
    made = [reader for reader in variable.op.outputs[0].consumers() if reader.type == "AssignSub"]
    if len(made) == 1:
        return made[0]
    with v1.device(variable.device):
        return v1.assign_sub(variable, tf.add_n([operation.inputs[1] for operation in made]) / len(made)).op


def build(graph: g.Graph, images: tf.Tensor, labels: tf.Tensor) -> Tower:
    """The network under Tensorpack's current tower, whose context says whether it is for training."""
    outputs: Dict[str, tf.Tensor] = {}
    variables: Dict[str, tf.Variable] = {}
    for node in graph.nodes.values():
        inputs = [outputs[name] for name in node.inputs] or [images]
        output = outputs[node.name] = LAYERS[type(node.op)](node.op, SCOPE + node.name, *inputs)
        for parameter in node.op.parameters(graph.source(node)):
            if parameter.kind != "frozen":
                variables[f"{node.name}.{parameter.name}"] = getattr(output.variables, NAMES[parameter.name])
    terms = [weight * tf.reduce_mean(cross_entropy(outputs[name], labels)) for name, weight in graph.losses.items()]
    logits = outputs[graph.prediction]
    right = tf.equal(tf.argmax(logits, 1, output_type=labels.dtype), labels)
    return Tower((images, labels), outputs, variables, logits, tf.add_n(terms), tf.math.count_nonzero(right))


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Loss of each image."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def as_the_graph_says(graph: g.Graph, images: int, steps: int, start: Weights, running: Weights) -> Weights:
    """Running statistics with variances biased or unbiased as the graph wants them, whatever the layers have kept.

    TensorFlow's fused kernel for maps keeps the unbiased variance, and what it does for flat features the biased one.
    A step is `decay * running + (1 - decay) * batch`: all but `decay**steps` of the start has come from batches.
    """
    found = dict(running)
    for node in graph.nodes.values():
        kept_unbiased = len(node.shape) == 3
        if isinstance(node.op, g.BatchNorm) and node.op.unbiased_running_variance != kept_unbiased:
            name, count = f"{node.name}.variance", images * math.prod(node.shape[:-1])
            factor = (count - 1) / count if kept_unbiased else count / (count - 1)
            rest = node.op.decay**steps * start[name].astype(np.float64)
            found[name] = (rest + factor * (running[name] - rest)).astype(np.float32)
    return found


class Held:
    """One batch in variables of TensorFlow, which Tensorpack's TensorInput gives to the towers at every step."""

    def __init__(self, signature: List[Any], *, on_host: bool) -> None:
        self._signature, self._on_host = signature, on_host
        self._variables: List[List[tf.Variable]] = []
        self._held: Parts = []
        self.input = TensorInput(self._tensors)

    def _tensors(self) -> List[tf.Tensor]:
        """Inputs of the tower that is being built: on its own device, or on the host and copied in each step."""
        tower = v1.no_op().device  # where it computes; a parameter server has other places for variables
        with v1.device("/cpu:0" if self._on_host else tower):
            variables = [
                v1.Variable(
                    tf.zeros(spec.shape, spec.dtype), trainable=False, collections=[v1.GraphKeys.LOCAL_VARIABLES]
                )
                for spec in self._signature
            ]
        self._variables.append(variables)
        return [variable.value() for variable in variables]

    def hold(self, session: Any, parts: Parts) -> None:
        """Bring a batch into the variables, unless it is there."""
        if parts is not self._held:
            assign(session, [pair for row in zip(self._variables, parts) for pair in zip(*row)])
            self._held = parts

    hand_over = hold  # for the next step: nothing to do while batches do not change


class Handed(DataFlow):
    """Gives what is put into a queue of Python."""

    def __init__(self, arrays: queue.Queue[List[Array]]) -> None:
        self._arrays = arrays

    def __iter__(self) -> Iterator[List[Array]]:
        while True:
            yield self._arrays.get()


class Queued:
    """Batches through Tensorpack's QueueInput: its thread feeds a queue of TensorFlow, from which the towers take.

    Which tower takes which part is left to chance; all that is averaged over the towers stays the same.
    """

    def __init__(self) -> None:
        self._arrays: queue.Queue[List[Array]] = queue.Queue()
        self.input = QueueInput(Handed(self._arrays))

    def hold(self, session: Any, parts: Parts) -> None:
        """Nothing is held: a part in the queue would be taken by the next step."""

    def hand_over(self, session: Any, parts: Parts) -> None:
        for part in parts:
            self._arrays.put(list(part))


def source(data: str, signature: List[Any]) -> Any:
    """Where the towers take their batches from: held where there is but one, else queued."""
    if data in ("fake:device", "fake:host"):
        return Held(signature, on_host=data == "fake:host")
    return Queued()


def assign(session: Any, values: List[Tuple[tf.Variable, Array]]) -> None:
    """Set variables through their initialisers, since the trainer allows no new operations."""
    feeds = {variable.initializer.inputs[1]: value for variable, value in values}
    session.run([variable.initializer for variable, _ in values], feeds)
