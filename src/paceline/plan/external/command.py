"""A command that is not ours, and what is to be read from its output."""

from __future__ import annotations

import shlex

import msgspec


class OutputMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A number that lines of the output may hold."""

    name: str
    pattern: str  # its group `value`, or its only group, is the number
    take: str  # of all matches: "median" of those after the first, or the "last"
    percent: str = ""  # "right" or "wrong": the number is percent of the images


class CommandCode(msgspec.Struct, frozen=True, kw_only=True):
    """What a command ran, as far as that is known."""

    files: dict[str, str] = {}  # hashes of its script and of files next to it, by the names that were typed
    commit: str = ""  # of the script's folder; empty where it is in no git repository
    dirty: bool = False  # files that git knows differ from that commit

    @property
    def state(self) -> str:
        """The commit with its mark; empty where it is not known."""
        return f"{self.commit} (dirty)" if self.commit and self.dirty else self.commit

    def __str__(self) -> str:
        files = [f"{name} {digest}" for name, digest in self.files.items()]
        return ", ".join([*files, f"commit {self.state}"] if self.commit else files)


class ExternalCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What a user would type, and where."""

    arguments: tuple[str, ...]
    folder: str
    metrics: tuple[OutputMetric, ...] = ()  # of two with one name, the first that matches counts

    def __str__(self) -> str:
        """As a shell would take it."""
        return shlex.join(self.arguments)
