"""A chart as a file of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.analysis.rows.table_rows import chosen_rows
from paceline.report.charts.drawing import FORMATS, contents
from paceline.report.charts.kinds import Picture, kinds, pictures
from paceline.report.charts.style import LOOKS
from paceline.report.tables.render_layouts import differing
from paceline.store.series import load_series
from paceline.store.store import Store
from paceline.system.errors import UserError, unknown
from paceline.system.files.atomic_files import check_place, write_bytes
from paceline.system.limits import check_flag
from paceline.system.text.safe_text import printable

MOST_LISTED = 8
CellFilters = Mapping[str, str | None]


@dataclass(frozen=True)
class ChartRequest:
    kind: str
    path: Path
    table: int = 1  # which one, where several can be drawn
    look: str = "light"

    def check(self) -> None:
        """Before anything is read: what is wrong with it, if anything is."""
        if self.kind not in kinds():
            raise unknown("chart", self.kind, kinds())
        if self.path.suffix.lower() not in FORMATS:
            raise UserError(f"{self.path}: a chart is written as {', '.join(FORMATS)}; end its name with one of these.")
        check_flag("--table", self.table)
        check_place(self.path, f"{self.kind}.svg")


def draw(request: ChartRequest, folder: Path, filters: CellFilters, target: float | None) -> str:
    """Write the chart; what was drawn, and what else could be."""
    request.check()
    rows = chosen_rows(folder, filters, target)
    series = load_series(Store(folder), [run for row in rows for run in row.runs])
    found = list(pictures(request.kind, rows, series))
    if not found:
        raise UserError(f"Nothing to draw: the chart of {request.kind} needs {kinds()[request.kind].needs}.")
    if not 1 <= request.table <= len(found):
        raise UserError(f"There is no table {request.table}: of these results {len(found)} can be drawn so.")
    picture = found[request.table - 1]
    write_bytes(request.path, contents(picture, LOOKS[request.look], request.path.suffix.lower()))
    lines = [f"{request.path}: {kinds()[request.kind].title}: {picture.shared}", *_others(found, request.table)]
    return "\n".join(map(printable, lines))


def _others(found: Sequence[Picture], drawn: int) -> list[str]:
    """How to get the other tables."""
    if len(found) == 1:
        return []
    labels = differing([picture.shared for picture in found])
    listed = [f"  --table {place}: {label}" for place, label in enumerate(labels, 1) if place != drawn]
    more = [f"  and {len(listed) - MOST_LISTED} more"] if len(listed) > MOST_LISTED else []
    return [f"This is table {drawn} of {len(found)}. The others:", *listed[:MOST_LISTED], *more]
