"""Dropout is drawn by chance, so frameworks cannot agree value by value: this says whether each draws as it should."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paceline.studies.equivalence.rounding import UNIT, noise
from paceline_worker.graph import Dense, Dropout, Flatten, Graph, Init, Input
from paceline_worker.protocol import Job

Array = NDArray[np.float64]
Arrays = dict[str, Array]
Judge = Callable[[Job, Arrays, str], Arrays]  # the reference, as in `verify`
TASK = "probe chances"

DEVIATIONS = 6.0  # of the binomial distribution: chance goes farther in one of 500 million looks
CELL_UNITS = 512
CELL_INPUT = (4, 4, 3)

MEANINGS = {
    "dropout chance": "numbers of dropped values",
    "dropout scale": "values that dropout keeps",
    "dropout outputs": "outputs behind dropout",
    "dropout evaluation": "predictions in evaluation, without dropout,",
    "dropout gradient": "gradients through dropout",
}


@dataclass(frozen=True)
class DropoutCheck:
    """How far each place is off, in the order of computation, and how far it may be."""

    quantity: str
    tolerance: float
    differences: dict[str, float]


def rates(graph: Graph) -> dict[str, float]:
    """Layers that drop something."""
    found = {node.name: node.op.rate for node in graph.nodes.values() if isinstance(node.op, Dropout)}
    return {name: rate for name, rate in found.items() if rate}


def without(graph: Graph) -> Graph:
    """The network with nothing dropped, which can be compared value by value."""
    changed = Graph()
    for node in graph.nodes.values():
        changed.add(node.name, Dropout(0.0) if isinstance(node.op, Dropout) else node.op, *node.inputs)
    changed.losses = dict(graph.losses)
    return changed


def network_job(job: Job, graph: Graph) -> Job:
    """What shows the network's own dropout: passes on one device, and no training."""
    return replace(_on_one_device(job), graph=graph.to_json(), shares=(job.batch_size,), rates=())


def cell_job(job: Job, graph: Graph) -> Job:
    """What shows gradients through dropout: of one image, they tell which values were dropped in the same pass."""
    cell = cells(tuple(dict.fromkeys(rates(graph).values())), job.classes)
    return replace(_on_one_device(job), graph=cell.to_json(), shares=(1,), rates=())


def _on_one_device(job: Job) -> Job:
    return replace(job, devices=job.devices[:1], cores=job.cores[:1], update="replicated")


def cells(wanted: tuple[float, ...], classes: int) -> Graph:
    """For each rate, dropout between two dense layers."""
    graph = Graph()
    flat = graph.add("flat", Flatten(), graph.add("images", Input(CELL_INPUT)))
    for rate in wanted:
        before = graph.add(f"before {rate:g}", Dense(CELL_UNITS, init=Init("normal", 0.3)), flat)
        dropped = graph.add(f"dropout {rate:g}", Dropout(rate), before)
        graph.lose(graph.add(f"after {rate:g}", Dense(classes, init=Init("normal", 0.1)), dropped))
    return graph


def checks(job: Job, shown: Arrays, cell: Job, in_cell: Arrays, judge: Judge) -> Iterator[DropoutCheck]:
    """From what a framework showed of the two jobs."""
    graph = Graph.from_json(job.graph)
    dropping = rates(graph)
    passes = [_outputs(shown, index) for index in range(_count(shown))]
    yield DropoutCheck("dropout chance", DEVIATIONS, {name: _unlikely(graph, name, passes) for name in dropping})
    mixed = job.precision == "bfloat16"
    rounding, everything = (UNIT, noise(graph)) if mixed else (1e-5, 1e-4)
    yield DropoutCheck("dropout scale", rounding, {name: _misscaled(graph, name, passes) for name in dropping})
    given = {name: value for name, value in passes[0].items() if value.shape[1:] == graph.nodes[name].shape}
    truth = judge(job, given, TASK)
    outputs = {name: _off(passes[0].get(name), value) for name, value in _outputs(truth, 0).items()}
    yield DropoutCheck("dropout outputs", rounding, outputs)
    yield DropoutCheck(
        "dropout evaluation", everything, {graph.prediction: _off(shown.get("inference"), truth["inference"])}
    )
    yield DropoutCheck(
        "dropout gradient", 10 * rounding if mixed else 1e-3, dict(_through(Graph.from_json(cell.graph), in_cell))
    )


