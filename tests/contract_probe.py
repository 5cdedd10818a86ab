"""Runs inside a framework's environment: calls every method of its backend and saves what it gave."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from paceline_worker.__main__ import load
from paceline_worker.data import fake_batch
from paceline_worker.graph import Graph
from paceline_worker.place import bind, find_place
from paceline_worker.protocol import Job
from paceline_worker.weights import initial_weights


def main(folder: Path) -> None:
    job = Job.read(folder)
    place = find_place(job, os.environ)
    bind(place)
    graph = Graph.from_json(job.graph)
    backend = load(job.framework)(job, place)
    backend.build(graph, initial_weights(graph, job.seed))
    batch = backend.to_device(backend.to_host(*fake_batch(job, place, 0)))
    found = {f"written/{name}": value for name, value in backend.read_weights().items()}
    found.update({f"gradient/{name}": value for name, value in backend.gradients(batch).items()})
    found.update({f"undisturbed/{name}": value for name, value in backend.read_weights().items()})
    for _ in range(3):
        backend.train_step(batch)
    backend.synchronize()
    found["losses"] = np.array(backend.losses())
    found.update({f"trained/{name}": value for name, value in backend.read_weights().items()})
    judged = backend.evaluate(batch)
    found["evaluation"] = np.array([judged.images, judged.loss, judged.correct])
    backend.write_weights(initial_weights(graph, job.seed))
    for _ in range(3):
        backend.train_step(batch)
    found["losses_again"] = np.array(backend.losses())
    found["agreed"] = np.array([backend.agree(True), backend.agree(place.rank > 0)])
    assert isinstance(backend.settings()["versions"], dict)
    peaks = backend.peak_memory_bytes()
    assert peaks is None or len(peaks) == len(place.devices)
    backend.close()
    np.savez(folder / f"probe-{place.rank}.npz", **found)


main(Path(sys.argv[1]))
