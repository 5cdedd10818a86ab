"""How the processes of a run are started: their commands, and an environment that is chosen and not inherited."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paceline.frameworks import Framework
from paceline_worker.protocol import Job

RUN_VARIABLE = "PACELINE_RUN"  # marks every process of a run, wherever it goes

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


@dataclass(frozen=True)
class Command:
    arguments: tuple[str, ...]
    environment: dict[str, str]


@dataclass(frozen=True)
class Launch:
    """What every launcher needs to know."""

    python: str
    folder: Path
    processes: int
    environment: dict[str, str]


def direct(launch: Launch) -> list[Command]:
    """One command for each process, each told its rank."""
    arguments = (launch.python, "-m", "paceline_worker", str(launch.folder))
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(launch.processes)}
    return [
        Command(arguments, {**launch.environment, **meeting, "RANK": str(rank)}) for rank in range(launch.processes)
    ]


def torchrun(launch: Launch) -> list[Command]:
    """PyTorch's own launcher: it starts the ranks and ends them all when one fails."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(launch.processes))
    arguments = (launch.python, *torchrun, "-m", "paceline_worker", str(launch.folder))
    loopback = {"GLOO_SOCKET_IFNAME": "lo"}  # all ranks are on this machine
    return [Command(arguments, {**launch.environment, **loopback})]


# Of the ranks that are gone torchrun alone knows the first: it ends the others at once, by SIGTERM.
TORCHRUN_SAW_KILLED = re.compile(r"rank\s+: (\d+) \(local_rank: \d+\)\s+exitcode\s+: -(\d+) \(pid: (\d+)\)")


class KilledRank(NamedTuple):
    rank: int
    process: int
    signal: int


def killed_rank(log: str) -> KilledRank | None:
    """The rank that was killed first, if a launcher has said so at the end of the log."""
    others, _, root = log.partition("Root Cause")
    # One that misses the killed one may fail in the same second, and torchrun takes it for the root.
    found = _killed(root) or [one for one in _killed(others) if one.signal != signal.SIGTERM]
    return found[0] if found else None


def _killed(report: str) -> list[KilledRank]:
    found = TORCHRUN_SAW_KILLED.findall(report)
    return [KilledRank(int(rank), int(process), int(number)) for rank, number, process in found]


LAUNCHERS: dict[str, Callable[[Launch], list[Command]]] = {"direct": direct, "torchrun": torchrun}


def commands(framework: Framework, job: Job, python: str, folder: Path, code: Path) -> list[Command]:
    """The commands of a run; several processes only where the framework wants one per device."""
    processes = framework.process_count(len(job.devices))
    environment = {**worker_environment(framework, code, len(job.cores[0])), RUN_VARIABLE: folder.name}
    launcher = framework.launcher if processes > 1 else "direct"
    return LAUNCHERS[launcher](Launch(python, folder, processes, environment))


def worker_environment(framework: Framework, code: Path, threads: int) -> dict[str, str]:
    """All variables that a process of this framework sees."""
    return {
        **{name: os.environ[name] for name in INHERITED if name in os.environ},
        "PYTHONPATH": str(code),
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # otherwise the fastest card is cuda:0, and the monitor looks at another one
        **{name: value.format(threads=threads) for name, value in framework.environment.items()},
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
