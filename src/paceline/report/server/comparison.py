"""Two selections of a store side by side, as a page asks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from urllib.parse import urlencode

from paceline.analysis.comparison.compare import Comparison, compare
from paceline.analysis.comparison.selections import FILTERS as KINDS
from paceline.analysis.comparison.selections import FORMS, Side, choose
from paceline.analysis.quantities.definition import Quantity
from paceline.analysis.quantities.known import SPEED, comparable, metrics
from paceline.plan.cell import Cell
from paceline.report.page.templating import filled, moment_of
from paceline.report.server.lists import FILTERS, choices
from paceline.report.studies.comparison import headings, lines, notes, summary, title
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.text.safe_text import quoted

THRESHOLD = 0.05
FIELDS = ("old", "new", "metric", "threshold", "by_name", *FILTERS)  # of the form
MOST_PLANS = 100  # that a form offers; any other can be typed


def compared(store: Store, asked: Mapping[str, str]) -> Comparison:
    """By what a form sends; every mistake in it is the reader's, and is shown."""
    metric = comparable(asked["metric"] or SPEED.label)
    threshold = _threshold(asked["threshold"] or str(100 * THRESHOLD))
    store.query("SELECT 1 FROM plan LIMIT 1")  # a reader never rebuilds the index
    old, new = (_side(store, asked[name], metric, asked) for name in ("old", "new"))
    return compare(old, new, threshold)


def _threshold(text: str) -> float:
    try:
        value = float(text) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise UserError(f"The threshold is a percentage such as 5, from 0 up and below 100, not {quoted(text)}.")
    return value


def _side(store: Store, text: str, metric: Quantity, asked: Mapping[str, str]) -> Side:
    """A part of this store; folders, which the command line takes as well, are nothing that a page may ask for."""
    kind, colon, _ = text.partition(":")
    if not colon or kind not in KINDS:
        raise UserError(f"{quoted(text)} is no selection of results; write {FORMS}.")
    side = choose(text, store.folder, metric, by_name=bool(asked["by_name"]))
    cells = {cell: runs for cell, runs in side.cells.items() if wanted(cell, asked)}
    if not cells:
        raise UserError(f"No results of {quoted(text)} match the filters.")
    return dataclasses.replace(side, cells=cells)


def wanted(cell: Cell, asked: Mapping[str, str]) -> bool:
    """Whether it has what the filters of a form ask for."""
    return all(not asked[name] or getattr(cell, name) == asked[name] for name in FILTERS)


def selections(store: Store) -> list[tuple[str, str]]:
    """What can be compared, newest first, each with words about it."""
    plans = store.query("SELECT id, suite FROM plan ORDER BY id DESC LIMIT ?", MOST_PLANS)
    suites = store.query("SELECT suite, MAX(id) AS id FROM plan GROUP BY suite ORDER BY id DESC")
    machines = store.query(  # as the newest run found each
        "SELECT machine AS id, machine_description AS description, MAX(id) FROM run GROUP BY machine"
    )
    days = store.query("SELECT DISTINCT date(started, 'unixepoch') AS day FROM run ORDER BY day DESC")
    versions = store.query(
        "SELECT DISTINCT json_extract(cell, '$.framework') AS framework, framework_version AS version FROM run"
    )
    frameworks = sorted({(row["framework"].partition("+")[0], row["version"]) for row in versions})
    return [
        *((f"plan:{row['id']}", f"{row['suite'] or 'no suite'}, {moment_of(row['id'])} UTC") for row in plans),
        *((f"suite:{row['suite']}", "the newest of each cell") for row in suites if row["suite"]),
        *((f"date:{row['day']}", "runs of that day") for row in days),
        *((f"version:{name}={version}", "") for name, version in frameworks),
        *((f"machine:{row['id']}", row["description"]) for row in machines),
    ]


def compared_page(store: Store, asked: Mapping[str, str], so_far: Mapping[str, str]) -> str:
    found = compared(store, asked)
    plans = [{"old": cell.old_plan, "new": cell.new_plan} for cell in found.cells if cell.measured_in_both]
    named = list(zip(lines(found), plans, strict=True))
    return form(
        store,
        asked,
        so_far,
        headings=headings(found),
        summary=summary(found),
        title=title(found),
        lines=named,
        notes=notes(found),
    )


def form(store: Store, asked: Mapping[str, str], so_far: Mapping[str, str], **found: object) -> str:
    """The page with what came of it, or the problem, if there is either."""
    return filled(
        "served_compare.html.j2",
        asked=asked,
        so_far=so_far,
        selections=selections(store),
        choices=choices(store),
        metrics=metrics(),
        query=urlencode({**asked, **so_far}),
        **found,
    )
