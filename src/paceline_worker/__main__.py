"""Run one rank of a job: `python -m paceline_worker RUN_FOLDER`."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from paceline_worker import loop, probe
from paceline_worker.contract import load
from paceline_worker.lease import end_with_the_orchestrator
from paceline_worker.place import bind, find_place
from paceline_worker.protocol import EventLog, Job, event_file

TASKS = {"train": loop.run, **dict.fromkeys(probe.SHOWN, probe.run)}


def main(folder: Path) -> None:
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
        leave(0)
    except Exception as error:  # noqa: BLE001 - any failure of a framework is a result: it is recorded, then shown
        log.write("failed", kind=type(error).__name__, message=str(error), traceback=traceback.format_exc())
        traceback.print_exc()
        leave(1)


def leave(code: int) -> None:
    """End at once: all is said and closed, and frameworks can hang or crash while an interpreter is taken down.

    It is called while the backend is still held: gloo deadlocks even when that is released (pytorch/pytorch#56297).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