def _count(shown: Arrays) -> int:
    return len({name.partition("/")[0] for name in shown if name.startswith("pass ")})


def _outputs(shown: Mapping[str, Array], index: int) -> Arrays:
    prefix = f"pass {index}/"
    return {name.removeprefix(prefix): value for name, value in shown.items() if name.startswith(prefix)}


def _unlikely(graph: Graph, name: str, passes: list[Arrays]) -> float:
    """How many standard deviations the least likely of some counts is off.

    Dropped values are as many as the rate says, and each falls for itself: neighbours in any direction, images and
    passes agree as often as chance has it.
    """
    rate, source = graph.nodes[name].op.rate, graph.nodes[name].inputs[0]
    dropped = np.stack([found[name] == 0 for found in passes])
    known = np.stack([found[source] != 0 for found in passes])  # nothing shows where there was nothing to drop
    alike = rate**2 + (1 - rate) ** 2
    found = [_deviations(dropped[known], rate)]
    for axis in range(dropped.ndim):
        one, other = _pairs(dropped, axis)
        both = np.logical_and(*_pairs(known, axis))
        found.append(_deviations((one == other)[both], alike))
    return max(found)


def _pairs(values: NDArray[np.bool_], axis: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Neighbours along an axis, each in one pair."""
    first = np.moveaxis(values, axis, 0)
    pairs = len(first) // 2
    return first[0 : 2 * pairs : 2], first[1 : 2 * pairs : 2]


def _deviations(events: NDArray[np.bool_], chance: float) -> float:
    """Distance of a count from what is expected, in standard deviations of the binomial distribution."""
    if not events.size:
        return 0.0
    expected = events.size * chance
    return abs(float(events.sum()) - expected) / math.sqrt(expected * (1 - chance))


def _misscaled(graph: Graph, name: str, passes: list[Arrays]) -> float:
    """What is kept is scaled so that its mean stays."""
    rate, source = graph.nodes[name].op.rate, graph.nodes[name].inputs[0]
    return max(_off(found[name], np.where(found[name] == 0, 0.0, found[source] / (1 - rate))) for found in passes)


def _through(cell: Graph, shown: Arrays) -> Iterator[tuple[str, float]]:
    """Gradients of the layer before dropout have passed the mask that the layer behind it has seen.

    With one image, the slope of the logits is the gradient of the last bias; the kernel there has that slope times what
    dropout gave, so rows of zeros are what it dropped.
    """
    for name, rate in rates(cell).items():
        before, after = (name.replace("dropout", side) for side in ("before", "after"))
        slope = shown[f"gradient/{after}.bias"].astype(np.float64)
        behind = shown[f"gradient/{after}.kernel"] @ slope / (slope @ slope)
        mask = (behind != 0) / (1 - rate)
        yield f"{after}.kernel", _off(behind, mask * _outputs(shown, 0)[before][0])
        expected = mask * (shown[f"written/{after}.kernel"].astype(np.float64) @ slope)
        yield f"{before}.bias", _off(shown[f"gradient/{before}.bias"], expected)


def _off(found: Array | None, truth: Array) -> float:
    """Norm of the difference relative to that of the truth."""
    if found is None or found.shape != truth.shape or not np.isfinite(found).all():
        return math.inf
    return float(np.linalg.norm(found.astype(np.float64) - truth)) / max(float(np.linalg.norm(truth)), 1e-30)
