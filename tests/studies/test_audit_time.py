"""An audit takes as long as its file is large: no line, heading or table makes it take the square of that."""

from __future__ import annotations

import contextlib
import cProfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from paceline.studies.audit import audit
from paceline.studies.audit.printed_rows import Document
from paceline.studies.audit.rules.all_rules import judge
from paceline.studies.audit.text.reading import read_csv, read_markdown
from paceline.system.errors import UserError

HEAD = "framework,gpus,batch,images/s,s/epoch,training time (s),epochs,accuracy,memory (MiB)\n"
TABLE = "\n\n| gpus | images/s |\n|---|---|\n| 1 | 10 |\n"


def seconds(read: Callable[[], Document]) -> float:
    """Of this process, since the machine may have other things to do."""
    start = time.process_time()
    with contextlib.suppress(UserError):  # a limit that is stated is an answer
        judge(read())
    return time.process_time() - start


def rows(count: int, setting: str, devices: str) -> str:
    made = [
        f"{setting.format(i)},{devices.format(1 + i, 2 ** (i % 4))},64,{100 + i % 7},{50000 / (100 + i % 7):.1f},"
        f"{500000 / (100 + i % 7):.1f},10,0.9,{5000 + i}\n"
        for i in range(count)
    ]
    return HEAD + "".join(made)


LARGE: dict[str, Callable[[int], str]] = {
    "many settings": lambda count: rows(count, "f{}", "{1}"),
    "one setting on ever more devices": lambda count: rows(count, "f", "{0}"),
    "one setting again and again": lambda count: rows(count, "f", "{1}"),
    "plain": lambda count: "a,b,c,d\n" + "12345,hello,3.25,999\n" * count,
}


@pytest.mark.parametrize("name", LARGE)
def test_file_of_10000_rows_takes_seconds(name: str) -> None:
    text = LARGE[name](10_000)
    assert seconds(lambda: read_csv("large.csv", text)) < 10  # 0.2 to 3 s


def calls(read: Callable[[], Document]) -> int:
    """Of functions, also of those in C: work that can be counted, however busy the machine is."""
    profile = cProfile.Profile()
    profile.runcall(seconds, read)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_four_times_as_many_rows_take_four_times_the_work(name: str) -> None:
    small, large = LARGE[name](1_000), LARGE[name](4_000)
    once, often = (calls(partial(read_csv, "a.csv", text)) for text in (small, large))
    assert often < 5 * once  # a square would be 16


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
    "5 gpu > ",
    "faster than ",
    "top 1 ",
]
PIECES += [
    "a is faster than b ",
    "`",
    "*",
    "1,",
    "(1-",
    "1x",
    "p3.",
    "3.",
    "epochs ",
    "'s ",
    "memory efficient than ",
    "#",
]


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_line_of_a_quarter_megabyte_takes_moments(piece: str) -> None:
    """The square of that would be a minute."""
    line = piece * (250_000 // len(piece))
    for text in (f"{line}{TABLE}", f"# {line}{TABLE}", f"| {line} | images/s |\n|---|---|\n| {line} | 10 |\n"):
        assert seconds(partial(read_markdown, "page.md", text)) < 2
    for text in (f"```\n{line}\n```{TABLE}", f"### A + B\n```\nrun\npeak memory {line}\nreal {line}\n```\n"):
        assert seconds(partial(read_markdown, "page.md", text)) < 2


@pytest.mark.parametrize("heading", ["c{}", "time{}", "GPU ({})", "{}"])
def test_too_many_columns_are_a_limit_that_is_stated(heading: str) -> None:
    headings = [heading.format(i) for i in range(100_000)]
    page = f"### Time\n| |{'|'.join(headings)}|\n|{'---|' * 100_001}\n|images/s|{'|'.join(['1'] * 100_000)}|\n"
    start = time.process_time()
    with pytest.raises(UserError, match="more than 20,000 cells"):
        read_markdown("page.md", page)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("heading", ["c{}", "time{}", "GPU ({})", "{}"])
def test_as_many_columns_as_are_allowed_take_seconds(heading: str) -> None:
    headings = [heading.format(i) for i in range(19_000)]
    page = f"### Time\n| |{'|'.join(headings)}|\n|{'---|' * 19_001}\n|images/s|{'|'.join(['1'] * 19_000)}|\n"
    assert seconds(lambda: read_markdown("page.md", page)) < 5


def test_file_that_is_too_large_is_a_users_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.studies.audit.text.reading.LARGEST", 1_000_000)
    (tmp_path / "large.csv").write_text("a,b\n" + "1,2\n" * 300_000)
    with pytest.raises(UserError, match="more than 1 MB"):
        audit(str(tmp_path / "large.csv"))
