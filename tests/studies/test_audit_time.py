"""An audit takes as long as its file is large: no line, heading or table makes it take the square of that."""

from __future__ import annotations

import contextlib
import cProfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.report.studies import audits
from paceline.studies.audit import audit
from paceline.studies.audit.rules.all_rules import judge
from paceline.studies.audit.text.reading import read_markdown
from paceline.system.errors import UserError

HEAD = "framework,gpus,batch,images/s,s/epoch,training time (s),epochs,accuracy,memory (MiB)\n"
TABLE = "\n\n| gpus | images/s |\n|---|---|\n| 1 | 10 |\n"


def audited(text: str, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"large{suffix}"
        path.write_text(text, encoding="utf-8")
        with contextlib.suppress(UserError):  # a limit that is stated is an answer
            audits.FORMATS["text"](audit(str(path)))


def seconds(text: str, suffix: str = ".md") -> float:
    """Of this process, since the machine may have other things to do."""
    start = time.process_time()
    audited(text, suffix)
    return time.process_time() - start


def rows(count: int, setting: str, devices: str) -> str:
    made = [
        f"{setting.format(i)},{devices.format(1 + i, 2 ** (i % 4))},64,{100 + i % 7},{50000 / (100 + i % 7):.1f},"
        f"{500000 / (100 + i % 7):.1f},10,0.9,{5000 + i}\n"
        for i in range(count)
    ]
    return HEAD + "".join(made)


def grid(count: int, line: str, headings: str = "framework|gpus|images/s") -> str:
    head = f"|{headings}|\n|{'---|' * (headings.count('|') + 1)}\n"
    return head + "".join(line.format(i, 1 + i % 2, "AB"[i % 2], i // 2) + "\n" for i in range(count))


def matrix(labels: list[str], cells: str = "1") -> str:
    return f"### Time\n| |{'|'.join(labels)}|\n|{'---|' * (len(labels) + 1)}\n|A|{'|'.join([cells] * len(labels))}|\n"


def lines(count: int, line: str) -> str:
    return "".join(line.format(i, i + 1) + "\n" for i in range(count)) + "\n"


CSV: dict[str, Callable[[int], str]] = {
    "many settings": lambda count: rows(count, "f{}", "{1}"),
    "one setting on ever more devices": lambda count: rows(count, "f", "{0}"),
    "one setting again and again": lambda count: rows(count, "f", "{1}"),
    "plain": lambda count: "a,b,c,d\n" + "12345,hello,3.25,999\n" * count,
    "speed-ups over many single devices": lambda count: (
        "framework,gpus,images/s,speed-up\n" + "a,1,100,1\na,2,190,1.9\n" * (count // 2)
    ),
    "a wide head": lambda count: f"{','.join(f'c{i}' for i in range(19_000))}\n" + "1,2\n" * count,
}
NAMED = "framework|card|time (s)"  # rows that a ratio may be about
PAGES: dict[str, Callable[[int], str]] = {
    "plain": lambda count: grid(count, "|A|{1}|100|"),
    "an order": lambda count: "A's multi gpu slower than single\n\n" + grid(count, "|A|{1}|1{0}|"),
    "orders": lambda count: lines(count, "A's speed {0}GPU > {1}GPU") + grid(count, "|A|{0}|1{0}|"),
    "one order again and again": lambda count: (
        lines(count, "A's multi gpu slower than single") + grid(count, "|A|{1}|1{0}|")
    ),
    "a ratio": lambda count: "A is 2x faster than B\n\n" + grid(count, "|{2}|card{3}|1{0}|", NAMED),
    "ratios": lambda count: lines(count, "A is {0}.5x faster than B") + grid(count, "|{2}|card{3}|1{0}|", NAMED),
    "ratios of many": lambda count: (
        lines(count, "f{0} is 2x faster than A") + grid(count, "|{2}|card{3}|1{0}|", NAMED).replace("|B|", "|f7|")
    ),
    "logs": lambda count: (
        matrix([f"a{i} + b" for i in range(count)])
        + "## A\n"
        + lines(count, "### a{0} + b\n```\nrun.py --gpus 0,1\nreal 0m1.0s\n```")
    ),
    "one log again and again": lambda count: (
        matrix(["a + b"] * count) + "## A\n" + lines(count, "### a + b\n```\nrun.py\nreal 0m1.0s\n```")
    ),
    "programs": lambda count: lines(count, "## f{0}\n### a + b\n```\nrun{0}.py\n```\n```\nrun{0}.py\n```"),
    "tables": lambda count: lines(count, "## t{0}\n|gpus|images/s|\n|---|---|\n|1|{0}|\n"),
    "a long title": lambda count: f"## {'a' * 1_000_000}\n" + grid(count, "|A|{1}|100|"),
    "long titles of logs": lambda count: (
        f"## {'a' * 500_000}\n### A + {'b' * 500_000}\n" + "```\nrun.py\nreal 0m1.0s\n```\n" * count
    ),
    "a long first cell": lambda count: matrix([f"a{i}" for i in range(count)]).replace("|A|", f"|{'A' * 500_000}|"),
    "a long first cell of rows": lambda count: grid(
        1, f"|{'A' * 500_000}|{'|'.join(['1'] * count)}|", f"gpus{'|images/s' * count}"
    ),
    "a wide head of devices": lambda count: (
        f"### Time\n|gpus|{'|'.join(f'a{i}' for i in range(count))}|\n|{'---|' * (count + 1)}\n" + "|1|2|\n" * count
    ),
    "a head that is turned": lambda count: (
        f"|{'|'.join(['a'] * count)}|\n|{'---|' * count}\n" + "|images/s|1|\n" * count
    ),
}
LARGE = {
    **{f"CSV, {name}": (".csv", made) for name, made in CSV.items()},
    **{f"Markdown, {name}": (".md", made) for name, made in PAGES.items()},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_file_of_10000_rows_takes_three_seconds(name: str) -> None:
    suffix, made = LARGE[name]
    assert seconds(made(10_000), suffix) < 3


def calls(text: str, suffix: str) -> int:
    """Of functions, also of those in C: work that can be counted, however busy the machine is."""
    profile = cProfile.Profile()
    profile.runcall(audited, text, suffix)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_four_times_as_many_rows_take_four_times_the_work(name: str) -> None:
    suffix, made = LARGE[name]
    once, often = (calls(made(count), suffix) for count in (500, 2_000))
    assert often < 4.5 * once  # it is 4 at the most; a square would be 16


PIECES = [
    "a",
    "1",
    "a ",
    "1 ",
    "time ",
    "accuracy ",
    "-",
    "|",
    " ",
    "x(",
    "1+",
    "a+",
    "a + ",
    "5 gpu > ",
    "faster than ",
]
PIECES += [
    "top 1 ",
    "a is faster than b ",
    "a is 2x faster than b ",
    "`",
    "*",
    "1,",
    "(1-",
    "1x",
    "p3.",
    "3.",
    "epochs ",
]
PIECES += [
    "'s ",
    "memory efficient than ",
    "#",
    "p3.8xlarge ",
    "MB ",
    "run.p",
    "--gpus 1,",
    "real 0m",
    "](",
    "https://",
]
PLACES = {
    "prose": "{0}" + TABLE,
    "a heading": "# {0}" + TABLE,
    "cells": "| {0} | images/s |\n|---|---|\n| {0} | 10 |\n",
    "a cell of figures": "| gpus | images/s |\n|---|---|\n| 1 | {0} |\n",
    "cells of a matrix": "### Time\n| | 1 GPU |\n|---|---|\n| {0} | {0} |\n",
    "code": "```\n{0}\n```" + TABLE,
    "a command": "### A + B\n```\n{0}\n```\n",
    "a log": "### A + B\n```\nrun\npeak memory {0}\nreal {0}\n```\n",
    "a heading of devices": "### {0} + B\n```\nrun.py\nreal 0m1.0s\n```\n",
    "a claim": "A is 2x faster than B, {0}\n\n### Time\n| | 1 |\n|---|---|\n| A | 1 |\n| B | 9 |\n",
}


SEARCHED = ("a heading", "a command", "a log")  # as a whole; a heading is read as prose as well
FEW = ["a", "1 ", "a + ", "p3.8xlarge "]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "piece"), [(place, piece) for place in PLACES for piece in FEW])
def test_line_of_a_megabyte_takes_five_seconds(place: str, piece: str) -> None:
    assert seconds(PLACES[place].format(piece * (1_000_000 // len(piece)))) < 5


@pytest.mark.slow
@pytest.mark.parametrize(("place", "piece"), [(place, piece) for place in SEARCHED for piece in PIECES])
def test_line_of_a_quarter_of_it_takes_moments(place: str, piece: str) -> None:
    """A sixteenth, if it were the square of its length: less than a tenth of a second is usual."""
    assert seconds(PLACES[place].format(piece * (250_000 // len(piece)))) < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("piece", [*FEW, "1,", '"'])
def test_line_of_a_megabyte_in_a_csv_file_takes_five_seconds(piece: str) -> None:
    line = piece * (1_000_000 // len(piece))
    for text in (f"{line}\n1,2\n", f"gpus,images/s\n1,{line}\n", f'gpus,images/s\n1,"{line}"\n'):
        assert seconds(text, ".csv") < 5


def test_finding_about_a_long_line_is_short() -> None:
    page = PLACES["a claim"].format("x" * 1_000_000)
    (found,) = [each for each in judge(read_markdown("page.md", page)).verdicts if each and each.rule == "claim"]
    assert len(found.where) < 400


@pytest.mark.slow
@pytest.mark.parametrize("heading", ["c{}", "time{}", "GPU ({})", "{}"])
def test_too_many_columns_are_a_limit_that_is_stated(heading: str) -> None:
    headings = [heading.format(i) for i in range(100_000)]
    page = f"### Time\n| |{'|'.join(headings)}|\n|{'---|' * 100_001}\n|images/s|{'|'.join(['1'] * 100_000)}|\n"
    start = time.process_time()
    with pytest.raises(UserError, match="more than 20,000 cells"):
        read_markdown("page.md", page)
    assert time.process_time() - start < 5


@pytest.mark.slow
@pytest.mark.parametrize("heading", ["c{}", "time{}", "GPU ({})", "{}"])
def test_as_many_columns_as_are_allowed_take_seconds(heading: str) -> None:
    headings = [heading.format(i) for i in range(19_000)]
    page = f"### Time\n| |{'|'.join(headings)}|\n|{'---|' * 19_001}\n|images/s|{'|'.join(['1'] * 19_000)}|\n"
    assert seconds(page) < 5


def test_file_that_is_too_large_is_a_users_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.studies.audit.text.reading.LARGEST", 1_000_000)
    (tmp_path / "large.csv").write_text("a,b\n" + "1,2\n" * 300_000)
    with pytest.raises(UserError, match="more than 1,000,000 bytes"):
        audit(str(tmp_path / "large.csv"))
