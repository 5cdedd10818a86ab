"""A small network with every layer, used in every way on which frameworks differ."""

from __future__ import annotations

from paceline_worker.graph import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    GlobalPool,
    Graph,
    Init,
    Input,
    MaxPool,
    Relu,
    Tanh,
)

NORM = BatchNorm(epsilon=1e-3, decay=0.9)
BIASED = BatchNorm(epsilon=1e-5, decay=0.8, unbiased_running_variance=False, first_running_variance=0.0)
FROZEN = BatchNorm(epsilon=2e-5, decay=0.9, trained_gamma=False)


def every_layer() -> Graph:
    graph = Graph()
    add = graph.add
    images = add("images", Input((12, 10, 3)))
    stem = add("stem", Conv(8, (3, 3), (2, 2), (0, 1, 1, 2), bias=True), add("norm", FROZEN, images))  # uneven padding
    left = add("relu", Relu(), add("stem_norm", NORM, stem))
    right = add("tanh", Tanh(), add("right_norm", BIASED, stem))
    both = add("both", Concat(), left, right)
    pooled = add("max", MaxPool((3, 3), (2, 2), (1, 0, 0, 1)), both)  # uneven padding
    counted = add("counted", AveragePool((3, 3), (1, 1), (1, 1, 1, 1), count_padding=True), pooled)
    inside = add("inside", AveragePool((3, 3), (1, 1), (1, 1, 1, 1), count_padding=False), pooled)
    joined = add("sum", Add(), counted, inside, pooled)
    wide = add("wide", Conv(6, (1, 3), padding=(0, 0, 1, 1)), add("sum_relu", Relu(), joined))
    flat = add("dropout", Dropout(0.0), add("flat", Flatten(), wide))
    hidden = add("hidden_relu", Relu(), add("hidden_norm", NORM, add("hidden", Dense(20, bias=False), flat)))
    logits = add("logits", Dense(5, init=Init("glorot_uniform")), hidden)
    side = add("side_logits", Dense(5, init=Init("normal", 0.1)), add("side", GlobalPool(), pooled))
    return graph.lose(logits).lose(side, 0.4)
