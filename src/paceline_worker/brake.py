"""Makes a process take longer than it needs, to simulate a slower device: `python -m paceline_worker.brake PID TIMES`.

The process is stopped for a part of every period. It cannot do that to itself, and whoever does it must end with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

RUNNING_SECONDS = 0.004  # at a time: short against a step and an exchange, long against a switch between processes


class Brake:
    """Ready at once, so that its memory is there before anything is measured; it works from `engage` on."""

    def __init__(self, times: float) -> None:
        command = [sys.executable, "-m", __name__, str(os.getpid()), str(times)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE) if times > 1 else None

    def engage(self) -> None:
        """From now on this process takes so many times as long."""
        if self._process and self._process.stdin:
            self._process.stdin.close()


def brake(pid: int, times: float) -> None:
    """A sleep may end late, so the next pause makes good what the last ones were too short or too long."""
    sys.stdin.read()  # until it is closed
    owed = 0.0
    with contextlib.suppress(ProcessLookupError):
        while os.getppid() == pid:  # else it is gone, and its number may be somebody else's
            owed += (times - 1) * slept(RUNNING_SECONDS)
            if owed > 0:
                os.kill(pid, signal.SIGSTOP)
                owed -= slept(owed)
                os.kill(pid, signal.SIGCONT)


def slept(seconds: float) -> float:
    """Sleep, and tell how long it really was."""
    start = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - start


if __name__ == "__main__":
    brake(int(sys.argv[1]), float(sys.argv[2]))
