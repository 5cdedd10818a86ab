"""Secrets among the words of a command: a warning names those that may come with one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

SECRET = re.compile(
    r"token|secret|passw|pwd|credential|auth|(api|private|access)[_-]?key|^TF_VAR_", re.IGNORECASE
)  # names of variables and flags


# In a word of a command, which may be a whole line for a shell: flags, and names that are given a value.
NAMES = re.compile(r"(?<![\w.-])(?:-{1,2}[\w-]+|[\w.-]+(?==))")
PASSWORD_IN_ADDRESS = re.compile("://[^/@]*:[^/@]*@")


def doubtful_names(words: Sequence[str]) -> Iterator[str]:
    """Each once."""
    names = (name for word in words for name in NAMES.findall(word))
    yield from dict.fromkeys(filter(SECRET.search, names))
    if any(map(PASSWORD_IN_ADDRESS.search, words)):
        yield "a password in an address"


def warning(names: Sequence[str], what: str) -> str:
    """For who is about to send something that has these names in it."""
    return f"A command in it has {', '.join(names)}: whoever gets the {what} can read what stands there."
