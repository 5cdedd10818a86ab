"""Where a mistake can be made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.mutants.mutation import (
    Sites,
)
from benchmarks.mutants.networks import Setting
from benchmarks.mutants.surgery import readers
from paceline_worker.graph import (
    Add,
    AveragePool,
    BatchNorm,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Graph,
    MaxPool,
    Relu,
    same_padding,
)
from paceline_worker.protocol import Recipe

PADDED = (Conv, MaxPool, AveragePool)


ROLES = ("conv.kernel", "dense.kernel", "bias", "gamma", "beta")


def whole(setting: Setting) -> list[str]:
    return [""]


def of(*kinds: type, where: Callable[[Setting, str], bool] = lambda setting, name: True) -> Sites:
    """Layers of these kinds."""

    def sites(setting: Setting) -> list[str]:
        nodes = setting.graph.nodes.values()
        return [node.name for node in nodes if isinstance(node.op, kinds) and where(setting, node.name)]

    return sites


def op_of(setting: Setting, name: str) -> Any:
    return setting.graph.nodes[name].op


def has(**wanted: Any) -> Callable[[Setting, str], bool]:
    return lambda setting, name: all(getattr(op_of(setting, name), key) == value for key, value in wanted.items())


def padded(setting: Setting, name: str) -> bool:
    return any(op_of(setting, name).padding)


def unlike_same(setting: Setting, name: str) -> bool:
    node = setting.graph.nodes[name]
    padding = same_padding(setting.graph.source(node), node.op.kernel, node.op.stride)
    return bool(padding != node.op.padding and sum(padding) > 0 and any(node.op.padding))


def stride_pairs(setting: Setting) -> list[str]:
    """Convolutions with a stride of which the one before, or behind, in the same branch has none."""
    return [name for name in of(Conv)(setting) if op_of(setting, name).stride != (1, 1) and partner_of(setting, name)]


def partner_of(setting: Setting, name: str) -> str:
    graph = setting.graph
    for step in (_before, _behind):
        current = name
        while current := step(graph, current):
            if isinstance(graph.nodes[current].op, Conv):
                if graph.nodes[current].op.stride == (1, 1) and len(readers(graph, current)) == 1:
                    return current
                break
    return ""


def _before(graph: Graph, name: str) -> str:
    sources = graph.nodes[name].inputs
    alone = len(sources) == 1 and len(readers(graph, sources[0])) == 1
    return sources[0] if alone and isinstance(graph.nodes[sources[0]].op, (Conv, BatchNorm, Relu)) else ""


def _behind(graph: Graph, name: str) -> str:
    found = readers(graph, name)
    alone = len(found) == 1 and isinstance(graph.nodes[found[0]].op, (Conv, BatchNorm, Relu))
    return found[0] if alone else ""


def sum_then_relu(setting: Setting) -> list[str]:
    graph = setting.graph
    return [name for name in of(Relu)(setting) if isinstance(graph.nodes[graph.nodes[name].inputs[0]].op, Add)]


def norm_then_relu(setting: Setting) -> list[str]:
    graph = setting.graph
    found = [name for name in of(Relu)(setting) if isinstance(graph.nodes[graph.nodes[name].inputs[0]].op, BatchNorm)]
    return [name for name in found if len(readers(graph, graph.nodes[name].inputs[0])) == 1]


def behind_relu(setting: Setting, name: str) -> bool:
    graph = setting.graph
    source = graph.nodes[graph.nodes[name].inputs[0]]
    return isinstance(source.op, Relu) and len(readers(graph, source.name)) > 1


def undecayed(setting: Setting) -> list[str]:
    given = setting.workload.recipe
    return [role for role in ROLES if given.weight_decay and role not in given.decayed]


def decayed(setting: Setting) -> list[str]:
    given = setting.workload.recipe
    return [role for role in ROLES if given.weight_decay and role in given.decayed]


def if_recipe(wanted: Callable[[Recipe], bool]) -> Sites:
    return lambda setting: [""] if wanted(setting.workload.recipe) else []


def on_devices(*, unequal: bool | None = None) -> Sites:
    def sites(setting: Setting) -> list[str]:
        unlike = len(set(setting.shares)) > 1
        return [""] if setting.devices > 1 and unequal in (None, unlike) else []

    return sites


def parameters(*roles: str, where: Callable[[Setting, str], bool] = lambda setting, name: True) -> Sites:
    """Parameters with these roles that are trained, of layers for which something holds."""

    def sites(setting: Setting) -> list[str]:
        found = setting.graph.parameters()
        return [
            name
            for name, parameter in found.items()
            if parameter.role in roles and parameter.kind == "trainable" and where(setting, name.rpartition(".")[0])
        ]

    return sites


def has_kernel_behind(setting: Setting, name: str) -> bool:
    return bool(readers(setting.graph, name))


def square_kernel(setting: Setting, name: str) -> bool:
    op = op_of(setting, name)
    return isinstance(op, Conv) and op.kernel[0] == op.kernel[1]


def square_images(setting: Setting) -> list[str]:
    height, width, _ = setting.graph.input.shape
    return [""] if height == width else []


def side_losses(setting: Setting) -> list[str]:
    return list(setting.graph.losses)[1:]


def inputs_of(setting: Setting) -> list[str]:
    return [setting.graph.input.name]


def flat_readers(setting: Setting) -> list[str]:
    """Flatten layers that a dense layer reads."""
    graph = setting.graph
    return [
        name for name in of(Flatten)(setting) if len(graph.source(graph.nodes[name])) == 3 and dense_behind(graph, name)
    ]


def dense_behind(graph: Graph, name: str) -> str:
    found = readers(graph, name)
    while len(found) == 1 and isinstance(graph.nodes[found[0]].op, Dropout):
        found = readers(graph, found[0])
    return found[0] if len(found) == 1 and isinstance(graph.nodes[found[0]].op, Dense) else ""


def droppers(*, maps: bool = False) -> Sites:
    """Layers that drop values, and of these those that take maps."""
    return of(Dropout, where=lambda s, n: not maps or len(s.graph.nodes[n].shape) == 3)


def first_dropper(*, maps: bool = False) -> Sites:
    """One place stands for all, which share the operation."""
    return lambda setting: list(droppers(maps=maps)(setting))[:1]
