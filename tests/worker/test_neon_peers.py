"""The lines between neon's ranks: sums are those of all ranks, strangers are hung up on, a lost rank is named."""

from __future__ import annotations

import importlib.util
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.catalog.frameworks import FOLDER
from paceline.run.launchers import held_port

SIZES = [1, 2, 3, 5]


def _load() -> ModuleType:
    """Without its package, which prepares NumPy for neon."""
    spec = importlib.util.spec_from_file_location("neon_peers", FOLDER / "neon" / "peers.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


peers = _load()


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as held:
        yield held


def joined(rank: int, size: int, port: int, *, run: str = "this run", patience: float = 20.0) -> Any:
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PACELINE_RUN": run}
    return peers.Peers(rank, size, peers.Meeting.read(environment), patience)


def all_ranks(size: int, port: int, work: Callable[[Any], Any], **how: Any) -> list[Any]:
    """What each rank gives, or the error that it ended with."""

    def one(rank: int) -> Any:
        line = joined(rank, size, port, **how)
        try:
            return work(line)
        except peers.LostPeerError as error:
            return error
        finally:
            line.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))


def numbers(rank: int, length: int) -> NDArray[np.float32]:
    return np.random.default_rng(rank).normal(size=length).astype(np.float32)


@pytest.mark.parametrize("length", [0, 1, 4, 1_000_003])  # fewer than there are ranks; more than a socket holds
@pytest.mark.parametrize("size", SIZES)
def test_every_rank_has_the_same_sum_of_all(port: int, size: int, length: int) -> None:
    def work(line: Any) -> NDArray[np.float32]:
        own = numbers(line.rank, length)
        line.add_up(own)
        return own

    first, *others = all_ranks(size, port, work)
    np.testing.assert_allclose(first, sum(numbers(rank, length) for rank in range(size)), rtol=1e-4, atol=1e-5)
    for other in others:
        assert other.tobytes() == first.tobytes()


@pytest.mark.parametrize("size", SIZES)
def test_first_rank_adds_up_and_gives_what_it_likes(port: int, size: int) -> None:
    def work(line: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        own = numbers(line.rank, 300_000)
        line.add_up_at_first(own)
        given = own * 2 if line.rank == 0 else np.zeros_like(own)
        line.copy_from_first(given)
        return own, given

    (total, doubled), *others = all_ranks(size, port, work)
    np.testing.assert_allclose(total, sum(numbers(rank, 300_000) for rank in range(size)), rtol=1e-4, atol=1e-5)
    for rank, (own, given) in enumerate(others, start=1):
        np.testing.assert_array_equal(own, numbers(rank, 300_000))
        np.testing.assert_array_equal(given, doubled)


@pytest.mark.parametrize("size", SIZES)
def test_all_are_ready_only_when_each_is(port: int, size: int) -> None:
    def work(line: Any) -> list[bool]:
        return [line.all_ready(True), line.all_ready(line.rank != size - 1), line.all_ready(True)]

    assert all_ranks(size, port, work) == [[True, False, True]] * size


def test_rank_that_leaves_is_missed_by_its_neighbours_at_once(port: int) -> None:
    def work(line: Any) -> None:
        line.add_up(numbers(line.rank, 10))
        if line.rank == 2:
            line.close()
            return
        line.add_up(numbers(line.rank, 1_000_000))

    began = time.monotonic()
    first, second, third, fourth = all_ranks(4, port, work)
    assert time.monotonic() - began < 5
    assert third is None
    assert all(isinstance(error, peers.LostPeerError) for error in (first, second, fourth))
    assert any("rank 2 " in str(error) for error in (second, fourth))


def test_rank_that_leaves_is_missed_by_the_first(port: int) -> None:
    """Which the others then miss."""

    def work(line: Any) -> bool | None:
        if line.rank == 2:
            line.close()
            return None
        return bool(line.all_ready(True))

    first, second, third = all_ranks(3, port, work)
    assert third is None
    assert str(first).startswith("rank 2 ")
    assert str(second).startswith("rank 0 ")


def test_silent_rank_is_named_when_patience_is_at_its_end(port: int) -> None:
    over = threading.Event()

    def work(line: Any) -> None:
        if line.rank == 1:
            over.wait(20)
            return
        try:
            line.add_up(numbers(0, 10))
        finally:
            over.set()

    waiting, _ = all_ranks(2, port, work, patience=0.5)
    assert str(waiting) == "rank 1 has been silent for 0.5 s"


def test_stranger_at_the_meeting_place_is_hung_up_on(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One says nothing, one is of another run; the ranks meet all the same."""
    monkeypatch.setattr(peers, "HELLO_SECONDS", 0.2)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(joined, 0, 2, port)
        silent, other = called(port), called(port)
        other.sendall(peers.HELLO.pack(b"another run", 1, 0))
        second = pool.submit(joined, 1, 2, port)
        for line in (first.result(20), second.result(20)):
            line.close()
        assert (silent.recv(1), other.recv(1)) == (b"", b"")
    silent.close()
    other.close()


def called(port: int) -> socket.socket:
    deadline = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError:
            assert time.monotonic() < deadline, "rank 0 does not listen"
            time.sleep(0.02)


@pytest.mark.parametrize(("rank", "message"), [(0, "other ranks have not called"), (1, "rank 0 cannot be reached")])
def test_ranks_that_never_meet_say_so(port: int, rank: int, message: str) -> None:
    with pytest.raises(peers.LostPeerError, match=message):
        joined(rank, 2, port, patience=0.3)
