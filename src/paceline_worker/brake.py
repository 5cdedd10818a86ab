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

PERIOD_SECONDS = 0.02  # short against a step, long against a switch between processes


def slow_down(times: float) -> None:
    """From now on this process takes so many times as long."""
    if times > 1:
        subprocess.Popen([sys.executable, "-m", __name__, str(os.getpid()), str(times)])


def brake(pid: int, times: float) -> None:
    running = PERIOD_SECONDS / times
    with contextlib.suppress(ProcessLookupError):
        while os.getppid() == pid:  # else it is gone, and its number may be somebody else's
            os.kill(pid, signal.SIGSTOP)
            time.sleep(PERIOD_SECONDS - running)
            os.kill(pid, signal.SIGCONT)
            time.sleep(running)


if __name__ == "__main__":
    brake(int(sys.argv[1]), float(sys.argv[2]))
