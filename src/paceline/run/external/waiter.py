"""Waits for one command as its parent, so that the kernel tells what it and all below it have used.

A program by itself, `python -I -S waiter.py FOLDER COMMAND…`, and a small one: to the kernel, the most memory of a
process includes that of the process from which it was started. It can lock the lease in the run's folder when Paceline
has ended. After its report it stays, since what the command left behind is found below it, until Paceline has ended
that and it.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import sys
import threading
import time

ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER: a process whose parent has died becomes a child of this one
MARK = "PACELINE_RUN"
REPORT_FILE, LEASE_FILE = "waiter.json", "lease"  # in the run's folder
paceline_is_gone = threading.Event()
RESTORED = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores them, and the command would inherit that


def main(folder: str, command: list[str]) -> None:
    threading.Thread(target=end_with_paceline, args=(f"{folder}/{LEASE_FILE}",), daemon=True).start()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    report = wait_for(command)
    if not paceline_is_gone.is_set():
        save(report, f"{folder}/{REPORT_FILE}")
    threading.Event().wait()  # Paceline ends this process, or the other thread does, when the others have been ended


def save(report: dict[str, object], path: str) -> None:
    """At once, since Paceline reads it as soon as it is there."""
    with open(f"{path}.part", "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib would cost memory
        json.dump(report, file)
    os.replace(f"{path}.part", path)  # noqa: PTH105 - as above


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


def end_with_paceline(lease_path: str) -> None:
    """Kill the whole run when Paceline is gone, however it went: waiting for a lock needs no polling."""
    with open(lease_path, "rb") as lease:  # noqa: PTH123 - as above
        fcntl.flock(lease, fcntl.LOCK_SH)
    paceline_is_gone.set()
    while sum(map(kill, others_of_the_run())):  # every one of them, where any() would stop at the first
        time.sleep(0.02)
    os._exit(1)


def others_of_the_run() -> set[int]:
    """Those with its mark, and those below this process, which may have cleared their environment."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - as above
    marked = {pid for pid in pids if mark in about(pid, "environ").split(b"\0")}
    return (marked | below({pid: about(pid, "stat") for pid in pids})) - {os.getpid()}


def below(stats: dict[int, bytes]) -> set[int]:
    """Live ones; orphans have become children of this process."""
    fields = {pid: stat.rpartition(b")")[2].split() for pid, stat in stats.items() if stat}  # state, parent and more
    found: set[int] = set()
    newest = {os.getpid()}
    while newest:
        newest = {pid for pid, field in fields.items() if int(field[1]) in newest} - found
        found |= newest
    return {pid for pid in found if fields[pid][0] not in (b"Z", b"X")}


def kill(pid: int) -> bool:
    """Whether to look again: one that has ended may have started others, but somebody else's stays."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def about(pid: int, name: str) -> bytes:
    """What the kernel tells; nothing of one that has ended, or is somebody else's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 - as above
            return file.read()
    except OSError:
        return b""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
