"""Reads files that a user names, whatever has such a name: no pipes, none too large, and no TOML that takes minutes.

A stranger may have written them: what would take gigabytes is refused before it is parsed.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

from paceline.system.errors import UserError
from paceline.system.files.regular_files import NoPlainFileError, open_plain
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


def open_file(path: Path) -> BinaryIO:
    """Open for reading; a link is followed, since the user has named it, to a file and to nothing else."""
    return open_plain(os.path.realpath(path))


def read_text(path: Path, what: str, most_bytes: int, encoding: str = "utf-8") -> str:
    """All of it; a folder, a pipe, a device and what is too large are refused unread."""
    content = _content(path, what, most_bytes)
    if len(content) > most_bytes:
        raise UserError(f"{path} is no {what}: it has more than {most_bytes:,} bytes.")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no {what}: {error}.") from None


def _content(path: Path, what: str, most_bytes: int) -> bytes:
    try:
        with open_file(path) as file:
            return file.read(most_bytes + 1)  # some files of the kernel do not say how large they are
    except NoPlainFileError as error:
        raise UserError(f"Cannot read the {what} {path}: it {error.strerror}.") from None
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
