"""Runs inside a framework's environment: Paceline's loop and the hand-written one take turns in one process.

Turns of a few steps are far shorter than the moods of a shared machine, so their ratio is known to a fraction of a per
cent where separate processes differ by ten. `python duel.py RUN_FOLDER FRAMEWORK TURNS STEPS` prints one JSON list.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline_worker import loop
from paceline_worker.contract import load
from paceline_worker.data import batches
from paceline_worker.graph import Graph
from paceline_worker.place import bind, find_place
from paceline_worker.protocol import Job
from paceline_worker.weights import initial_weights

WARMUP = 3
Steps = Callable[[int], Any]


def ours(job: Job) -> Steps:
    """Steps of the measured loop itself, clock and all."""
    place = find_place(job, os.environ)
    bind(place)
    backend = load(job.framework)(job, place)
    graph = Graph.from_json(job.graph)
    backend.build(graph, initial_weights(graph, job.seed))
    source = batches(backend, job, place)
    return lambda steps: (loop.timed_steps(backend, source, steps), backend.losses())


def torch_by_hand(script: Any, batch_size: int) -> Steps:
    import torch

    network = script.ResNet20().to(memory_format=torch.channels_last)
    optimizer = script.optimizer_for(network)
    images, labels = script.fixed_batch(batch_size, 0)
    return lambda steps: script.train(network, optimizer, images, labels, steps)


def jax_by_hand(script: Any, batch_size: int) -> Steps:
    import jax

    mesh = jax.make_mesh((1,), ("devices",))
    parameters = script.initial_parameters(jax.random.key(0))
    velocity = jax.tree.map(jax.numpy.zeros_like, parameters)
    held = [[parameters, velocity, script.initial_statistics(1)]]
    run, batch = script.compiled_step(mesh), script.fixed_batch(batch_size)

    def take(steps: int) -> None:
        held[0], _ = script.train(run, held[0], batch, steps)

    return take


BY_HAND: dict[str, Callable[[Any, int], Steps]] = {"torch": torch_by_hand, "jax": jax_by_hand}


def processor_seconds(take: Steps, steps: int) -> float:
    start = time.process_time()
    take(steps)
    return time.process_time() - start


def main(folder: Path, framework: str, turns: int, steps: int) -> None:
    job = Job.read(folder)
    rivals = [ours(job)]
    script = importlib.import_module(f"benchmarks.handwritten.{framework}_resnet20")
    rivals.append(BY_HAND[framework](script, job.batch_size))
    for take in rivals:
        take(WARMUP)
    print(json.dumps([[processor_seconds(take, steps) for take in rivals] for _ in range(turns)]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
