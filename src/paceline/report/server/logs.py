"""The log of a run, which may be huge, hostile and still growing: raw by ranges, or a window of it for a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from paceline.plan.external.output_metrics import TERMINAL_CODES
from paceline.system.files.regular_files import LINES_BYTES, NoPlainFileError, open_plain
from paceline.system.text.safe_text import printable

WINDOW_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
LINE_END = re.compile(r"\r*\n|\r+")  # a progress bar goes back to the start of its line instead of ending it


@dataclass(frozen=True)
class LogWindow:
    """Some of a log, as lines that steer nothing."""

    lines: tuple[str, ...]
    start: int
    end: int
    size: int
    problem: str = ""  # why there is nothing of it

    @property
    def earlier(self) -> int | None:
        return max(0, self.start - WINDOW_BYTES) if self.start else None

    @property
    def later(self) -> int | None:
        return self.end if self.end < self.size else None


def window(path: Path, start: int | None) -> LogWindow:
    """From this byte on, or the end of it; nothing of a log that does not exist yet."""
    try:
        size = _size(path)
    except NoPlainFileError as error:
        return LogWindow((), 0, 0, 0, f"It cannot be shown: {error}.")
    begin = max(0, size - WINDOW_BYTES) if start is None else min(start, size)
    text = b"".join(_bytes_of(path, begin, min(begin + WINDOW_BYTES, size))) if size else b""
    return LogWindow(lines_of(text), begin, begin + len(text), size)


def lines_of(text: bytes) -> tuple[str, ...]:
    """Without colours, and with signs in place of what a terminal would obey."""
    lines = LINE_END.split(text.decode(errors="replace"))
    if lines and not lines[-1]:
        lines.pop()
    return tuple(printable(TERMINAL_CODES.sub("", line).expandtabs()) for line in lines)


def all_lines(file: BinaryIO) -> Iterator[str]:
    """Likewise all of a log, which is never held as a whole."""
    rest = b""
    while piece := file.read(CHUNK_BYTES):
        *whole, rest = (rest + piece).rpartition(b"\n")
        if len(rest) > WINDOW_BYTES:  # a progress bar without an end, or rubbish
            whole, rest = [*whole, rest], b""
        yield from lines_of(b"".join(whole))
    yield from lines_of(rest)


def _size(path: Path) -> int:
    """0 for one that does not exist yet."""
    try:
        with open_plain(path, LINES_BYTES) as file:
            return file.seek(0, 2)
    except FileNotFoundError:
        return 0


def raw(path: Path, wanted: str | None, tail: int | None) -> Response:
    """As it was written, all of it or the asked part; what is appended meanwhile is not sent."""
    size = _size(path)
    start, end, part = max(0, size - tail) if tail is not None else 0, size, {}
    asked = RANGE.fullmatch(wanted or "") if tail is None else None
    if asked and any(asked.groups()):
        start, end = _span(asked[1], asked[2], size)
        if start >= end:
            return PlainTextResponse("", 416, {"content-range": f"bytes */{size}"})
        part = {"content-range": f"bytes {start}-{end - 1}/{size}"}
    headers = {"content-length": str(end - start), "accept-ranges": "bytes", **part}
    return StreamingResponse(_bytes_of(path, start, end), 206 if part else 200, headers, media_type="text/plain")


def _span(first: str, last: str, size: int) -> tuple[int, int]:
    """By places in the file, or so many of the last bytes."""
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size


def _bytes_of(path: Path, start: int, end: int) -> Iterator[bytes]:
    if start >= end:
        return
    with open_plain(path, LINES_BYTES) as file:
        file.seek(start)
        while start < end and (piece := file.read(min(CHUNK_BYTES, end - start))):
            start += len(piece)
            yield piece
