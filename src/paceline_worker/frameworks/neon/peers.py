"""The ranks of a run, joined by TCP: neon has no messages of its own, and its environment has none to offer.

Sockets rather than shared memory: they reach other hosts, the kernel closes them when a rank dies, so that its peers
notice at once, and a rank that waits leaves its core to others. Shared memory would save a copy on one machine, but it
has to be watched for dead ranks and cleared away after them.
"""

from __future__ import annotations

import hashlib
import select
import socket
import struct
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Dict, Iterator, Mapping, Optional, Tuple

import numpy as np

from paceline_worker.weights import Array

HELLO = struct.Struct("!32sIH")  # the run, the rank that speaks, and the port at which it listens
ADDRESS = struct.Struct("!64sH")
HELLO_SECONDS = 5.0  # for whoever connects to say what it wants
RETRY_SECONDS = 0.05
RUN_VARIABLE = "PACELINE_RUN"


class LostPeerError(Exception):
    """Another rank is gone, or has been silent for too long."""


@dataclass(frozen=True)
class Meeting:
    """Where the ranks of a run find each other: rank 0 listens there."""

    address: Tuple[str, int]
    run: bytes  # its mark, by which strangers who connect are known

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Meeting:
        run = hashlib.sha256(environment.get(RUN_VARIABLE, "").encode()).digest()
        return cls((environment.get("MASTER_ADDR", "127.0.0.1"), int(environment.get("MASTER_PORT", "0"))), run)


class Peers:
    """Lines to rank 0 and to both neighbours in a ring; every rank has to make the same calls in the same order."""

    def __init__(self, rank: int, size: int, meeting: Meeting, patience_seconds: float) -> None:
        self.rank, self.size, self._patience = rank, size, patience_seconds
        self._lines: Dict[int, socket.socket] = {}
        if size > 1:
            joined = _Joining(rank, size, meeting, patience_seconds)
            self._lines = joined.as_first() if rank == 0 else joined.as_other()
        for line in self._lines.values():
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.setblocking(False)

    def add_up(self, numbers: Array) -> None:
        """Put the sum over all ranks into every rank's array, the same to the last bit.

        Each number travels twice around the ring, whatever the number of ranks: once while its sum grows, and once
        to bring that to all.
        """
        parts = np.array_split(numbers, self.size)
        received = np.empty_like(parts[0])
        for hop in range(self.size - 1):
            grown, mine = parts[(self.rank - hop) % self.size], parts[(self.rank - hop - 1) % self.size]
            self._pass_on(grown, received[: mine.size])
            mine += received[: mine.size]
        for hop in range(self.size - 1):
            self._pass_on(parts[(self.rank - hop + 1) % self.size], parts[(self.rank - hop) % self.size])

    def add_up_at_first(self, numbers: Array) -> None:
        """Put the sum over all ranks into the array of rank 0."""
        if self.rank:
            self._send(0, numbers)
            return
        received = np.empty_like(numbers)
        for rank in range(1, self.size):
            self._receive(rank, received)
            numbers += received

    def copy_from_first(self, numbers: Array) -> None:
        """Put the array of rank 0 into those of all ranks."""
        if self.rank:
            self._receive(0, numbers)
            return
        for rank in range(1, self.size):
            self._send(rank, numbers)

    def all_ready(self, ready: bool) -> bool:
        """Wait for all ranks; true when all of them are ready."""
        missing = np.array([0.0 if ready else 1.0])
        self.add_up_at_first(missing)
        self.copy_from_first(missing)
        return bool(missing[0] == 0)

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    def _send(self, rank: int, numbers: Array) -> None:
        self._swap((rank, numbers), (rank, numbers[:0]))

    def _receive(self, rank: int, numbers: Array) -> None:
        self._swap((rank, numbers[:0]), (rank, numbers))

    def _pass_on(self, sent: Array, received: Array) -> None:
        """Send to the next rank in the ring while the one before sends to this one."""
        self._swap(((self.rank + 1) % self.size, sent), ((self.rank - 1) % self.size, received))

    def _swap(self, sent: Tuple[int, Array], received: Tuple[int, Array]) -> None:
        """Both ways at once: if all sent first, they would wait for each other for ever."""
        (target, out), (source, into) = ((rank, _bytes(array)) for rank, array in (sent, received))
        while out or into:
            readers = [self._lines[source]] if into else []
            writers = [self._lines[target]] if out else []
            readable, writable, _ = select.select(readers, writers, [], self._patience)
            if not readable and not writable:
                silent = source if into else target
                raise LostPeerError(f"rank {silent} has been silent for {self._patience:g} s")
            if writable:
                with _missing(target):
                    out = out[self._lines[target].send(out) :]
            if readable:
                with _missing(source):
                    count = self._lines[source].recv_into(into)
                if not count:
                    raise LostPeerError(f"rank {source} has closed its line")
                into = into[count:]


