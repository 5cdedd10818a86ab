"""Source without what cannot change a measurement: its comments and docstrings. What is left is hashed for keys.

Python is taken as its tokens. How `ast.dump` and `ast.unparse` write a tree differs between versions of Python, and two
users of one Paceline would have different keys; tokens are the source's own text. The one thing that versions cut
differently is a formatted string: up to 3.11 it is one token, later it is several, so it is taken as it is written.
"""

from __future__ import annotations

import io
import re
import token
import tokenize
from collections.abc import Iterator
from functools import cache

OPENED = {getattr(token, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(token, name)}
CLOSED = {getattr(token, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(token, name)}
WITHOUT_MEANING = {token.ENCODING, token.ENDMARKER, token.COMMENT, token.NL}
# No source can hold these characters outside of its strings. How deep it is indented does not matter.
LAYOUT = {token.NEWLINE: "\n", token.INDENT: "\1", token.DEDENT: "\2"}
DOCSTRING = re.compile("[rRuU]?['\"]")  # how a string begins that is neither bytes nor formatted
PIP_COMMENT = re.compile(r"(^|\s+)#.*$")  # as pip has it: a # inside of a word begins none


@cache  # most files are those of every framework
def without_comments(content: bytes) -> bytes:
    """The tokens of all statements but those that are a mere string, which compute nothing: docstrings are such."""
    text = content.decode().replace("\r\n", "\n")
    statement: list[str] = []
    kept: list[str] = []
    for kind, spelled in _tokens(text):
        if kind in LAYOUT:
            if kind != token.NEWLINE or not all(map(DOCSTRING.match, statement)):
                kept += [*statement, LAYOUT[kind]]
            statement = []
        else:
            statement.append(spelled)
    return "\0".join(kept + statement).encode()


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Those with a meaning; a formatted string is one, with all that is in it."""
    lines, depth, start = text.split("\n"), 0, (0, 0)
    for found in tokenize.generate_tokens(io.StringIO(text).readline):
        if found.type in OPENED:
            start, depth = (start if depth else found.start), depth + 1
        elif found.type in CLOSED:
            depth -= 1
            if not depth:
                yield token.STRING, _between(lines, start, found.end)
        elif not depth and found.type not in WITHOUT_MEANING:
            yield found.type, found.string


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    (first, left), (last, right) = start, end
    if first == last:
        return lines[first - 1][left:right]
    return "\n".join([lines[first - 1][left:], *lines[first : last - 1], lines[last - 1][:right]])


def requirement_lines(text: str) -> str:
    """What pip reads of a list of requirements."""
    lines = (PIP_COMMENT.sub("", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)
