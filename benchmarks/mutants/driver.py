"""Runs in a framework's own interpreter: starts it once, and shows one mutant after the other.

`python -m benchmarks.mutants.driver FOLDER`; every rank appends a line to its file for each mutant that it has shown.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mutants.native import patched
from benchmarks.mutants.wrong import KINDS
from paceline_worker import probe
from paceline_worker.contract import Backend, load
from paceline_worker.graph import Graph
from paceline_worker.place import Place, find_place
from paceline_worker.probing_weights import probing_weights
from paceline_worker.protocol import Job


class CarelessJob(Job):
    """Does not know how many images a device has."""

    def weight(self, share: int) -> float:
        return 1.0


def given(job: Job, change: dict[str, Any]) -> Job:
    """The job as the framework gets it."""
    told = job.to_json()
    told["recipe"] = change.get("recipe") or told["recipe"]
    careless = not change.get("job", {}).get("weigh", True)
    return (CarelessJob if careless else Job).from_json(told)


class Stage:
    """A started framework, and the network that it holds: what leaves that as it is need not build it again."""

    def __init__(self, inner: Backend, job: Job, place: Place) -> None:
        self._inner, self._job, self._place = inner, job, place
        self._holds = ""

    def show(self, change: dict[str, Any]) -> dict[str, Any]:
        """Everything that a probe asks, of a mutant."""
        told = given(self._job, change)
        graph = Graph.from_json(change.get("graph") or self._job.graph)
        wanted = json.dumps([change.get(part) for part in ("graph", "recipe", "job", "native")])
        backend = KINDS[change.get("wrong") or "Faithful"](self._inner, self._job, change.get("about", {}))
        weights = probing_weights(Graph.from_json(self._job.graph), self._job.seed)
        if wanted == self._holds:
            backend.go_on(graph, weights)
        else:
            self._holds = ""
            if self._job.framework == "jax":
                self._inner.close()  # it keeps every program that it has compiled
            self._inner._job = told  # type: ignore[attr-defined]  # a process can start a framework only once
            with patched(self._job.framework, change.get("native", "")):
                backend.build(graph, weights)
                found = probe.SHOWN[self._job.task](backend, self._job, self._place, weights)
            self._holds = wanted
            return found
        return probe.SHOWN[self._job.task](backend, self._job, self._place, weights)


def main(folder: Path) -> None:
    job = Job.read(folder)
    place = find_place(job, os.environ)
    stage = Stage(load(job.framework)(job, place), job, place)
    changes = json.loads((folder / "changes.json").read_text())
    with (folder / f"shown-{place.rank}.jsonl").open("a") as lines:
        for name, change in changes.items():
            start = time.perf_counter()
            failure = None
            try:
                found = stage.show(change)
                scratch = folder / f"{name}-{place.rank}.part.npz"
                np.savez(scratch, **found)
                scratch.rename(folder / f"{name}-{place.rank}.npz")
            except Exception as error:  # noqa: BLE001 - a mutant that a framework refuses is counted, not hidden
                failure = f"{type(error).__name__}: {error}"
                traceback.print_exc()
            row = {"name": name, "failure": failure, "seconds": time.perf_counter() - start}
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            gc.collect()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
