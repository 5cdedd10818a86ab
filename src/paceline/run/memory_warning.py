"""Cells that need more memory than the machine, or its container's limit, has: named before hours are spent on them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from paceline.catalog.networks.cost import NetworkCost
from paceline.catalog.workloads import all_workloads
from paceline.plan.cell import Cell
from paceline.plan.planning import Run
from paceline.store.records.runs import cell_id
from paceline.store.store import Store
from paceline.system.machine.hardware import Machine
from paceline_worker.graph import Conv, Dense

MOST_NAMED = 3
PEAK = """
SELECT MAX(bytes) AS bytes FROM (
    SELECT SUM(value) AS bytes FROM run JOIN value ON run_id = run.id AND name IN ('idle_bytes', 'memory_bytes')
    WHERE run.cell = ? GROUP BY run.id
)
"""


def memory_warning(names: Mapping[Cell, str], left: Sequence[Run], store: Store, machine: Machine) -> str:
    """A line for the user; empty where all that is to be measured may fit."""
    cells = list(dict.fromkeys(run.cell for run in left))
    found = [f"{names[cell]} ({why})" for cell in cells for why in _too_much(cell, store, machine.usable_memory_bytes)]
    if not found:
        return ""
    many = f"{len(found)} of {len(cells)} cells need{'s' if len(found) == 1 else ''} more memory than there is"
    more = [f"{len(found) - MOST_NAMED} more"] if len(found) > MOST_NAMED else []
    named = ", ".join(found[:MOST_NAMED] + more)
    return f"paceline: {many} ({machine.memory_in_words}), and may be killed for it: {named}"


def _too_much(cell: Cell, store: Store, usable: int) -> Iterator[str]:
    """By what its runs took; of a cell that has none, by what it needs at least."""
    if cell.device_set.kind != "cpu":
        return  # it computes in the memory of its GPUs
    rows = store.query(PEAK, cell_id(cell))
    taken = rows[0]["bytes"] if rows else None
    if (needed := taken or needed_bytes(cell)) > usable:
        why = "in an earlier run" if taken else "for weights, gradients and layers' inputs"
        yield f"{'' if taken else 'at least '}{needed / 2**30:.1f} GiB {why}"


def needed_bytes(cell: Cell) -> int:
    """What any framework keeps: weights, gradients and momentum on each device, and what gradients are made from."""
    if cell.workload not in all_workloads():
        return 0  # a command, or a plug-in that is gone
    weights, inputs = _numbers(cell.workload)
    copies = 3 if all_workloads()[cell.workload].recipe.momentum else 2
    size = 2 if cell.precision == "bfloat16" else 4  # weights stay in float32
    return 4 * copies * weights * cell.device_set.count + size * inputs * cell.batch_size


@cache
def _numbers(workload: str) -> tuple[int, int]:
    """Weights, and inputs of layers that have some, of one image; two layers may have the same input."""
    graph = all_workloads()[workload].graph()
    sources = {node.inputs[0] for node in graph.nodes.values() if isinstance(node.op, Conv | Dense)}
    return NetworkCost.of(graph).trainable, sum(math.prod(graph.nodes[name].shape) for name in sources)
