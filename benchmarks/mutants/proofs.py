"""Why a change is no mistake at some place; each gives the reason, or nothing."""

from __future__ import annotations

from benchmarks.mutants import equivalence as proved
from benchmarks.mutants.changes import (
    all_behind,
)
from benchmarks.mutants.networks import Setting
from benchmarks.mutants.sites import (
    op_of,
)
from benchmarks.mutants.surgery import readers
from paceline_worker.graph import (
    Relu,
)


def present_roles(setting: Setting) -> set[str]:
    return {parameter.role for parameter in setting.graph.parameters().values() if parameter.kind == "trainable"}


def no_such_role(setting: Setting, role: str) -> str:
    return "" if role in present_roles(setting) else f"the network has no {role} to decay"


def no_direction(setting: Setting, site: str) -> str:
    return "a kernel of one pixel has no direction" if proved.one_pixel(setting.graph, site.rpartition(".")[0]) else ""


def no_sides(setting: Setting, name: str) -> str:
    return "its padding is equal on both sides" if proved.symmetric(setting.graph, name) else ""


def nothing_negative(setting: Setting, name: str) -> str:
    return "what it gets is never negative" if proved.never_negative(setting.graph, name) else ""


def nothing_new(setting: Setting, name: str) -> str:
    """A ReLU more behind a layer."""
    found = readers(setting.graph, name)
    if all(isinstance(op_of(setting, reader), Relu) for reader in found):
        return "a second ReLU leaves what the first one gives"
    return nothing_negative(setting, name)


def behind_already(setting: Setting, name: str) -> str:
    return "all of its padding is behind" if all_behind(op_of(setting, name)) == op_of(setting, name) else ""


def input_nothing_negative(setting: Setting, name: str) -> str:
    return nothing_negative(setting, setting.graph.nodes[name].inputs[0])


def sum_of_nothing_negative(setting: Setting, name: str) -> str:
    """The site is the ReLU behind the sum."""
    add = setting.graph.nodes[setting.graph.nodes[name].inputs[0]]
    return "what is added is never negative" if proved.never_negative(setting.graph, add.name) else ""


def no_padding(setting: Setting, name: str) -> str:
    return "" if any(op_of(setting, name).padding) else "there is no padding to count"


def constant_taken_out(setting: Setting, name: str) -> str:
    return (
        "batch normalisation takes a constant out again, and its gradient is zero"
        if proved.normalised_at_once(setting.graph, name)
        else ""
    )


def sums_commute(setting: Setting, name: str) -> str:
    return "a sum is the same in any order"


def flat_alike(setting: Setting, name: str) -> str:
    return "a map of one pixel or one channel is flattened alike" if proved.one_map(setting.graph, name) else ""


def equal_shares(setting: Setting, site: str) -> str:
    return "equal shares have equal weights" if len(set(setting.shares)) == 1 else ""
