"""Cuts into a network: the same layers and parameter names with one thing wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paceline_worker.graph import Dropout, Graph, Node

MARK = "~"  # in the names of layers that only the wrong network has
IDENTITY = Dropout(0.0)
Before = Callable[[Graph, Node], tuple[str, ...]]


def rebuilt(
    graph: Graph,
    ops: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Before] | None = None,
) -> Graph:
    """With other operations, and with other inputs, which may be made of new layers; wrong shapes fail here."""
    changed = Graph()
    for node in graph.nodes.values():
        sources = (inputs or {})[node.name](changed, node) if node.name in (inputs or {}) else node.inputs
        changed.add(node.name, (ops or {}).get(node.name, node.op), *sources)
    changed.losses = dict(graph.losses)
    return changed


def through(op: Any) -> Before:
    """All inputs go through one more layer."""

    def inputs(graph: Graph, node: Node) -> tuple[str, ...]:
        return tuple(graph.add(f"{MARK}{node.name}{MARK}{index}", op, name) for index, name in enumerate(node.inputs))

    return inputs


def readers(graph: Graph, name: str) -> list[str]:
    return [node.name for node in graph.nodes.values() if name in node.inputs]


def with_losses(graph: Graph, factors: Mapping[str, float]) -> Graph:
    changed = rebuilt(graph)
    changed.losses = {name: weight * factors.get(name, 1.0) for name, weight in graph.losses.items()}
    return changed
