"""What a request asks for, read from its address."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request

from paceline.system.errors import UserError
from paceline.system.text.safe_text import quoted


def named(request: Request, names: Iterable[str]) -> dict[str, str]:
    """What the fields of a form send; empty where nothing is said."""
    return {name: request.query_params.get(name, "") for name in names}


def target(request: Request) -> float | None:
    text = request.query_params.get("target")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise UserError(f"The target is a part of the test images such as 0.7, not {quoted(text)}.")
    return value


def number(request: Request, name: str) -> int | None:
    """A whole number from 0 up; anything else is as if it had not been said."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None
