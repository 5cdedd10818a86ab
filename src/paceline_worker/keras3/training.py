"""A Keras model made ready for training: compiled, with every variable that a step will want."""

from __future__ import annotations

from typing import Any, List

import keras
import numpy as np

from paceline_worker.graph import Graph
from paceline_worker.protocol import Job


class Last(keras.metrics.Metric):
    """A number of the last batch alone: Keras' own metrics are means over steps."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.value = self.add_variable((), "zeros", name="value")

    def result(self) -> Any:
        return keras.ops.copy(self.value)  # the next step overwrites the variable


class LastLoss(Last):
    """Cross-entropy; Keras' own "loss" contains the regularisation, too."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.value.assign(cross_entropy(y_true, y_pred))


class LastCorrect(Last):
    """How many images were right."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        right = keras.ops.equal(keras.ops.argmax(y_pred, -1), keras.ops.cast(y_true, "int32"))
        self.value.assign(keras.ops.sum(keras.ops.cast(right, "float32")))


LOSS, CORRECT = "last_loss", "last_correct"


def cross_entropy(labels: Any, logits: Any) -> Any:
    """Mean over the images."""
    return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True))


def total_loss(graph: Graph, labels: Any, values: List[Any]) -> Any:
    """From what every layer gives."""
    found = dict(zip(graph.nodes, values))
    terms = [weight * cross_entropy(labels, found[name]) for name, weight in graph.losses.items()]
    return sum(terms[1:], terms[0])


def compile_model(model: Any, graph: Graph, job: Job) -> None:
    """Tell Keras how to train, in the way of its users: `jit_compile` stays "auto"."""
    outputs, recipe = list(graph.losses), job.recipe
    metrics: List[List[Last]] = [[LastLoss(LOSS)] for _ in outputs]
    if job.count_correct:
        metrics[0].append(LastCorrect(CORRECT))
    model.compile(
        optimizer=keras.optimizers.SGD(recipe.learning_rate, recipe.momentum, recipe.nesterov),
        loss=[keras.losses.SparseCategoricalCrossentropy(from_logits=True) for _ in outputs],
        loss_weights=list(graph.losses.values()),
        metrics=metrics,
    )
    create_variables(model, graph)


def create_variables(model: Any, graph: Graph) -> None:
    """Make what Keras makes when it is first used; a traced step could not, so `fit` also does it beforehand."""
    labels = [np.zeros(1, dtype=np.int32) for _ in graph.losses]
    logits = [np.zeros((1, *graph.nodes[name].shape), dtype=np.float32) for name in graph.losses]
    labels, logits = as_outputs(labels), as_outputs([keras.ops.convert_to_tensor(value) for value in logits])
    model.optimizer.build(model.trainable_variables)
    model.compute_loss(None, labels, logits)
    model.compute_metrics(None, labels, logits)
    model.reset_metrics()


def as_outputs(values: List[Any]) -> Any:
    """One value for each output, in the form that Keras wants: alone if there is one."""
    return values[0] if len(values) == 1 else values


def metric_names(metric: str, graph: Graph, model: Any) -> List[str]:
    """What Keras calls a metric of each output in the logs of a step."""
    return [metric] if len(graph.losses) == 1 else [f"{name}_{metric}" for name in model.output_names]
