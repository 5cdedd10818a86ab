"""The product's own judgement of a mutant: is it caught, and does the verdict name what is wrong?"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.mutants.mutation import Mutant
from benchmarks.mutants.surgery import readers
from paceline.store.records.certificate import Divergence
from paceline_worker import probe
from paceline_worker.frameworks.reference.backend import FrameworkBackend
from paceline_worker.graph import Graph
from paceline_worker.place import find_place
from paceline_worker.probing_weights import probing_weights
from paceline_worker.protocol import Job
from paceline_worker.weights import Weights


def reference(job: Job, given: Weights, task: str) -> Weights:
    """The reference in this process: started hundreds of times, its own would take longer than what it judges."""
    with tempfile.TemporaryDirectory() as scratch:
        told = replace(job, task=task)
        if given:
            told = replace(told, given=str(Path(scratch) / "given.npz"))
            np.savez(told.given, **given)
        place = find_place(told, {})
        backend = FrameworkBackend(told, place)
    graph = Graph.from_json(job.graph)
    weights = probing_weights(graph, job.seed)
    backend.build(graph, weights)
    return probe.SHOWN[task](backend, told, place, weights)


@dataclass(frozen=True)
class Shown:
    """How a mutant ended: caught by a finding, missed, or refused by the framework."""

    framework: str
    mutant: Mutant
    finding: Divergence | None  # the first that differs
    failure: str | None

    @property
    def caught(self) -> bool:
        return self.finding is not None

    @property
    def named(self) -> bool:
        return self.finding is not None and names(self.mutant, self.finding)


def first(findings: Sequence[Divergence]) -> Divergence | None:
    return next((finding for finding in findings if finding.diverges_at), None)


def names(mutant: Mutant, finding: Divergence) -> bool:
    """Whether the first divergence is of the right kind and at the right place."""
    mistake, place = mutant.mistake, finding.diverges_at or ""
    if finding.quantity not in mistake.quantities:
        return False
    if mistake.anywhere:
        return True
    graph = mutant.setting.graph
    parameter = graph.parameters().get(place)
    if mistake.site_is_role:
        return parameter is not None and parameter.role == mutant.site
    if "." in mutant.site:
        return layer_of(graph, place) == layer_of(graph, mutant.site)
    return layer_of(graph, place) in wrong_layers(mutant)


def wrong_layers(mutant: Mutant) -> set[str]:
    """The site, all that differs from the right network, and what must show it where a layer's own output is right."""
    graph, changed = mutant.setting.graph, mutant.change.graph
    found = {mutant.site}
    if changed is not None:
        found |= {
            node.name
            for node in graph.nodes.values()
            if (node.op, node.inputs) != (changed.nodes[node.name].op, changed.nodes[node.name].inputs)
        }
    return found | set(readers(graph, mutant.site)) if mutant.mistake.behind else found


def layer_of(graph: Graph, place: str) -> str:
    return place if place in graph.nodes else place.rpartition(".")[0]


def as_row(shown: Shown) -> dict[str, object]:
    """For JSON."""
    finding = shown.finding
    return {
        "framework": shown.framework,
        "network": shown.mutant.setting.name,
        "mistake": shown.mutant.mistake.name,
        "site": shown.mutant.site,
        "caught": shown.caught,
        "named": shown.named,
        "quantity": finding.quantity if finding else None,
        "diverges_at": finding.diverges_at if finding else None,
        "by": finding.by if finding else None,
        "refused": shown.failure,
    }
