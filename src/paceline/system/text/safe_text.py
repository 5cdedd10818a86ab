"""Words of others, made fit to be shown: no letter steers what shows it, and no value fills the screen."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from dataclasses import replace as dataclass_replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

QUOTED = 80  # letters of a bad value that are shown
LINE = 1500  # letters of a message, which may list names
LONGEST_WORD = 300  # longer than paths are
LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
SEVERAL_LINES = ("log_end",)  # fields whose lines stay lines
Value = TypeVar("Value")
Rest = ParamSpec("Rest")


def printable(text: str) -> str:
    """With a sign in place of letters that steer and are not seen, such as those that turn the direction of writing."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "�" for letter in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def shortened(text: str, most_letters: int) -> str:
    """What is cut says so."""
    return text if len(text) <= most_letters else text[: most_letters - 1] + "…"


def one_line(text: str) -> str:
    """What a program printed must not steer the reader's terminal."""
    return shortened(printable(" ".join(text.split())), 300)


def quoted(text: object) -> str:
    """A value that somebody has given, for a message about it."""
    return repr(shortened(str(text), QUOTED))


def message(text: str) -> str:
    """One line that can be read, whatever was quoted in it; what was typed as one word is one, spaces or not."""
    for word in {given for typed in sys.argv for given in (typed, typed.partition("=")[2])}:
        if len(word) > LONGEST_WORD:
            text = text.replace(word, shortened(word, QUOTED))
    line = LONG_WORD.sub(lambda word: shortened(word[0], QUOTED), printable(" ".join(text.split())))
    return line if len(line) <= LINE else f"{line[: LINE * 2 // 3]} … {line[-LINE // 3 :]}"


def note(line: str) -> None:
    """A line for the user, beside what a command prints."""
    print(f"paceline: {message(line)}", file=sys.stderr)


def printed(value: Value) -> Value:
    """The same with all its words printable, however deep they lie."""
    return cast("Value", _CLEANED.get(type(value), _whole)(value))


def plainly(render: Callable[Concatenate[Value, Rest], str]) -> Callable[Concatenate[Value, Rest], str]:
    """A renderer that is given nothing but printable words."""

    @wraps(render)
    def of_printed(value: Value, /, *rest: Rest.args, **named: Rest.kwargs) -> str:
        return render(printed(value), *rest, **named)

    return of_printed


def as_json(value: object) -> str:
    """For people and programs: every word is as it was, but what would steer a terminal is an escape."""
    import msgspec  # every command imports this file, and asking for help writes no JSON

    return escaped(msgspec.json.format(msgspec.json.encode(value)).decode()) + "\n"


def escaped(json: str) -> str:
    """JSON with such letters as escapes, which say the same."""
    if json.isascii():
        return json  # JSON escapes control characters already
    return "".join(letter if letter.isprintable() or letter == "\n" else _code(letter) for letter in json)


def _code(letter: str) -> str:
    """In the form of JSON, which has two codes for a letter beyond the first 65,536."""
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _whole(value: Any) -> Any:
    """Structs and dataclasses keep what they are; all else that is no word is left alone."""
    import msgspec

    if isinstance(value, msgspec.Struct):
        changed = _changed(value, value.__struct_fields__)
        return msgspec.structs.replace(value, **changed) if changed else value
    if is_dataclass(value) and not isinstance(value, type):
        changed = _changed(value, [field.name for field in fields(value)])
        return dataclass_replace(value, **changed) if changed else value
    return value


def _changed(value: object, names: Any) -> dict[str, Any]:
    """Only fields whose words have to change."""
    found = {name: getattr(value, name) for name in names}
    cleaned = {
        name: printable_lines(field) if name in SEVERAL_LINES and isinstance(field, str) else printed(field)
        for name, field in found.items()
    }
    return {name: field for name, field in cleaned.items() if field is not found[name]}


def _items(value: Any) -> Any:
    cleaned = [printed(item) for item in value]
    same = all(new is old for new, old in zip(cleaned, value, strict=True))
    return value if same else type(value)(cleaned)


def _pairs(value: Mapping[Any, Any]) -> Any:
    cleaned = {printed(name): printed(item) for name, item in value.items()}
    same = all(name in value and value[name] is item for name, item in cleaned.items())
    return value if same and len(cleaned) == len(value) else cleaned


_CLEANED: dict[type, Callable[[Any], Any]] = {
    str: printable,
    list: _items,
    tuple: _items,
    dict: _pairs,
}
