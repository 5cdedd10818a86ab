"""What is given to a framework in place of what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.mutants.mutation import (
    Change,
    Make,
)
from benchmarks.mutants.networks import Setting
from benchmarks.mutants.sites import (
    dense_behind,
    op_of,
    partner_of,
)
from benchmarks.mutants.surgery import IDENTITY, readers, rebuilt, through
from paceline_worker.graph import (
    Flatten,
    Graph,
    MaxPool,
    Relu,
    same_padding,
)


def swapped(change: Callable[[Any], Any]) -> Make:
    """The layer with another operation."""
    return lambda setting, name: Change(rebuilt(setting.graph, {name: change(op_of(setting, name))}))


def setting_of(**values: Any) -> Make:
    return swapped(lambda op: replace(op, **values))


def fed(before: Any) -> Make:
    """The layer behind one more layer."""
    return lambda setting, name: Change(rebuilt(setting.graph, inputs={name: through(before)}))


def other_sides(op: Any) -> Any:
    top, bottom, left, right = op.padding
    return replace(op, padding=(bottom, top, right, left))


def all_behind(op: Any) -> Any:
    top, bottom, left, right = op.padding
    return replace(op, padding=(0, top + bottom, 0, left + right))


def same_rule(setting: Setting, name: str) -> Change:
    """What a framework with TensorFlow's SAME puts around where the network says otherwise."""
    op = op_of(setting, name)
    padding = same_padding(setting.graph.source(setting.graph.nodes[name]), op.kernel, op.stride)
    return Change(rebuilt(setting.graph, {name: replace(op, padding=padding)}))


def stride_moved(setting: Setting, name: str) -> Change:
    partner = partner_of(setting, name)
    mine, other = op_of(setting, name), op_of(setting, partner)
    ops = {name: replace(mine, stride=other.stride), partner: replace(other, stride=mine.stride)}
    if sum(mine.padding) % 2:  # said for the stride that it had
        ops[name] = replace(ops[name], padding=tuple(size // 2 for size in mine.kernel for _ in range(2)))
    return Change(rebuilt(setting.graph, ops))


def relu_before_sum(setting: Setting, name: str) -> Change:
    add = setting.graph.nodes[name].inputs[0]
    return Change(rebuilt(setting.graph, {name: IDENTITY}, {add: through(Relu())}))


def relu_before_norm(setting: Setting, name: str) -> Change:
    norm = setting.graph.nodes[name].inputs[0]
    return Change(rebuilt(setting.graph, {name: IDENTITY}, {norm: through(Relu())}))


def reversed_inputs(setting: Setting, name: str) -> Change:
    return Change(rebuilt(setting.graph, inputs={name: lambda graph, node: node.inputs[::-1]}))


def without_last_input(setting: Setting, name: str) -> Change:
    return Change(rebuilt(setting.graph, inputs={name: lambda graph, node: node.inputs[:-1]}))


def before_activation(setting: Setting, name: str) -> Change:
    """The layer reads what the ReLU before it reads, as a shortcut from the wrong place does."""
    relu = setting.graph.nodes[setting.graph.nodes[name].inputs[0]]
    return Change(rebuilt(setting.graph, inputs={name: lambda graph, node: relu.inputs}))


def largest_of_map(setting: Setting, name: str) -> Change:
    """A maximum over the whole map."""
    graph = setting.graph
    height, width, _ = graph.source(graph.nodes[name])
    op = MaxPool((height, width), (height, width))
    return Change(rebuilt(graph, {name: Flatten()}, {name: through(op)}))


def relu_behind(setting: Setting, name: str) -> Change:
    """All that read the layer get what a ReLU leaves of it."""
    found = readers(setting.graph, name)

    def inputs(graph: Graph, node: Any) -> tuple[str, ...]:
        made = f"~{name}"
        if made not in graph.nodes:
            graph.add(made, Relu(), name)
        return tuple(made if source == name else source for source in node.inputs)

    return Change(rebuilt(setting.graph, inputs=dict.fromkeys(found, inputs)))


def wrong(kind: str, **about: Any) -> Make:
    return lambda setting, site: Change(wrong=kind, about={**about, "site": site})


def rule(name: str, **about: Any) -> Make:
    """The framework's gradients, and another optimiser than the recipe's."""
    return lambda setting, site: Change(wrong="Rule", about={"rule": name, "site": site, **about})


def recipe(**changes: Any) -> Make:
    return lambda setting, site: Change(recipe=replace(setting.workload.recipe, **changes))


def scaled_recipe(field_name: str, factor: float) -> Make:
    def make(setting: Setting, site: str) -> Change:
        value = getattr(setting.workload.recipe, field_name) * factor
        return Change(recipe=replace(setting.workload.recipe, **{field_name: value}))

    return make


def decay_added(setting: Setting, role: str) -> Change:
    given = setting.workload.recipe
    return Change(recipe=replace(given, decayed=(*given.decayed, role)))


def decay_removed(setting: Setting, role: str) -> Change:
    given = setting.workload.recipe
    return Change(recipe=replace(given, decayed=tuple(name for name in given.decayed if name != role)))


def channels_first(setting: Setting, name: str) -> Change:
    graph = setting.graph
    about = {
        "site": name,
        "map": list(graph.source(graph.nodes[name])),
        "kernel": f"{dense_behind(graph, name)}.kernel",
    }
    return Change(wrong="FlattenedChannelsFirst", about=about)


def natively(kind: str) -> Make:
    return lambda setting, site: Change(native=kind)
