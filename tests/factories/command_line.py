"""Drives the real `paceline` command with results in a place of its own: in this process, or in one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

from paceline.cli import main
from paceline.store import newer_records
from paceline.system.processes import RUN_VARIABLE


@dataclass(frozen=True)
class CommandLine:
    """`paceline` with `--store` in a test's own folder; environments are those of the machine."""

    store: Path

    def arguments(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "paceline", *words, "--store", str(self.store)]

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return here(*words, "--store", str(self.store))

    def apart(self, *words: str, limit_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
        """In a process of its own, where what the process itself does or meets is looked at."""
        limit = ["prlimit", f"--as={limit_bytes}"] if limit_bytes else []
        return subprocess.run(
            [*limit, *self.arguments(*words)], capture_output=True, text=True, timeout=300, check=False
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self.arguments(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def rows(self, *words: str) -> list[dict[str, Any]]:
        shown = self("show", "--format", "json", *words)
        assert shown.returncode == 0, shown.stderr
        rows: list[dict[str, Any]] = json.loads(shown.stdout)
        return rows

    def outcomes(self) -> list[Path]:
        """Runs that came to an end."""
        return sorted(self.store.glob("runs/*/outcome.json"))

    def events(self) -> list[dict[str, Any]]:
        """All events so far, of all runs and ranks."""
        paths = sorted(self.store.glob("runs/*/events-*.jsonl"))
        lines = [line for path in paths for line in path.read_text().splitlines()]
        return [json.loads(line) for line in lines]

    def of_kind(self, run_id: str, kind: str) -> list[list[dict[str, Any]]]:
        """The events of this kind of each rank of a run."""
        paths = sorted((self.store / "runs" / run_id).glob("events-*.jsonl"))
        ranks = [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]
        return [[event for event in rank if event["event"] == kind] for rank in ranks]

    def trained(self, run_id: str) -> list[list[dict[str, Any]]]:
        """Each rank's blocks of measured training."""
        return [[block for block in rank if block["phase"] == "train"] for rank in self.of_kind(run_id, "block")]

    def fastest_step(self, run_ids: Iterable[str]) -> float:
        """Seconds of a step in the best block of all runs, where the slowest rank counts: what noise added least to."""
        blocks = [block for run_id in run_ids for block in zip(*self.trained(run_id), strict=True)]
        return min(float(max(rank["seconds"] for rank in ranks) / ranks[0]["steps"]) for ranks in blocks)

    def processes(self) -> list[psutil.Process]:
        """Live processes of any run in this store."""
        runs = {path.name for path in self.store.glob("runs/*")}
        return [process for process in psutil.process_iter() if _run_of(process) in runs]


def here(*words: str) -> subprocess.CompletedProcess[str]:
    """`paceline` in this process, which saves the start of another; nothing of it stays but what it wrote."""
    with (
        mock.patch.object(sys, "argv", ["paceline", *words]),
        mock.patch.dict(os.environ),
        contextlib.redirect_stdout(_captured()) as out,
        contextlib.redirect_stderr(_captured()) as err,
        warnings.catch_warnings(),
        pytest.raises(SystemExit) as end,
    ):
        newer_records._say.cache_clear()  # what a process says once, the next one says again
        warnings.simplefilter("ignore", UserWarning)  # cyclopts sees pytest, and wonders about the command line
        main()
    return subprocess.CompletedProcess(words, int(end.value.code or 0), _text(out), _text(err))


def _captured() -> io.TextIOWrapper:
    """What a pipe is to a process: text that may be written as bytes, too."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(captured: io.TextIOWrapper) -> str:
    captured.seek(0)
    return captured.read()


def _run_of(process: psutil.Process) -> str | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.environ().get(RUN_VARIABLE)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def wait_until(true: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def send(pid: int, number: signal.Signals) -> None:
    os.kill(pid, number)
