"""What a network costs before anything runs: its parameters and its multiplications, the same for all frameworks."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from paceline_worker.graph import BatchNorm, Conv, Graph


@dataclass(frozen=True)
class NetworkCost:
    trainable: int  # numbers that the optimiser changes
    frozen: int  # numbers that training never changes: fixed gammas
    running: int  # means and variances that batch normalisation keeps
    conv_layers: int
    batch_norm_layers: int
    forward_macs: int  # multiply-accumulates of one image; convolutions and dense layers only

    @classmethod
    def of(cls, graph: Graph) -> NetworkCost:
        numbers: Counter[str] = Counter()
        for parameter in graph.parameters().values():
            numbers[parameter.kind] += math.prod(parameter.shape)
        nodes = graph.nodes.values()
        return cls(
            trainable=numbers["trainable"],
            frozen=numbers["frozen"],
            running=numbers["running"],
            conv_layers=sum(isinstance(node.op, Conv) for node in nodes),
            batch_norm_layers=sum(isinstance(node.op, BatchNorm) for node in nodes),
            forward_macs=sum(node.op.macs(graph.source(node)) for node in nodes),
        )
