"""Reads files that a user names: those that are files of text and not too large, whatever else has such a name."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from paceline.system.errors import UserError


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
        # A pipe that nobody writes into must not be waited for.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - pathlib takes no flags
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"Cannot read the {what} {path}: it is no file.")
            return file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise UserError(f"Cannot read the {what} {path}: {reason}.") from None
