"""A Keras model made ready for training: compiled, with every variable that a step will want."""

from __future__ import annotations

from typing import Any, List

import keras
import numpy as np

from paceline_worker.graph import Graph
from paceline_worker.protocol import Recipe
from paceline_worker.weights import Array


class LastLoss(keras.metrics.Metric):
    """Cross-entropy of the last batch: Keras' own "loss" is a mean over steps and contains the regularisation."""

    def __init__(self) -> None:
        super().__init__(name="last_loss")
        self.value = self.add_variable((), "zeros", name="value")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.value.assign(cross_entropy(y_true, y_pred))

    def result(self) -> Any:
        return keras.ops.copy(self.value)  # the next step overwrites the variable


def cross_entropy(labels: Any, logits: Any) -> Any:
    """Mean over the images."""
    return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True))


def total_loss(graph: Graph, labels: Any, outputs: List[Any]) -> Any:
    terms = [weight * cross_entropy(labels, logits) for logits, weight in zip(outputs, graph.losses.values())]
    return sum(terms[1:], terms[0])


def compile_model(model: Any, graph: Graph, recipe: Recipe) -> None:
    """Tell Keras how to train, in the way of its users: `jit_compile` stays "auto"."""
    outputs = list(graph.losses)
    model.compile(
        optimizer=keras.optimizers.SGD(recipe.learning_rate, recipe.momentum),
        loss=[keras.losses.SparseCategoricalCrossentropy(from_logits=True) for _ in outputs],
        loss_weights=list(graph.losses.values()),
        metrics=[[LastLoss()] for _ in outputs],
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


def loss_names(graph: Graph, model: Any) -> List[str]:
    """What Keras calls the LastLoss of each output in the logs of a step."""
    return ["last_loss"] if len(graph.losses) == 1 else [f"{name}_last_loss" for name in model.output_names]


def judged(logits: Array, labels: Array) -> Any:
    """Summed loss and number of right predictions."""
    wide = logits.astype(np.float64)
    wide -= wide.max(1, keepdims=True)
    losses = np.log(np.exp(wide).sum(1)) - wide[np.arange(len(labels)), labels]
    return float(losses.sum()), int((logits.argmax(1) == labels).sum())
