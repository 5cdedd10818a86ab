"""What several test files share."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from paceline.catalog import datasets
from paceline.system import machine_lock
from tests.factories.command_line import CommandLine
from tests.factories.own_home import own_dataset, own_home

hypothesis.settings.register_profile("shared machine", deadline=None)  # a slow moment is no failure
hypothesis.settings.load_profile("shared machine")
# A shell's background jobs ignore Ctrl-C, and so would all that they start: tests interrupt programs.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Before any test file is imported, since some look at this machine."""
    if not hasattr(config, "workerinput"):  # xdist's workers inherit what their parent has set
        opened = contextlib.ExitStack()
        opened.enter_context(own_home())
        config.add_cleanup(opened.close)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around the choice of tests by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """What needs the data set is slow, since a machine without it has to download it first."""
    for item in items:
        if "cifar10" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
    yield
    if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
        items[:] = long_ones_first(items, int(workers))


def long_ones_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """In the equal part of all tests that each worker begins with, and of which others take over what it has left.

    Else one would still be busy with its last test when the others are idle.
    """
    long = [item for item in items if is_long(item)]
    short = [item for item in items if not is_long(item)]
    return [item for part in range(workers) for some in (long, short) for item in _part(some, part, workers)]


def is_long(item: pytest.Item) -> bool:
    return any(item.iter_markers("real")) or any(item.iter_markers("slow"))


def _part(items: list[pytest.Item], part: int, parts: int) -> list[pytest.Item]:
    return items[len(items) * part // parts : len(items) * (part + 1) // parts]


@pytest.fixture(scope="session", autouse=True)
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither wait for a measurement of this machine nor refuse one; they check behaviour, not speed."""
    os.environ[machine_lock.VARIABLE] = str(tmp_path_factory.mktemp("lock") / machine_lock.NAME)
    yield
    del os.environ[machine_lock.VARIABLE]


@pytest.fixture
def paceline(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "store")


@pytest.fixture(scope="session")
def cifar10() -> datasets.PreparedDataset:
    """The real data set, in the home of the tests."""
    return own_dataset("cifar10")
