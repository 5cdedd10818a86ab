"""Few repeats are said to show little before they are measured."""

from __future__ import annotations

import pytest

from paceline.plan.repeats_warning import few_repeats_warning
from paceline.plan.requested_suites import read_suite
from tests.factories.command_line import CommandLine

FAKE = ("cifar10-conv", "--framework", "fake", "--steps", "2", "--warmup", "0", "--batch-size", "8")
TWO = (
    "paceline: 2 repeats show failures and large differences only: with equal scatter their 95 % interval is 8 times "
    "as wide as that of 5, so that most cells come out noisy; add --repeats 5\n"
)
ONE = "paceline: 1 repeat has no interval, so that nothing can be told about differences; add --repeats 5\n"


@pytest.mark.parametrize(("command", "repeats", "said"), [("plan", "1", ONE), ("run", "2", TWO)])
def test_few_repeats_are_warned_of_before_they_are_measured(
    paceline: CommandLine, command: str, repeats: str, said: str
) -> None:
    ended = paceline(command, *FAKE, "--repeats", repeats)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.startswith(said)
    assert ended.stderr.count("--repeats") == 1


def test_commands_are_warned_of_likewise(paceline: CommandLine) -> None:
    ended = paceline("time", "--repeats", "2", "--name", "nothing", "true")
    assert ended.stderr.startswith(TWO)


def test_nothing_is_said_where_nothing_is_left_to_measure(paceline: CommandLine) -> None:
    paceline("run", *FAKE, "--repeats", "1")
    assert "paceline: " not in paceline("plan", *FAKE, "--repeats", "1").stderr


@pytest.mark.parametrize(
    ("what", "settings", "warned"),
    [
        ("cifar10-conv", {"repeats": 3}, False),
        ("cifar10-conv", {"repeats": 2, "interval_target": 0.1}, False),  # it adds rounds
        ("cifar10-conv", {}, False),
        ("demo", {}, False),
        ("tensorpack-vs-tf", {"quick": True}, False),  # a small form shows that it works, and says so
        ("tensorpack-vs-tf", {"quick": True, "repeats": 2}, True),
        ("demo", {"repeats": 1}, True),
    ],
)
def test_only_who_asks_for_few_repeats_is_warned(what: str, settings: dict[str, object], warned: bool) -> None:
    assert bool(few_repeats_warning(read_suite([what], settings), settings)) == warned
