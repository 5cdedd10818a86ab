"""Templates filled for an answer, with the badges that the states of plans and runs have."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import HTMLResponse, Response

from paceline.report.page.badges import BADGES, Badge
from paceline.report.page.templating import environment
from paceline.system.text.safe_text import printable

STATES = {
    badge.word: badge
    for badge in (
        Badge("running", "▶", "it is being measured now"),
        Badge("interrupted", "‖", "whoever measured it is gone; the same command goes on"),
        Badge("complete", "✓", "all its runs are done"),
    )
}


def page(template: str, *, status: int = 200, **context: object) -> Response:
    return HTMLResponse(text(template, **context), status)


def text(template: str, **context: object) -> str:
    return environment().get_template(template).render(**{"mark_of": mark_of, **context})


def mark_of(word: str) -> Sequence[Badge]:
    """With its sign; a word that we do not know stands for itself."""
    return (STATES.get(word) or BADGES.get(word) or Badge(printable(word), "·", ""),)
