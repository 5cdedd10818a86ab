"""Values and changes that have broken parsers before."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

MOST_DEEP = 50  # brackets in which something is changed
NUMBERS = (
    *("0", "-1", "1", "-0", "1.5", "1e999", "nan", "-inf", "inf", "true", "1_000", "0x" + "f" * 5000, "9" * 5000),
    *("9" * 400, "4294967296", "9223372036854775808", "1000000000000", "1e-320", "007", "+5", "１２", "1000", "257"),
)
WORDS = (
    *("", " ", ",", ",,,", ":", "+", "=", "|", "-", "--", "---", "/", ".", "..", "~", "*", "\\", "'", '"', "\t", "\n"),
    *("x" * 300, "x" * 100_000, "x " * 50_000, "a." * 5000, "[" * 5000, "{" * 5000, "'" * 5000, "(" * 5000),
    *("\x1b[31mred", "\x1b]0;title\x07", "\u202eevil", "\x9b2J", "\u200b", "\u2028", "\U000e0041", "é", "🙂", "\ufeff"),
    *("../../etc/passwd", "/etc/passwd", "/dev/zero", "/dev/null", "/", "/proc/self/mem", "<script>alert(1)</script>"),
    *(
        "{{7*7}}",
        "%s%n",
        "=1+1",
        "@x",
        "$(id)",
        "`id`",
        "; id",
        "null",
        "None",
        "NaN",
        "all",
        "fake",
        "torch",
        "torch+",
    ),
    *("torch+compile", "fake+fail", "1xcpu", "2xcpu", "256xcpu", "257xcpu", "9999xcpu", "0xcpu", "1xcuda", "cuda:0"),
    *(
        "cuda:0+cuda:0",
        "cuda:9999",
        "1xcpu+cuda:0",
        "cifar10",
        "fake:device",
        "2:1",
        "0:0",
        "999999:1",
        "1:2.0",
        "1:101",
    ),
    *(
        "1:1:1:1:1:1:1:1",
        "measured",
        "equal",
        "a" * 256 + ".toml",
        "cifar10-conv",
        "imagenet-resnet50",
        "demo",
        "updates",
    ),
)
JSON_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 1e308, -1e308, 2**31, 2**63, 2**64, 10**400, "", "x", "x" * 10_000, [], {}, [[]]),
    *("\x1b[31m", "\u202e", "\u0000", "\ud800", "../..", "1xcpu", [None], [1] * 1000, {"a": {"b": {}}}, ["x"] * 50),
)


def word(draw: random.Random) -> str:
    """One that a shell could give."""
    return draw.choice(WORDS) if draw.random() < 0.6 else draw.choice(NUMBERS)


def deep(text: str, count: int) -> Any:
    """JSON that is nested so many times."""
    return json.loads(text) if count == 0 else [deep(text, count - 1)]


def changed_text(text: str, draw: random.Random) -> str:
    """A few small harms."""
    for _ in range(draw.randint(1, 3)):
        text = draw.choice(TEXT_CHANGES)(text, draw)
    return text


def _cut(text: str, draw: random.Random) -> tuple[str, str, str]:
    first, second = sorted(draw.randint(0, len(text)) for _ in range(2))
    return text[:first], text[first:second], text[second:]


def _without(text: str, draw: random.Random) -> str:
    before, _, after = _cut(text, draw)
    return before + after


def _twice(text: str, draw: random.Random) -> str:
    before, piece, after = _cut(text, draw)
    return before + piece * draw.choice((2, 2, 3, 50)) + after


def _inserted(text: str, draw: random.Random) -> str:
    before, _, after = _cut(text, draw)
    return before + word(draw) + after


def _other_value(text: str, draw: random.Random) -> str:
    """After one of its signs of equality, so that a key has another value."""
    places = [place for place, letter in enumerate(text) if letter in "=:"]
    if not places:
        return text
    place = draw.choice(places) + 1
    end = text.find("\n", place) if "\n" in text[place:] else len(text)
    value = word(draw)
    return text[:place] + " " + (f'"{value}"' if draw.random() < 0.5 else value) + text[end:]


def _repeated_line(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    line = draw.randrange(len(lines))
    return "\n".join(lines[:line] + [lines[line]] * draw.choice((2, 300)) + lines[line + 1 :])


def _half(text: str, draw: random.Random) -> str:
    return text[: draw.randint(0, len(text))]


TEXT_CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    *(_without, _twice, _inserted, _other_value, _other_value, _repeated_line, _half),
)


def changed_bytes(content: bytes, draw: random.Random) -> bytes:
    """Some bytes are others, or the end is missing, or there is more."""
    found = bytearray(content)
    for _ in range(draw.choice((1, 1, 4, 64))):
        if found:
            found[draw.randrange(len(found))] = draw.randrange(256)
    if draw.random() < 0.2:
        del found[draw.randint(0, len(found)) :]
    return bytes(found) + (b"\x00" * 5000 if draw.random() < 0.1 else b"")


def changed_json(content: bytes, draw: random.Random) -> bytes:
    """One of its values is something else, or gone."""
    try:
        value = json.loads(content)
    except ValueError:
        return changed_bytes(content, draw)
    places = list(_places(value, ()))
    if not places or draw.random() < 0.05:
        return json.dumps(draw.choice(JSON_VALUES)).encode()
    *way, last = draw.choice(places)
    inner = value
    for step in way:
        inner = inner[step]
    if draw.random() < 0.2:
        del inner[last]
    elif draw.random() < 0.1:
        inner[last] = deep("1", 500)
    else:
        inner[last] = draw.choice(JSON_VALUES)
    return json.dumps(value).encode()


def _places(value: Any, way: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """All but those that an earlier change has put hundreds of brackets deep."""
    if len(way) == MOST_DEEP:
        return []
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for step, inner in steps for place in ((*way, step), *_places(inner, (*way, step)))]
