"""Events of a run as the worker wrote them: typed, checked, and read while the files still grow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from paceline.system.files.regular_files import LINE_BYTES, LINES_BYTES, open_plain


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """What all events have."""

    time: float  # seconds since 1970
    phase: str


class Phase(Event, tag="phase", frozen=True, kw_only=True):
    """A phase begins; some bring facts that are known by then."""

    pid: int | None = None
    python: str | None = None
    settings: dict[str, Any] = {}
    idle_memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    device_peak_bytes: list[int] | None = None


class Block(Event, tag="block", frozen=True, kw_only=True):
    """Some steps from idle devices to idle devices."""

    steps: int
    images: int
    seconds: float
    processor_seconds: float
    losses: list[float | None]
    waited_seconds: float = 0.0  # for real images that were not ready
    involuntary_switches: int | None = None  # how often a thread had to leave its core to another one
    correct: list[int] = []  # images that each step got right, where it is counted
    epoch: int | None = None  # the pass over real data that the steps are part of


class Evaluation(Event, tag="evaluation", frozen=True, kw_only=True):
    """This rank's part of the test images, with the running statistics."""

    steps: int  # of training before it
    images: int
    loss: float | None  # summed
    correct: int
    seconds: float
    epoch: int | None = None  # the last one before it


class Failed(Event, tag="failed", frozen=True, kw_only=True):
    """The worker's own account of an exception."""

    kind: str
    message: str
    traceback: str


class Finished(Event, tag="finished", frozen=True, kw_only=True):
    """The worker came to its end."""


AnyEvent = Phase | Block | Evaluation | Failed | Finished
DECODER = msgspec.json.Decoder(AnyEvent)
FILE_NAME = re.compile(r"events-(0|[1-9]\d{0,3})\.jsonl", re.ASCII)
RUBBISH_LINES = 10  # that are kept: a file may have millions of them, and one is enough to tell
RUBBISH_BYTES = 2**16  # of each
MOST_RUBBISH = 100_000  # lines, or one of so many bytes that it cannot be held: after that reading stops


@dataclass
class EventFile:
    """One rank's events so far; the first lines that are no events are kept as rubbish."""

    path: Path
    events: list[AnyEvent] = field(default_factory=list)
    rubbish: list[bytes] = field(default_factory=list)
    rubbish_count: int = 0
    _position: int = 0

    def read_on(self) -> list[AnyEvent]:
        """What has been written since the last call, whole lines only."""
        fresh = list(self.stream())
        self.events += fresh
        return fresh

    def stream(self) -> Iterator[AnyEvent]:
        """Likewise one by one, and none is kept."""
        try:
            file = open_plain(self.path, LINES_BYTES)
        except FileNotFoundError:
            return
        with file:
            file.seek(self._position)
            for line in self._lines(file):
                if (event := self._decode(line)) is not None:
                    yield event

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        """Whole lines, up to one that is too long to be held or the last, of which more may come."""
        while self.rubbish_count < MOST_RUBBISH and (line := file.readline(LINE_BYTES)):
            if line.endswith(b"\n"):
                self._position += len(line)
                yield line[:-1]
            elif len(line) == LINE_BYTES:
                self._reject(line, MOST_RUBBISH)
            else:
                return

    def _decode(self, line: bytes) -> AnyEvent | None:
        try:
            event: AnyEvent = DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._reject(line)
            return None
        return event

    def _reject(self, line: bytes, count: int = 1) -> None:
        self.rubbish_count += count
        if len(self.rubbish) < RUBBISH_LINES:
            self.rubbish.append(line[:RUBBISH_BYTES])

    @property
    def phase(self) -> str:
        """The phase that the rank is in, or ended in."""
        return self.events[-1].phase if self.events else "start"

    def has(self, kind: type[Event]) -> bool:
        return any(isinstance(event, kind) for event in self.events)

    @property
    def pid(self) -> int | None:
        return next((event.pid for event in self.events if isinstance(event, Phase) and event.pid), None)


def event_paths(folder: Path) -> dict[int, Path]:
    """Of each rank that has left something, in their order; the number is in the name, since some may be missing."""
    named = ((FILE_NAME.fullmatch(path.name), path) for path in folder.glob("events-*.jsonl"))
    return dict(sorted((int(match[1]), path) for match, path in named if match))


def event_files(folder: Path) -> dict[int, EventFile]:
    """What each rank has left, read to its end."""
    files = {rank: EventFile(path) for rank, path in event_paths(folder).items()}
    for file in files.values():
        file.read_on()
    return files
