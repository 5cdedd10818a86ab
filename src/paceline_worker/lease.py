"""A worker must not outlive the orchestrator: it would go on using the cores that the next run is measured on."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

from paceline_worker.protocol import LEASE_FILE

ORPHANED = 75  # exit code


def end_with_the_orchestrator(folder: Path) -> None:
    """End this process as soon as the orchestrator is gone, however it went.

    The orchestrator holds a lock on the lease file. The kernel frees it when the orchestrator ends, and only then does
    the wait below return: no polling, no signal that a launcher in between could swallow.
    """
    threading.Thread(target=_wait_for_lease, args=(folder / LEASE_FILE,), daemon=True).start()


def _wait_for_lease(path: Path) -> None:
    with path.open("rb") as lease:
        fcntl.flock(lease, fcntl.LOCK_SH)
        os._exit(ORPHANED)
