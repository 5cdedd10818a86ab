"""Asks a served store for what no browser would ask, over plain sockets."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psutil

from tests.bundles.made import FIRST
from tests.factories.server import serving
from tests.fuzz import children, nasty

PATHS = ("/", "/results", "/runs", f"/runs/{FIRST}", f"/runs/{FIRST}/log", "/compare", "/plans/x", "/static/style.css")
NAMES = (
    *("suite", "workload", "framework", "devices", "data", "target", "layout", "old", "new", "metric", "threshold"),
    *("status", "page", "start", "from", "tail", "token", "form", "table"),
)
HEADERS = ("Range", "Host", "Content-Length", "Transfer-Encoding", "Cookie", "If-None-Match", "Accept", "X" * 5000)
END, CLOSES = b"\r\n\r\n", b"\r\nconnection: close\r\n"
METHODS = (*("GET",) * 15, "HEAD", "POST", "PUT", "TRACE", "get", "G\x00T", "", "CONNECT")


def requests(draw: random.Random, store: Path, count: int, counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """What was asked, and what was wrong with the answer; nothing where nothing was. Answers are counted by status."""
    before = children.tree(store)
    with serving(store) as served:
        for _ in range(count):
            asked = _request(draw)
            answer = judged(served.port, asked)
            counts[_status(answer)] += 1
            for fault in _faults(asked, answer):
                yield f"requests: {asked[:200]!r}", fault
        used = psutil.Process(served.process.pid).memory_info().rss
        if used > children.MOST_BYTES:
            yield "requests", f"the server has {used >> 20} MiB"
        if served.ask("/").status != 200:
            yield "requests", "the server does not answer any more"
    if children.tree(store) != before:
        yield "requests", "the store was changed"


def _request(draw: random.Random) -> bytes:
    path = draw.choice(PATHS)
    if draw.random() < 0.3:
        path += draw.choice(("/", "/..", "/%2e%2e/%2e%2e", "%00", "//", "/" + quote(nasty.word(draw)[:3000])))
    pairs = [f"{draw.choice(NAMES)}={quote(nasty.word(draw)[:3000])}" for _ in range(draw.choice((0, 1, 3)))]
    target = f"{path}{'?' if pairs else ''}{'&'.join(pairs)}"
    headers = {"Host": "127.0.0.1", "Connection": "close"}
    if draw.random() < 0.4:
        headers[draw.choice(HEADERS)] = nasty.word(draw)[:20_000]
    if draw.random() < 0.2:
        headers["Range"] = draw.choice(("bytes=0-", "bytes=-5", "bytes=9-1", "bytes=" + "9" * 400 + "-", "lines=1-2"))
    lines = [f"{draw.choice(METHODS)} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    request = "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n"
    return nasty.changed_bytes(request, draw) if draw.random() < 0.15 else request


def judged(port: int, asked: bytes) -> bytes | None:
    """The whole answer, or none in time; asked a second time, as in `children`."""
    answer = _answer(port, asked)
    return _answer(port, asked) if answer is None else answer


def _answer(port: int, asked: bytes) -> bytes | None:
    """What comes until the server closes; empty is right only for what is no whole request.

    The server drops what it has not answered when we close our side, so that happens only where it waits for more: of a
    request without an end, or for the next one.
    """
    end, answer = time.monotonic() + children.MOST_SECONDS, b""
    try:
        with contextlib.suppress(ConnectionError), _connected(port) as client:
            client.sendall(asked)
            if END not in asked:
                client.shutdown(socket.SHUT_WR)
            while len(answer) < 1 << 20 and (piece := client.recv(65536)):
                if not answer and CLOSES not in piece.lower():
                    client.shutdown(socket.SHUT_WR)
                answer += piece
                client.settimeout(max(0.001, end - time.monotonic()))
    except TimeoutError:
        return None
    return answer


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=children.MOST_SECONDS)


def _status(answer: bytes | None) -> str:
    if answer is None:
        return "no end"
    return f"status {answer[9:12].decode('ascii', 'replace')}" if answer.startswith(b"HTTP/1.") else "no answer"


def _faults(asked: bytes, answer: bytes | None) -> Iterator[str]:
    if answer is None:
        yield f"no whole answer within {children.MOST_SECONDS} s"
    elif END in asked and not answer:
        yield "no answer"
    elif answer.startswith(b"HTTP/1.1 5"):
        yield f"answered {answer[:40]!r}"
    elif b"Traceback" in answer or b"root:x:0" in answer:
        yield "told what is nobody's business"
