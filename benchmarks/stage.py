"""Runs of the `fake` framework played in this process in no time; `benchmarks/many_runs.py` says what is made up."""

from __future__ import annotations

import contextlib
import os
import platform
import random
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from paceline.catalog.frameworks import find
from paceline.environments.virtual_environments import Environment
from paceline.plan.planning import Run, make_job
from paceline.run import session
from paceline.run.diagnosis import judge
from paceline.run.samplers import PERIOD_SECONDS
from paceline.run.session import RunTools
from paceline.run.worker import LOG_FILE, WorkerEnding
from paceline.store import store as stores
from paceline.store.records.events import AnyEvent, EventFile
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import OUTCOME_FILE
from paceline.store.records.samples import FILE, ProcessUsage, Sample
from paceline.store.store import Store
from paceline.system.files.atomic_files import write_json
from paceline.system.machine.hardware import Machine, this_machine
from paceline_worker import data, loop, protocol
from paceline_worker.contract import load
from paceline_worker.frameworks.fake import backend
from paceline_worker.place import Place, find_place
from paceline_worker.protocol import EventLog, Job, event_file

FIRST_DAY = 1_767_571_200.0  # 5 January 2026, in seconds since 1970
START_SECONDS = 1.5  # until a framework is imported
JITTER = 0.01  # how much blocks of a run differ
UNREST = (0.005, 0.01, 0.02, 0.06)  # how much runs of a cell differ: some cells are noisy
MEBIBYTE = 2**20
IMAGES = {"train": 500, "test": 100}  # of the made data set
SEED = 1


class Clock:
    """In place of the module `time`: sleeping moves it on."""

    gmtime, strftime = staticmethod(time.gmtime), staticmethod(time.strftime)

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._elapsed, self._busy = chance, 0.0, 0.0
        self.pace = 1.0  # how much longer everything takes in this run

    def set(self, seconds: float) -> None:
        self._elapsed = seconds - FIRST_DAY

    def time(self) -> float:
        return FIRST_DAY + self._elapsed

    def time_ns(self) -> int:
        return round(1e9 * self.time())

    def perf_counter(self) -> float:
        return self._elapsed

    def process_time(self) -> float:
        return self._busy

    def sleep(self, seconds: float) -> None:
        taken = seconds * self.pace * abs(self._chance.gauss(1.0, JITTER))
        self._elapsed += taken
        self._busy += 0.97 * taken


