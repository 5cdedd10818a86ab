"""Reads TOML that a stranger may have written: what would take minutes or gigabytes is refused before it is parsed."""

from __future__ import annotations

import re
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


def parse(text: str, path: Path) -> dict[str, Any]:
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
