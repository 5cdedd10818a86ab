"""Workers are started with their ranks, their threads and an environment that is chosen and not inherited."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from paceline.catalog.frameworks import Framework, all_frameworks, find
from paceline.environments import virtual_environments
from paceline.environments.worker_variables import INHERITED
from paceline.run.launchers import LAUNCHERS, LaunchCommand, commands, held_port
from paceline.system.errors import UserError
from paceline.system.processes import RUN_VARIABLE
from paceline_worker.protocol import Job
from tests.factories.command_line import CommandLine, wait_until
from tests.factories.jobs import job

FOLDER = Path("/results/runs/20250101-120000-abcdef")
CODE = Path("/worker/code")
PORT = 29500
IP_LOCAL_PORT_RANGE = 51  # of Linux since 6.3; Python has no name for it
WORKER = ("-m", "paceline_worker", str(FOLDER))


def on_devices(count: int, *, cores_per_device: int = 1) -> Job:
    first_cores = range(0, count * cores_per_device, cores_per_device)
    return job(
        devices=tuple(f"cpu:{index}" for index in range(count)),
        cores=tuple(tuple(range(first, first + cores_per_device)) for first in first_cores),
        shares=(6,) * count,
    )


def started(framework: str | Framework, work: Job) -> list[LaunchCommand]:
    chosen = find(framework).framework if isinstance(framework, str) else framework
    return commands(chosen, work, "/env/bin/python", FOLDER, CODE, PORT)


def only_environment(framework: str | Framework, work: Job) -> dict[str, str]:
    (command,) = started(framework, work)
    return command.environment


def test_variables_of_the_user_do_not_reach_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"PATH": "/bin", "HOME": "/home/me", "OMP_NUM_THREADS": "99", "XLA_FLAGS": "--x"})
    environment = only_environment("fake", on_devices(1))
    assert environment == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "PYTHONPATH": str(CODE),
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PACELINE_RUN": "20250101-120000-abcdef",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(PORT),
        "WORLD_SIZE": "1",
        "RANK": "0",
    }


@pytest.mark.parametrize("framework", ["torch", "torch+compile", "jax", "fake"])
@pytest.mark.parametrize(
    "name",
    ["OMP_NUM_THREADS", "XLA_FLAGS", "TF_CPP_MIN_LOG_LEVEL", "PYTHONPATH", "PYTHONHASHSEED", "RANK", "NCCL_ALGO"],
)
def test_no_framework_sees_what_the_user_has_set(monkeypatch: pytest.MonkeyPatch, framework: str, name: str) -> None:
    monkeypatch.setenv(name, "the user's")
    assert "the user's" not in only_environment(framework, on_devices(1)).values()


@pytest.mark.parametrize("name", INHERITED)
def test_listed_variables_are_handed_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "the user's")
    assert only_environment("jax", on_devices(1))[name] == "the user's"


def test_listed_variables_are_needed_for_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})
    assert set(only_environment("fake", on_devices(1))).isdisjoint(INHERITED)


def test_what_the_framework_asks_for_is_set_with_its_threads() -> None:
    environment = only_environment("torch", on_devices(1, cores_per_device=3))
    assert (environment["OMP_NUM_THREADS"], environment["MKL_NUM_THREADS"]) == ("3", "3")
    assert environment["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] == "1"


def test_threads_are_those_of_one_device_however_many_there_are() -> None:
    assert only_environment("torch", on_devices(4, cores_per_device=2))["OMP_NUM_THREADS"] == "2"


def test_wish_of_the_framework_goes_before_the_users() -> None:
    stubborn = msgspec.structs.replace(find("fake").framework, environment={"PATH": "/own:{threads}"})
    assert only_environment(stubborn, on_devices(1, cores_per_device=2))["PATH"] == "/own:2"


def test_direct_starts_one_command_per_device_and_tells_each_its_rank() -> None:
    started_ones = started("fake", on_devices(3))
    assert [command.arguments for command in started_ones] == [("/env/bin/python", *WORKER)] * 3
    assert [command.environment["RANK"] for command in started_ones] == ["0", "1", "2"]
    assert {command.environment["WORLD_SIZE"] for command in started_ones} == {"3"}
    assert len({command.environment["MASTER_PORT"] for command in started_ones}) == 1  # where they meet


def test_torch_with_several_devices_is_started_by_torchrun() -> None:
    (command,) = started("torch", on_devices(2))
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert command.arguments == ("/env/bin/python", *torchrun, *WORKER)
    assert command.environment["GLOO_SOCKET_IFNAME"] == "lo"
    assert "RANK" not in command.environment  # torchrun gives it


def test_torch_with_one_device_needs_no_launcher() -> None:
    (command,) = started("torch", on_devices(1))
    assert command.arguments == ("/env/bin/python", *WORKER)
    assert (command.environment["RANK"], command.environment["WORLD_SIZE"]) == ("0", "1")


def test_framework_that_serves_all_devices_has_one_process() -> None:
    (command,) = started("jax", on_devices(4))
    assert command.arguments == ("/env/bin/python", *WORKER)
    assert (command.environment["RANK"], command.environment["WORLD_SIZE"]) == ("0", "1")


@pytest.mark.parametrize(
    ("flags", "least"),
    [
        (("fake", "--slow", "1:2.0"), 3),  # two ranks and a brake
        pytest.param(("torch",), 3, marks=pytest.mark.real),  # torchrun and two ranks
        pytest.param(("jax", "--data", "fake:host"), 1, marks=pytest.mark.real),
    ],
    ids=["fake", "torch", "jax"],
)
def test_every_process_bears_the_mark_of_its_run(paceline: CommandLine, flags: tuple[str, ...], least: int) -> None:
    """Of all that are below `paceline run`, whoever has started them."""
    long = ("--devices", "2xcpu", "--steps", "100000", "--warmup", "2", "--repeats", "1")
    running = paceline.start("run", "cifar10-conv", "--framework", *flags, *long)
    try:
        wait_until(lambda: any(event.get("phase") == "train" for event in paceline.events()), seconds=120)
        below = psutil.Process(running.pid).children(recursive=True)
        marks = [process.environ().get(RUN_VARIABLE) for process in below]
        (run,) = paceline.store.glob("runs/*")
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    assert len(marks) >= least
    assert set(marks) == {run.name}
    assert paceline.processes() == []


def test_mark_of_another_run_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was started from another one would be ended with it."""
    monkeypatch.setenv(RUN_VARIABLE, "20200101-000000-another")
    assert only_environment("fake", on_devices(1))[RUN_VARIABLE] == "20250101-120000-abcdef"


