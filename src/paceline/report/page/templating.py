"""One Jinja environment for all pages: whatever comes from results is escaped, and a page runs no script but ours."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from paceline.report.page.badges import BADGES, STATES, Badge
from paceline.system.text.formatting import duration, number
from paceline.system.text.safe_text import escaped, printable_lines

STYLE, SCRIPT = "style.css", "page.js"
# Letters that could end a script element, or that older readers take for the end of a line.
UNSAFE = {letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("paceline.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_printable,
    )
    made.globals |= {"asset": asset, "policy": policy, "mark_of": mark_of}
    made.filters |= {"duration": duration, "moment_of": moment_of, "number": number}
    return made


def filled(template: str, **context: object) -> str:
    return environment().get_template(template).render(context)


def _printable(value: object) -> object:
    """What a page says, without letters that steer the reader's browser; markup of our own stays as it is."""
    return printable_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def mark_of(word: str) -> Sequence[Badge]:
    """With its sign; a word that we do not know stands for itself."""
    return (STATES.get(word) or BADGES.get(word) or Badge(word, "·", ""),)


def moment(seconds: float) -> str:
    """In UTC, as ids have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds else "?"


def moment_of(plan_id: str) -> str:
    """When it was made, in UTC."""
    try:
        return str(datetime.strptime(plan_id[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        return "?"


@cache
def asset(name: str) -> Markup:
    """One of our own files, to be put into a page as it is."""
    return Markup((files("paceline.report.page") / "static" / name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


def policy() -> str:
    """A content-security policy: nothing from anywhere but our style and script, known by their hashes."""
    return (
        f"default-src 'none'; script-src {source_hash(SCRIPT)}; style-src {source_hash(STYLE)}; connect-src 'none'; "
        "base-uri 'none'; form-action 'self'"
    )


@cache
def source_hash(name: str) -> str:
    """How a policy names one of our files that stands inside a page."""
    digest = hashlib.sha256(asset(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def inline_json(value: msgspec.Struct) -> Markup:
    """A value as JSON that can stand inside a script element, whatever it says."""
    text = escaped(msgspec.json.encode(value).decode())
    for letter, code in UNSAFE.items():
        text = text.replace(letter, code)
    return Markup(text)  # noqa: S704 - nothing in it can end the element
