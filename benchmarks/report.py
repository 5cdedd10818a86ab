"""Whether a report stays quick with thousands of runs: making it, opening it, and the first page of the server.

`python -m benchmarks.report` exits with 1 if a target is missed; a noisy machine makes it "cannot tell", not missed.
Without `--store` it makes a store of runs of the `fake` framework first (see benchmarks/many_runs.py). Every round has
fresh processes of `paceline`. A browser is needed for the pages; where there is none, that is said.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.comparison import Target, exit_code, verdict_line, with_interval
from benchmarks.many_runs import RUNS, many_runs
from benchmarks.overhead import show_table
from paceline.analysis.findings import findings
from paceline.analysis.rows.table_rows import table_rows
from paceline.analysis.statistics.intervals import Estimate, estimate
from paceline.report.tables.columns import tables
from paceline.report.tables.sentences import sentences
from paceline.run.launchers import held_port
from paceline.store.index.file import INDEX_FILE
from paceline.store.store import Store
from paceline.system.errors import UserError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REPORT_SECONDS_LIMIT = 5.0
REPORT_MEGABYTES_LIMIT = 8.0
FIRST_VIEW_SECONDS_LIMIT = 1.0
MEGABYTE = 10**6
START_SECONDS = 30.0  # for the server to listen
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAINTED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass(frozen=True)
class Visit:
    """A page in a browser."""

    seconds: float  # until it was loaded and its first table was painted
    errors: tuple[str, ...]  # in its console


@dataclass(frozen=True)
class Round:
    report_seconds: float
    report_bytes: int
    answer_seconds: float  # of the server, from the first request to the whole page
    visits: dict[str, Visit]  # by page


def main() -> int:
    options = arguments()
    try:
        with store_of(options) as folder, browser() as chromium:
            rounds = [measure(folder, chromium) for _ in range(options.rounds)]
            show_parts(folder, options.rounds)
    except UserError as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    show_visits(rounds)
    found = targets(rounds)
    for target in found:
        print(verdict_line(target))
    show_errors(rounds)
    return exit_code(found)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="in the store that is made")
    parser.add_argument("--store", type=Path, help="take this one instead")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


@contextlib.contextmanager
def store_of(options: argparse.Namespace) -> Iterator[Path]:
    """The given store, or one that is gone afterwards."""
    if options.store:
        Store(options.store).query("SELECT 1 FROM run LIMIT 1")  # an index of another version is made anew, once
        yield options.store
        return
    with tempfile.TemporaryDirectory() as folder:
        seconds = timed(lambda: many_runs(Path(folder) / "store", options.runs))
        print(f"a store of {options.runs} runs, made in {seconds:.0f} s")
        yield Path(folder) / "store"


@contextlib.contextmanager
def browser() -> Iterator[Browser | None]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print("no Chromium here: pages are made and not looked at")
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def measure(store: Path, chromium: Browser | None) -> Round:
    """Make the report, open it, start a server and look at its first page."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        report_seconds = timed(lambda: paceline("report", "-o", str(page), "--store", str(store)))
        visits = {"the report": visit(chromium, page.as_uri())} if chromium else {}
        report_bytes = page.stat().st_size
    with served(store) as address:
        answer_seconds = timed(partial(read, address))
    if chromium:
        with served(store) as address:  # a fresh one, which has not yet answered anybody
            visits["the served page"] = visit(chromium, address)
    return Round(report_seconds, report_bytes, answer_seconds, visits)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def paceline(*words: str) -> None:
    """A fresh process; what it prints is of no interest unless it fails."""
    done = subprocess.run([program(), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"`paceline {' '.join(words)}` ended with {done.returncode}: {done.stderr.strip()[-300:]}")


def program() -> str:
    return str(Path(sys.executable).with_name("paceline"))


@contextlib.contextmanager
def served(store: Path) -> Iterator[str]:
    """The address of a server that has just begun to listen."""
    with held_port() as port:
        words = [program(), "serve", "--port", str(port), "--store", str(store)]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(port, server)
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()
            server.wait()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise UserError(f"`paceline serve` does not listen on port {port}.")


def read(address: str) -> bytes:
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - our own server's address
        content: bytes = answer.read()
    return content


def visit(chromium: Browser, address: str) -> Visit:
    page, errors = chromium.new_page(), list[str]()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    start = time.perf_counter()
    page.goto(address, wait_until="load")
    page.locator("table").first.wait_for(state="visible")
    page.evaluate(PAINTED)
    seconds = time.perf_counter() - start
    page.close()
    return Visit(seconds, tuple(errors))


def targets(rounds: Sequence[Round]) -> list[Target]:
    served = [each.visits["the served page"].seconds for each in rounds if each.visits]
    found = [
        Target("paceline report, s", estimate([each.report_seconds for each in rounds]), REPORT_SECONDS_LIMIT),
        Target("its size, MB", size([each.report_bytes for each in rounds]), REPORT_MEGABYTES_LIMIT),
        Target(
            "first answer of paceline serve, s",
            estimate([each.answer_seconds for each in rounds]),
            FIRST_VIEW_SECONDS_LIMIT,
        ),
    ]
    if not served:
        return found
    errors = float(sum(len(seen.errors) for each in rounds for seen in each.visits.values()))
    return [
        *found,
        Target("its first view in a browser, s", estimate(served), FIRST_VIEW_SECONDS_LIMIT),
        Target("errors in the browser's console", Estimate(errors, errors, errors), 1),
    ]


def size(found: Sequence[int]) -> Estimate:
    """The largest: there is no chance in it."""
    largest = max(found) / MEGABYTE
    return Estimate(largest, largest, largest)


def show_parts(folder: Path, rounds: int) -> None:
    """Where the time goes: parts by themselves, in this process or as commands of their own."""
    rows = table_rows(Store(folder), {}, everything=True)  # once before the clock: the first also imports
    runs = Store(folder).query("SELECT COUNT(*) AS count FROM run")[0]["count"]
    parts: dict[str, Callable[[], object]] = {
        f"rows of all {len(rows)} cells": lambda: table_rows(Store(folder), {}, everything=True),
        f"findings of all {len(tables(rows))} tables": lambda: [
            sentences(findings(table)) for _, table in tables(rows)
        ],
        "paceline show": lambda: paceline("show", "--store", str(folder)),
    }
    lines = [[name, with_interval(estimate([timed(work) for _ in range(rounds)]))] for name, work in parts.items()]
    megabytes = (folder / INDEX_FILE).stat().st_size / MEGABYTE
    lines.append(["paceline index", f"{timed(lambda: paceline('index', '--store', str(folder))):.3f}"])
    show_table(["part", "s (95 %)"], lines, f"{runs} runs; the index has {megabytes:.1f} MB.")


def show_visits(rounds: Sequence[Round]) -> None:
    pages = dict.fromkeys(page for each in rounds for page in each.visits)
    lines = [[page, with_interval(estimate([each.visits[page].seconds for each in rounds]))] for page in pages]
    if lines:
        show_table(["in a browser", "s (95 %)"], lines, "Until the page was loaded and its first table was painted.")


def show_errors(rounds: Sequence[Round]) -> None:
    said = dict.fromkeys(
        (page, error) for each in rounds for page, seen in each.visits.items() for error in seen.errors
    )
    for page, error in said:
        print(f"{page}: {error}")


if __name__ == "__main__":
    sys.exit(main())