@pytest.mark.parametrize("framework", all_frameworks().values(), ids=all_frameworks())
def test_launcher_of_every_framework_exists(framework: Framework) -> None:
    assert framework.launcher in LAUNCHERS


def test_launcher_that_a_plugin_misspelled_is_named() -> None:
    misspelled = msgspec.structs.replace(find("fake").framework, launcher="torchrnu")
    with pytest.raises(
        UserError, match=r"Unknown launcher 'torchrnu'. Did you mean 'torchrun'\? Known: direct, torchrun"
    ):
        started(misspelled, on_devices(2))


def listening(address: str, port: int) -> socket.socket:
    """As a rank listens where the others are to find it: PyTorch, gRPC and Python set this option."""
    server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen()
    return server


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])  # noqa: S104 - as frameworks do
def test_rank_gets_the_port_to_meet_at(address: str) -> None:
    """It hears who comes; were the port held by one that listens, that one would."""
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("there is no IPv6")
    with held_port() as port:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10)
        with listening(address, port) as rank, socket.create_connection(("127.0.0.1", port), timeout=10) as other:
            rank.settimeout(10)
            heard, _ = rank.accept()
            with heard:
                other.sendall(b"rank 1")
                assert heard.recv(6) == b"rank 1"


def test_each_run_meets_at_a_port_of_its_own() -> None:
    with held_port() as one, held_port() as other:
        assert one != other


def given_from(first: int, last: int, address: str) -> int:
    """A port that the system chooses for whoever asks for any, among these."""
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("@I", first | last << 16))
        except OSError:
            pytest.skip("this kernel gives ports from all")
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="ports can be held on Linux alone")
@pytest.mark.parametrize("address", ["127.0.0.1", ""])
def test_nobody_else_is_given_the_port_to_meet_at(address: str) -> None:
    with held_port() as port:
        with pytest.raises(OSError, match="in use"):
            given_from(port, port, address)
        with pytest.raises(OSError, match="in use"), socket.socket() as other:
            other.bind((address, port))
    assert given_from(port, port, address) == port  # afterwards it is free again


STORE = """
import sys
from datetime import timedelta
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), world_size=1, is_master=True, timeout=timedelta(seconds=20))
store.set("a", "b")
print(store.get("a").decode(), store.port)
"""


@pytest.mark.real
def test_pytorch_meets_at_a_port_that_is_held() -> None:
    """Where its ranks are started without its own launcher, which chooses one itself."""
    environment = virtual_environments.ensure(find("torch").framework, lambda line: None)
    with held_port() as port:
        command = [environment.python, "-c", STORE, str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout.split() == ["b", str(port)], ended.stderr
