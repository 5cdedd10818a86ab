"""Waits for one command as its parent, so that the kernel tells what it and all below it have used.

A program by itself, `python -I -S waiter.py REPORT COMMAND…`, and a small one: to the kernel, the most memory of a
process includes that of the process from which it was started. Its standard input ends when Paceline does.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import threading
import time

ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER: a process whose parent has died becomes a child of this one
MARK = "PACELINE_RUN"
paceline_is_gone = threading.Event()
RESTORED = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores them, and the command would inherit that


def main(report_path: str, command: list[str]) -> None:
    threading.Thread(target=end_with_paceline, daemon=True).start()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    report = wait_for(command)
    if paceline_is_gone.is_set():
        threading.Event().wait()  # the other thread ends this process when it has ended the others
    with open(report_path, "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib would cost memory
        json.dump(report, file)


def wait_for(command: list[str]) -> dict[str, object]:
    """Run it to its end: seconds, exit code and use of all processes that have ended; or why it could not start."""
    no_input = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    began = time.perf_counter()
    try:
        pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[no_input], setsigdef=RESTORED)
    except OSError as error:
        return {"error": error.strerror, "not_found": isinstance(error, FileNotFoundError)}
    _, status, _ = os.wait4(pid, 0)
    seconds = time.perf_counter() - began
    reap_orphans()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": seconds,
        "user_seconds": used.ru_utime,
        "system_seconds": used.ru_stime,
        "largest_process_bytes": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }


def reap_orphans() -> None:
    """Those that have ended; the use of the others is not known to the kernel's sum."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def end_with_paceline() -> None:
    """Kill the whole run when Paceline is gone, however it went: a closed pipe needs no polling."""
    while os.read(0, 1):
        pass
    paceline_is_gone.set()
    while others := others_of_the_run():
        for pid in others:
            kill(pid)
        time.sleep(0.02)
    os._exit(1)


def others_of_the_run() -> list[int]:
    mark = f"{MARK}={os.environ[MARK]}".encode()
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - as above
    return [pid for pid in pids if pid != os.getpid() and mark in environment(pid)]


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def environment(pid: int) -> list[bytes]:
    """Empty for one that has ended, or is somebody else's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as above
            return file.read().split(b"\0")
    except OSError:
        return []


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
