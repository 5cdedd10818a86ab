"""A small job: four grey pixels, three classes, one CPU device with two cores and six images a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from paceline_worker.graph import Dense, Flatten, Graph, Input
from paceline_worker.protocol import Job, Recipe


def small_graph() -> Graph:
    graph = Graph()
    flat = graph.add("flat", Flatten(), graph.add("input", Input((2, 2, 1))))
    return graph.lose(graph.add("dense", Dense(3), flat))


JOB = Job(
    framework="fake",
    mode="",
    graph=small_graph().to_json(),
    classes=3,
    recipe=Recipe(learning_rate=0.1, momentum=0.9),
    devices=("cpu:0",),
    cores=((0, 1),),
    shares=(6,),
    update="replicated",
    data="fake:device",
    precision="float32",
    seed=7,
    steps=7,
    warmup=4,
    epoch_images=60,
    block_steps=3,
    patience_seconds=60.0,
)


def job(**changes: Any) -> Job:
    """The small job with some settings changed."""
    return replace(JOB, **changes)
