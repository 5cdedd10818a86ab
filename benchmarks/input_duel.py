"""Runs inside a framework's environment: training on real and on fake images take turns in one process.

As in `benchmarks.duel`, turns are far shorter than the moods of a shared machine. Each side has a backend of its own,
since on real images it counts right answers as well. Images are made in advance also during the other's turn, but only
a few batches. `python -m benchmarks.input_duel RUN_FOLDER OTHER_FOLDER TURNS STEPS` prints one JSON list.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from paceline_worker import loop
from paceline_worker.contract import load
from paceline_worker.data import FAKE, from_files
from paceline_worker.graph import Graph
from paceline_worker.place import bind, find_place
from paceline_worker.protocol import Job
from paceline_worker.weights import initial_weights

WARMUP = 3


def trainer(folder: Path) -> Callable[[int], float]:
    """Takes so many steps of the measured loop, and tells their seconds."""
    job = Job.read(folder)
    place = find_place(job, os.environ)
    bind(place)
    backend, graph = load(job.framework)(job, place), Graph.from_json(job.graph)
    backend.build(graph, initial_weights(graph, job.seed))
    source, rate = FAKE.get(job.data, from_files)(backend, job, place), job.recipe.learning_rate

    def take(steps: int) -> float:
        seconds, _ = loop.timed_steps(backend, source, [rate] * steps)
        backend.losses()
        return seconds

    return take


def main(folders: list[str], turns: int, steps: int) -> None:
    rivals = [trainer(Path(folder)) for folder in folders]
    for take in rivals:
        take(WARMUP)
    print(json.dumps([[take(steps) for take in rivals] for _ in range(turns)]), flush=True)
    os._exit(0)  # not waiting for the thread that makes images


if __name__ == "__main__":
    main(sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]))
