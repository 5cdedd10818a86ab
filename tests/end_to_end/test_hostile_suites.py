"""A suite that is no suite is refused in one short line, soon and in little memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.plan.settings import BOUNDS
from paceline.plan.suite import load_suite
from paceline.system.errors import UserError

NUMBERS = list(BOUNDS)
DIGITS = "9" * 5000


def refused(path: Path) -> str:
    with pytest.raises(UserError) as error:
        load_suite(path, {})
    line = str(error.value)
    assert "\n" not in line
    assert len(line) < 400 + len(str(path))
    return line


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "x.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("number", [DIGITS, f"0x{DIGITS}", "9" * 4000, f"1e{DIGITS}", "nan", "-inf", "1e400"])
@pytest.mark.parametrize("key", NUMBERS)
def test_endless_number_is_refused(tmp_path: Path, key: str, number: str) -> None:
    refused(written(tmp_path, f'workload = "cifar10-conv"\n{key} = {number}\n'))


def test_endless_number_is_named(tmp_path: Path) -> None:
    assert "a whole number of more than 4,300 digits" in refused(written(tmp_path, f"steps = {DIGITS}"))


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 20_000,
        "a = " + "{a=" * 20_000,
        "[" + "a." * 20_000 + "a]",
        ".".join("a" * 50_000) + " = 1",
        ". ".join(["'a'"] * 30_000) + " = 1",
        '. "a#" . '.join(["'a'"] * 10_000) + " = 1",
        "x = {" + ", ".join(f"{'b.' * 3000}c{n} = 1" for n in range(10)) + "}",
    ],
    ids=["arrays", "tables", "heading", "dotted key", "quoted keys", "quoted with sign", "in a table"],
)
def test_deep_nesting_is_refused_in_little_memory(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    program = (
        f"from paceline.plan.suite import load_suite; from pathlib import Path; load_suite(Path({str(path)!r}), {{}})"
    )
    ended = subprocess.run(
        ["prlimit", f"--as={600 << 20}", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stderr.splitlines()[-1].startswith(f"paceline.system.errors.UserError: {path} is nested too deeply"), (
        ended.stderr[-300:]
    )


def test_dots_and_brackets_in_words_are_no_nesting(tmp_path: Path) -> None:
    dots, brackets = "." * 100, "[" * 100
    text = f'# {dots}{brackets}\nworkload = \'cifar10-conv\' # {dots}\nname = "a\\"{dots}{brackets}"\n'
    assert load_suite(written(tmp_path, text), {}).name == f'a"{dots}{brackets}'
    text = f"workload = 'cifar10-conv'\nname = '''\n{dots}'\n{brackets}'''\n"
    assert load_suite(written(tmp_path, text), {}).name == f"{dots}'\n{brackets}"


def test_large_file_is_refused_unread(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    assert refused(path) == f"{path} is no suite: it has more than 262,144 bytes."


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to a device", "broken link", "no text", "not UTF-8", "empty"])
def test_what_is_no_file_of_text_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.toml"
    made: dict[str, Callable[[], object]] = {
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "link to a device": lambda: path.symlink_to("/dev/zero"),
        "broken link": lambda: path.symlink_to("nowhere"),
        "no text": lambda: path.write_bytes(bytes(range(256)) * 100),
        "not UTF-8": lambda: path.write_bytes(b"name = '\xff\xfe'"),
        "empty": path.touch,
    }
    made[kind]()
    refused(path)


def test_link_to_a_suite_is_a_suite(tmp_path: Path) -> None:
    written(tmp_path, "workload = 'cifar10-conv'")
    (tmp_path / "link.toml").symlink_to("x.toml")
    assert load_suite(tmp_path / "link.toml", {}).workload == ("cifar10-conv",)


@pytest.mark.parametrize(
    "text",
    [
        "framework = '{}'",
        "{} = 1",
        "single = '{}'",
        "evaluate = '{}'",
        "layout = '{}'",
        "shares = '{}'",
        "slow = '{}'",
        "devices = '{}'",
        "workload = '{}'",
        "[[part]]\nlr_rule = '{}'",
        "batch_size = '{}'",
        "[quick.{}]\na=1",
    ],
)
def test_long_value_is_cut_in_the_message(tmp_path: Path, text: str) -> None:
    refused(written(tmp_path, text.format("x" * 200_000)))


@pytest.mark.parametrize("text", ["'''\x01'''", "a = '\x1b[31m'", "'\u202eabc' = 1", "\u202e = 1", "single = '\u202e'"])
def test_message_steers_no_terminal(tmp_path: Path, text: str) -> None:
    assert refused(written(tmp_path, text)).isprintable()
