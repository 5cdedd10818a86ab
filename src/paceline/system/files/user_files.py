"""Reads files that a user names, whatever has such a name: no pipes, none too large, and no TOML that takes minutes.

A stranger may have written them: what would take gigabytes is refused before it is parsed.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from paceline.system.errors import UserError
from paceline.system.text.safe_text import one_line

MOST_DOTS = 16  # in one line, outside of words: a key of so many parts, which the parser needs much memory for
# Words and comments, in which dots mean nothing. Each is taken whole or to the end of the text, never tried again.
WORDS = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'''|\Z)"
    r'|"(?:[^"\\\n]|\\.)*+(?:"|$)'
    r"|'[^'\n]*+(?:'|$)"
    r"|\#[^\n]*+",
    re.DOTALL | re.MULTILINE,
)


def read_text(path: Path, what: str, most_bytes: int) -> str:
    """All of it; a folder, a pipe, a device and what is too large are refused unread."""
    content = _content(path, what, most_bytes)
    if len(content) > most_bytes:
        raise UserError(f"{path} is no {what}: it has more than {most_bytes:,} bytes.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not TOML: {error}.") from None


def _content(path: Path, what: str, most_bytes: int) -> bytes:
    try:
        # A pipe without a writer must not be waited for.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - pathlib takes no flags
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"Cannot read the {what} {path}: it is no file.")
            return file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise UserError(f"Cannot read the {what} {path}: {reason}.") from None


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """Its tables; `path` stands in messages."""
    if any(line.count(".") > MOST_DOTS for line in WORDS.sub("", text).splitlines()):
        raise _too_deep(path)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as error:  # of which those of the parser are a kind
        digits = "a whole number of more than 4,300 digits" if "integer string conversion" in str(error) else None
        raise UserError(f"{path} is not TOML: {digits or one_line(str(error))}.") from None


def _too_deep(path: Path) -> UserError:
    return UserError(f"{path} is nested too deeply: a suite has keys, [[part]] and [quick], and nothing below them.")