class MadeMemory:
    """In place of the worker's own readings."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._needed = chance, 0.0

    def set(self, images: int) -> None:
        """A network, and what each image needs."""
        self._needed = (20 + 0.25 * images) * MEBIBYTE

    def held_bytes(self) -> int:
        return round(self._chance.gauss(48.0, 0.3) * MEBIBYTE)

    def peak_bytes(self) -> int:
        return self.held_bytes() + round(self._needed * self._chance.gauss(1.0, 0.01))

    def forget_peak(self) -> None:
        pass


class NoBrake:
    """The fake framework slows itself down; a real brake would stop this process."""

    def __init__(self, times: float) -> None:
        pass

    def engage(self) -> None:
        pass


class Nobody:
    """Who is told what happens."""

    def say(self, line: str) -> None:
        pass

    def begin(self, run: Run) -> None:
        pass

    def show(self, event: AnyEvent, ranks: Sequence[Sequence[AnyEvent]]) -> None:
        pass

    def end(self, run: Run, run_id: str, outcome: Outcome) -> None:
        pass


@dataclass(frozen=True)
class Stage:
    clock: Clock
    memory: MadeMemory
    chance: random.Random
    machine: Machine
    environment: Environment
    images: Path

    def execute(self, run: Run, store: Store) -> None:
        """As the runner does, but without processes and without the index."""
        job = make_job(run)
        unrest = UNREST[zlib.crc32(f"{run.cell.framework} {run.cell.devices}".encode()) % len(UNREST)]
        self.clock.pace = abs(self.chance.gauss(1.0, unrest))
        self.memory.set(max(job.shares))
        tools = RunTools(store, self.machine, Nobody())
        with session.run_folder(run, self.environment, tools) as (folder, record):
            with session.prepared(job, self.environment, record, tools):
                outcome = self._train(replace(job, dataset=str(self.images)), folder)
            write_json(folder / OUTCOME_FILE, outcome)

    def _train(self, job: Job, folder: Path) -> Outcome:
        size, began = find(job.framework).framework.process_count(len(job.devices)), self.clock.time()
        codes, ends = [], []
        with (folder / LOG_FILE).open("w", encoding="utf-8") as log:
            for rank in range(size):
                self.clock.set(began)  # as if they ran side by side
                place = find_place(job, {"RANK": str(rank), "WORLD_SIZE": str(size)})
                codes.append(self._run_rank(job, place, folder, log.write))
                ends.append(self.clock.time())
        self.clock.set(max(ends))
        self._sample(job, folder, began, max(ends))
        files = [EventFile(event_file(folder, rank)) for rank in range(size)]
        for file in files:
            file.read_on()
        ending = WorkerEnding("exited", "", tuple(codes))
        return judge(files, ending, max(ends) - began, folder / LOG_FILE, memory_ran_out=False)

    def _run_rank(self, job: Job, place: Place, folder: Path, print_out: Callable[[str], Any]) -> int:
        """As the worker's own main function does; the exit code."""
        log = EventLog(event_file(folder, place.rank))
        try:
            log.enter("start", pid=os.getpid(), rank=place.rank, size=place.size, python=platform.python_version())
            self.clock.sleep(START_SECONDS)
            with patch.object(sys, "argv", ["paceline_worker", str(folder)]):
                framework = load(job.framework)(job, place)
                loop.run(framework, job, place, log)
            framework.close()
            log.write("finished")
        except RuntimeError as error:
            told = traceback.format_exc()
            log.write("failed", kind=type(error).__name__, message=str(error), traceback=told)
            print_out(told)
            return 1
        finally:
            os.close(log._descriptor)  # the end of a worker does it
        return 0

    def _sample(self, job: Job, folder: Path, began: float, ended: float) -> None:
        """Its cores are busy, and hardly with anything else."""
        used = {core for cores in job.cores for core in cores}
        samples = [
            Sample(
                time=moment,
                load=0.2,
                ranks={
                    rank: ProcessUsage(resident_bytes=90 * MEBIBYTE, processor_seconds=0.95 * (moment - began))
                    for rank in range(len(job.devices) if moment > began else 0)
                },
                gpus=[],
                cores=[
                    ((0.97 if core in used else 0.02) * (moment - began), 0.0)
                    for core in range(max(self.machine.cores) + 1)
                ],
            )
            for moment in np.arange(began, ended, PERIOD_SECONDS).tolist()
        ]
        (folder / FILE).write_bytes(b"".join(msgspec.json.encode(sample) + b"\n" for sample in samples))


@contextlib.contextmanager
def staged(images: Path) -> Iterator[Stage]:
    """The worker's code with a clock of ours; `images` is an empty folder for the made data set."""
    chance = random.Random(SEED)  # noqa: S311 - made-up timings, not secrets
    clock, memory = Clock(chance), MadeMemory(chance)
    make_images(images)
    in_place_of: list[tuple[Any, str, Any]] = [
        *((module, "time", clock) for module in (loop, protocol, backend, session, stores)),
        (loop, "memory", memory),
        (loop, "Brake", NoBrake),
        (loop, "initial_weights", lambda graph, seed: {}),
        (data, "fake_batch", lambda job, place, index: (None, np.zeros(place.local_batch_size, np.int64))),
    ]
    with contextlib.ExitStack() as stack:
        for module, name, made in in_place_of:
            stack.enter_context(patch.object(module, name, made))
        yield Stage(clock, memory, chance, this_machine(), this_environment(), images)


def make_images(folder: Path) -> None:
    """One pixel each, of ten classes."""
    for part, count in IMAGES.items():
        np.save(folder / f"{part}_images.npy", np.zeros((count, 1, 1, 3), np.uint8))
        np.save(folder / f"{part}_labels.npy", np.arange(count, dtype=np.uint8) % 10)


def this_environment() -> Environment:
    return Environment(
        framework="fake",
        python=sys.executable,
        python_version=platform.python_version(),
        requirements="",
        packages={str(found.metadata["Name"]): found.version for found in distributions()},
    )
