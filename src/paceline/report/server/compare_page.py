"""The page on which two sets of results are chosen and compared."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from paceline.analysis.quantities.known import metrics
from paceline.report.server import comparison, lists
from paceline.report.server.rendering import text
from paceline.report.studies.comparison import HEADINGS, headings, lines, notes, summary, title
from paceline.store.store import Store

NOTHING: Mapping[str, object] = {
    "headings": HEADINGS,
    "problem": "",
    "shown": None,
    "title": "",
    "lines": [],
    "notes": [],
    "summary": "",
}


def compared_page(store: Store, asked: Mapping[str, str], so_far: str) -> str:
    """`so_far` is the word in an address that asks for results while more are measured, if it is there."""
    shown = comparison.compared(store, asked)
    plans = [{"old": cell.old_plan, "new": cell.new_plan} for cell in shown.cells if cell.measured_in_both]
    found = zip(lines(shown), plans, strict=True)
    parts = {
        "headings": headings(shown),
        "title": title(shown),
        "lines": list(found),
        "notes": notes(shown),
        "summary": summary(shown),
    }
    return form(store, asked, shown=shown, so_far=so_far, **parts)


def form(store: Store, asked: Mapping[str, str], so_far: str = "", **found: object) -> str:
    """And below it what came of it."""
    return text(
        "served_compare.html.j2",
        asked=asked,
        selections=comparison.selections(store),
        choices=lists.choices(store),
        metrics=metrics(),
        query=urlencode({**asked, **({so_far: "1"} if so_far else {})}),
        so_far=so_far,
        **{**NOTHING, **found},
    )
