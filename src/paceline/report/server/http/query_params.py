"""What a request asks for, read from its address."""

from __future__ import annotations

from starlette.requests import Request

from paceline.report.server import comparison, lists
from paceline.report.tables.layouts import LAYOUTS
from paceline.system.errors import UserError, unknown
from paceline.system.text.safe_text import quoted


def filters(request: Request) -> dict[str, str | None]:
    return {name: request.query_params.get(name) or None for name in lists.FILTERS}


def of_runs(request: Request) -> dict[str, str | None]:
    """What the form above the list of runs sends."""
    return {**filters(request), "status": request.query_params.get("status") or None}


def layout(request: Request, own: str) -> str:
    """The shape of a table: its own, unless another is asked for."""
    known = ("rows", *LAYOUTS)
    given = request.query_params.get("layout")
    if given and given not in known:
        raise unknown("layout", given, known)
    return given or own


def of_comparison(request: Request) -> dict[str, str]:
    """What the form of a comparison sends."""
    return {name: request.query_params.get(name, "") for name in comparison.FIELDS}


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


def number(request: Request, name: str, otherwise: int) -> int:
    """A whole number from 0 up; anything else is as if it had not been said."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else otherwise
