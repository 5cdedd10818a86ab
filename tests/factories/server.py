"""A real `paceline serve` in a process of its own, and a plain client for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADDRESS = re.compile(r"http://[^:]+:(\d+)/(?:\?token=(\S+))?")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str


@dataclass(frozen=True)
class Served:
    """A server that listens."""

    process: subprocess.Popen[str]
    port: int
    token: str | None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """One request; words of header names are joined by - instead of _."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as client:
            client.putrequest(method, path, skip_host="Host" in named)
            for name, value in named.items():
                client.putheader(name, value)
            client.endheaders()
            found = client.getresponse()
            kept = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, kept, found.read().decode(errors="replace"))

    def raw(self, path: str, method: str) -> bytes:
        """All that comes until the server closes, whatever it should be."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            client.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            return b"".join(iter(lambda: client.recv(65536), b""))

    @contextlib.contextmanager
    def events(self, path: str) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
        """Names and values of server-sent events, as they come."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as client:
            client.request("GET", path)
            yield _events(client.getresponse())


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    while line := answer.readline():
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        if field == "data":
            yield name, json.loads(value)


@contextlib.contextmanager
def serving(store: Path, *flags: str, **variables: str) -> Iterator[Served]:
    """`paceline serve` on a free port, ended as a user would end it; what others measure meanwhile, it cannot see."""
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline", "serve", "--port", "0", "--store", str(store), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PACELINE_HOME": str(store.parent / "home"), **variables},
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = ADDRESS.search(said)
        assert found, said + (process.stderr.read() if process.stderr else "")
        yield Served(process, int(found[1]), found[2])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
