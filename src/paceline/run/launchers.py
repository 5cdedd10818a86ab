"""How the processes of a run are started: their commands, and an environment that is chosen and not inherited."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paceline.catalog.frameworks import Framework
from paceline.environments.worker_code import deploy
from paceline.environments.worker_variables import worker_environment
from paceline.system.errors import unknown
from paceline.system.processes import RUN_VARIABLE
from paceline_worker.protocol import Job


@dataclass(frozen=True)
class LaunchCommand:
    arguments: tuple[str, ...]
    environment: dict[str, str]
    folder: str | None = None  # in which it is started, if not in that of the run


@dataclass(frozen=True)
class Launch:
    """What every launcher needs to know."""

    python: str
    folder: Path
    processes: int
    environment: dict[str, str]
    port: int  # where the ranks can meet, if nothing else tells them


def direct(launch: Launch) -> list[LaunchCommand]:
    """One command for each process, each told its rank."""
    arguments = (launch.python, "-m", "paceline_worker", str(launch.folder))
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(launch.port), "WORLD_SIZE": str(launch.processes)}
    return [
        LaunchCommand(arguments, {**launch.environment, **meeting, "RANK": str(rank)})
        for rank in range(launch.processes)
    ]


def torchrun(launch: Launch) -> list[LaunchCommand]:
    """PyTorch's own launcher: it starts the ranks and ends them all when one fails."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(launch.processes))
    arguments = (launch.python, *torchrun, "-m", "paceline_worker", str(launch.folder))
    loopback = {"GLOO_SOCKET_IFNAME": "lo"}  # all ranks are on this machine
    return [LaunchCommand(arguments, {**launch.environment, **loopback})]


# Of the ranks that are gone torchrun alone knows the first: it ends the others at once, by SIGTERM.
TORCHRUN_SAW_ENDED = re.compile(r"rank\s+: (\d+) \(local_rank: \d+\)\s+exitcode\s+: (-?\d+) \(pid: (\d+)\)")


class EndedRank(NamedTuple):
    """A rank whose end its launcher saw."""

    rank: int
    code: int  # its exit code; that of a killed one is its signal, below 0
    process: int


def ended_ranks(log: str) -> list[EndedRank]:
    """The ranks whose end a launcher reports at the end of the log, the one that it takes for the cause first."""
    others, _, root = log.partition("Root Cause")
    return [EndedRank(*map(int, found)) for part in (root, others) for found in TORCHRUN_SAW_ENDED.findall(part)]


def first_killed(ended: Sequence[EndedRank]) -> EndedRank | None:
    """The rank that was killed first.

    One that misses it may fail in the same second and pass for the cause; the others are ended by SIGTERM.
    """
    return next((one for one in ended if one.code < 0 and (one is ended[0] or one.code != -signal.SIGTERM)), None)


LAUNCHERS: dict[str, Callable[[Launch], list[LaunchCommand]]] = {"direct": direct, "torchrun": torchrun}


def commands(
    framework: Framework, job: Job, python: str, folder: Path, code: Path, port: int = 0
) -> list[LaunchCommand]:
    """The commands of a run; several processes only where the framework wants one per device.

    They meet at the port; one alone may take any, which is 0.
    """
    processes = framework.process_count(len(job.devices))
    environment = {**worker_environment(framework, code, len(job.cores[0])), RUN_VARIABLE: folder.name}
    launcher = framework.launcher if processes > 1 else "direct"
    if launcher not in LAUNCHERS:
        raise unknown("launcher", launcher, LAUNCHERS)
    return LAUNCHERS[launcher](Launch(python, folder, processes, environment, port))


@contextlib.contextmanager
def launched(framework: Framework, job: Job, python: str, folder: Path) -> Iterator[list[LaunchCommand]]:
    """The commands of a run, whose ranks can meet for as long as it lasts."""
    with held_port() as port:
        yield commands(framework, job, python, folder, deploy(framework.name), port)


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """A free port for the ranks to meet at, which no other process is given before they have ended.

    Bound here without a listener: Linux gives such a port to no process that asks for any port, and does give it to
    the rank that asks for this one. Elsewhere it can only be set free before the ranks start.
    """
    every = socket.has_dualstack_ipv6()  # else somebody could still get it for one kind of address
    with socket.socket(socket.AF_INET6 if every else socket.AF_INET) as holder:
        if every:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        port = int(holder.getsockname()[1])
        if sys.platform != "linux":
            holder.close()
        yield port
