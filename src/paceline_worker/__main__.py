"""Run one rank of a job: `python -m paceline_worker RUN_FOLDER`."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Type

from paceline_worker import loop, probe
from paceline_worker.contract import Backend
from paceline_worker.lease import end_with_the_orchestrator
from paceline_worker.place import bind, find_place
from paceline_worker.protocol import EventLog, Job, event_file

TASKS = {"train": loop.run, "probe": probe.run}


def main(folder: Path) -> int:
    end_with_the_orchestrator(folder)
    job = Job.read(folder)
    place = find_place(job, os.environ)
    log = EventLog(event_file(folder, place.rank))
    try:
        bind(place)
        log.enter("start", pid=os.getpid(), rank=place.rank, size=place.size, python=sys.version.split()[0])
        backend = load(job.framework)(job, place)
        TASKS[job.task](backend, job, place, log)
        backend.close()
        log.write("finished")
    except Exception as error:  # noqa: BLE001 - any failure of a framework is a result: it is recorded, then shown
        log.write("failed", kind=type(error).__name__, message=str(error), traceback=traceback.format_exc())
        traceback.print_exc()
        return 1
    return 0


def load(framework: str) -> Type[Backend]:
    """Import the framework; only here, and only the one that the job names."""
    module = import_module(f"paceline_worker.frameworks.{framework.replace('-', '_')}.backend")
    backend: Type[Backend] = module.FrameworkBackend
    return backend


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # all is said and closed; some frameworks hang or crash while their interpreter is taken down
