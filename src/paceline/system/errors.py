"""The one kind of error that a user can put right."""

from __future__ import annotations

from collections.abc import Iterable

from paceline.system.text.safe_text import QUOTED, message, quoted
from paceline.system.text.synonyms import meaning

MOST_KNOWN = 40  # names that a message lists


class UserError(Exception):
    """One line: what is wrong, and what would be right. Caught once, in the CLI."""

    def __init__(self, line: str) -> None:
        """Whatever is quoted in it, it stays a line that a person can read and a terminal can be given."""
        super().__init__(message(line))


def unknown(what: str, given: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not in a list."""
    import difflib  # every command imports this file, and few names are wrong

    if meant := meaning(what, given):
        return UserError(f"Unknown {what} {quoted(given)}: here that is {meant}.")
    choices = list(known)
    # Nothing that long is a slip of the finger, and to look for what it is like would take its time.
    close = difflib.get_close_matches(given, choices, n=1) if len(given) <= QUOTED else []
    hint = f" Did you mean {close[0]!r}?" if close else ""
    more = [f"and {len(choices) - MOST_KNOWN} more"] if len(choices) > MOST_KNOWN else []
    return UserError(f"Unknown {what} {quoted(given)}.{hint} Known: {', '.join(choices[:MOST_KNOWN] + more)}.")