class _Joining:
    """How the lines come about: all call rank 0, which tells each where the next rank of the ring listens."""

    def __init__(self, rank: int, size: int, meeting: Meeting, patience_seconds: float) -> None:
        self._rank, self._size, self._meeting = rank, size, meeting
        self._deadline = time.monotonic() + patience_seconds

    def as_first(self) -> Dict[int, socket.socket]:
        lines: Dict[int, socket.socket] = {}
        addresses = {}
        with _listening(self._meeting.address) as listener:
            while len(lines) < self._size - 1:
                rank, port, line = self._answer(listener)
                lines[rank], addresses[rank] = line, (line.getpeername()[0], port)
        for rank in range(1, self._size - 1):  # the last one's neighbour is rank 0
            host, port = addresses[rank + 1]
            with _missing(rank):
                lines[rank].sendall(ADDRESS.pack(host.encode(), port))
        return lines

    def as_other(self) -> Dict[int, socket.socket]:
        first = self._call(0, self._meeting.address)
        lines = {0: first}
        with _listening((first.getsockname()[0], 0)) as listener:
            with _missing(0):
                first.sendall(self._hello(listener.getsockname()[1]))
            if self._rank < self._size - 1:
                host, port = ADDRESS.unpack(self._read(0, first, ADDRESS.size))
                line = self._call(self._rank + 1, (host.rstrip(b"\0").decode(), port))
                with _missing(self._rank + 1):
                    line.sendall(self._hello(0))
                lines[self._rank + 1] = line
            if self._rank > 1:
                rank, _, line = self._answer(listener)
                lines[rank] = line
        return lines

    def _hello(self, port: int) -> bytes:
        return HELLO.pack(self._meeting.run, self._rank, port)

    def _call(self, rank: int, address: Tuple[str, int]) -> socket.socket:
        """Again and again, for it may not be listening yet."""
        while True:
            try:
                return socket.create_connection(address, timeout=self._left(f"rank {rank} cannot be reached"))
            except OSError:
                time.sleep(RETRY_SECONDS)

    def _answer(self, listener: socket.socket) -> Tuple[int, int, socket.socket]:
        """The next rank that calls, and the port at which it listens; whoever is not of this run is hung up on."""
        while True:
            listener.settimeout(self._left("other ranks have not called"))
            with suppress(socket.timeout):  # then the time is up
                line, _ = listener.accept()
                caller = self._caller(line)
                if caller:
                    return (*caller, line)
                line.close()

    def _caller(self, line: socket.socket) -> Optional[Tuple[int, int]]:
        line.settimeout(HELLO_SECONDS)
        try:
            run, rank, port = HELLO.unpack(_exactly(line, HELLO.size))
        except (OSError, struct.error):
            return None
        return (rank, port) if run == self._meeting.run else None

    def _read(self, rank: int, line: socket.socket, count: int) -> bytes:
        line.settimeout(self._left(f"rank {rank} has been silent"))
        with _missing(rank):
            found = _exactly(line, count)
        if len(found) < count:
            raise LostPeerError(f"rank {rank} has closed its line")
        return found

    def _left(self, otherwise: str) -> float:
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise LostPeerError(f"{otherwise} until the ranks had to have met")
        return seconds


def _listening(address: Tuple[str, int]) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(socket.SOMAXCONN)
    return listener


def _exactly(line: socket.socket, count: int) -> bytes:
    """So many bytes, or fewer if the other end closes before."""
    found = b""
    while len(found) < count:
        more = line.recv(count - len(found))
        if not more:
            break
        found += more
    return found


def _bytes(numbers: Array) -> memoryview:
    return memoryview(numbers.view(np.uint8))


@contextmanager
def _missing(rank: int) -> Iterator[None]:
    """Whatever breaks on this line is the loss of its rank."""
    try:
        yield
    except OSError as error:
        raise LostPeerError(f"rank {rank} cannot be reached: {error}") from error
