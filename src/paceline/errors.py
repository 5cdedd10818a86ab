"""The one kind of error that a user can put right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """One line: what is wrong, and what would be right. Caught once, in the CLI."""


def unknown(what: str, given: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not in a list."""
    choices = list(known)
    close = difflib.get_close_matches(given, choices, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return UserError(f"Unknown {what} {given!r}.{hint} Known: {', '.join(choices)}.")
