"""The environment of a worker: chosen, not inherited, so that nothing unseen changes what is measured."""

from __future__ import annotations

import os
from pathlib import Path

from paceline.catalog.frameworks import Framework

# What a worker needs of the user's environment. Anything else could change what is measured without being seen.
INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "CUDA_HOME",
)  # not CUDA_VISIBLE_DEVICES: cards are chosen by name, and the driver's numbers must be those of the frameworks


def worker_environment(framework: Framework, code: Path, threads: int) -> dict[str, str]:
    """All variables that a process of this framework sees."""
    return {
        **{name: os.environ[name] for name in INHERITED if name in os.environ},
        "PYTHONPATH": str(code),
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # otherwise the fastest card is cuda:0, and the monitor looks at another one
        **{name: value.format(threads=threads) for name, value in framework.environment.items()},
    }
