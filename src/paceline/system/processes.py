"""All processes of a run: finding them wherever they went, and ending them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

RUN_VARIABLE = "PACELINE_RUN"  # marks every process of a run, wherever it goes


PROC = Path("/proc")
GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


def of_run(run_id: str) -> list[psutil.Process]:
    """Every live process with the run's mark: also ranks in sessions of their own and those whose parent died."""
    return [process for process in psutil.process_iter() if _marked(process, run_id)]


def _marked(process: psutil.Process, run_id: str) -> bool:
    try:
        return process.environ().get(RUN_VARIABLE) == run_id and process.status() != psutil.STATUS_ZOMBIE
    except GONE:
        return False


def parents() -> dict[int, int]:
    """Of every process, the one that started it."""
    names = [path.name for path in PROC.iterdir() if path.name.isdigit()] if PROC.exists() else []
    if not names:
        return {process.pid: process.info["ppid"] for process in psutil.process_iter(["ppid"])}
    found = {}
    for name in names:  # by hand, a third of what psutil takes: it is done twice a second during a measurement
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123 - speed
            found[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
    return found


def below(pid: int, parents: dict[int, int]) -> list[int]:
    """Children of a process, their children, and so on."""
    own = [child for child, parent in parents.items() if parent == pid]
    return own + [further for child in own for further in below(child, parents)]


def left_behind(run_id: str, adopter: psutil.Process) -> set[psutil.Process]:
    """Live processes of a run, but for the one to which its orphans fall."""
    return {*_live_below(adopter), *of_run(run_id)} - {adopter}


def _live_below(adopter: psutil.Process) -> list[psutil.Process]:
    """Also those that have cleared their environment, and the mark with it."""
    try:
        return [process for process in adopter.children(recursive=True) if state(process.pid) != "gone"]
    except GONE:
        return []


def end_all(
    run_id: str, reap: Callable[[], object], patience_seconds: float = 10.0, *, adopter: psutil.Process | None = None
) -> tuple[int, ...]:
    """Kill the whole tree and wait until nothing of it is left; return what would not go.

    The process to which orphans fall comes last.
    """
    deadline = time.monotonic() + patience_seconds
    while (left := (_live_below(adopter) if adopter else []) or of_run(run_id)) and time.monotonic() < deadline:
        for process in left:
            try:
                process.kill()
            except GONE:
                continue
        reap()
        time.sleep(0.05)
    return tuple(process.pid for process in left)


def still_there(pids: Sequence[int]) -> str:
    """What is to be said of processes that could not be ended."""
    some = ", ".join(map(str, pids))
    which = f"process {some}" if len(pids) == 1 else f"processes {some}"
    return f"{which} could not be ended and may disturb what is measured next"


def state(pid: int) -> str:
    """`gone`, `stopped` or `alive`."""
    try:
        status = psutil.Process(pid).status()
    except GONE:
        return "gone"
    return {psutil.STATUS_ZOMBIE: "gone", psutil.STATUS_DEAD: "gone", psutil.STATUS_STOPPED: "stopped"}.get(
        status, "alive"
    )
