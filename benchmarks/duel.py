"""Runs inside a framework's environment: Paceline's loop and the hand-written one take turns in one process.

Turns of a few steps are far shorter than the moods of a shared machine, so their ratio is known to a fraction of a per
cent where separate processes differ by ten. `python -m benchmarks.duel RUN_FOLDER SCRIPT TURNS STEPS` prints one JSON
list.
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
from paceline_worker.data import from_device
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
    source, rate = from_device(backend, job, place), job.recipe.learning_rate
    return lambda steps: (loop.timed_steps(backend, source, [rate] * steps), backend.losses())


def processor_seconds(take: Steps, steps: int) -> float:
    start = time.process_time()
    take(steps)
    return time.process_time() - start


def main(folder: Path, script: str, turns: int, steps: int) -> None:
    job = Job.read(folder)
    rivals = [ours(job)]  # first: it starts the framework, and the script finds the same threads and devices
    rivals.append(importlib.import_module(script).prepare(job.batch_size).train)
    for take in rivals:
        take(WARMUP)
    print(json.dumps([[processor_seconds(take, steps) for take in rivals] for _ in range(turns)]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
