"""Short hashes of values, the same tomorrow: keys are made of what does not stand at its default."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from paceline_worker.graph import Graph

KEY_LETTERS = 16
ABSENT = object()  # equals nothing


def short_key(facts: Any, letters: int = KEY_LETTERS) -> str:
    """Equal facts, equal key, in whatever order a mapping holds them."""
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()[:letters]


def without_defaults(value: Any) -> Any:
    """Plain values, of which every field at its default is left out: a field that is added tomorrow changes no key.

    So a default must never change its meaning: what is measured would change, and its key would not.
    """
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        return {name: without_defaults(given) for name, given, default in _fields(value) if given != default}
    if isinstance(value, Mapping):
        return {name: without_defaults(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_defaults(one) for one in value]
    return value


def network_facts(graph: Graph) -> Any:
    """What a network computes; the order of its losses counts, since the first is the prediction."""
    nodes = [
        (node.name, type(node.op).__name__, node.inputs, without_defaults(node.op)) for node in graph.nodes.values()
    ]
    return nodes, list(graph.losses.items())


def _fields(value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, value and default of each."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            yield field.name, getattr(value, field.name), _default(field, msgspec.NODEFAULT)
    else:
        for one in dataclasses.fields(value):
            yield one.name, getattr(value, one.name), _default(one, dataclasses.MISSING)


def _default(field: Any, missing: Any) -> Any:
    if field.default_factory is not missing:
        return field.default_factory()
    return ABSENT if field.default is missing else field.default
