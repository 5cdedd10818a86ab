"""The list of runs to take away: all that the filters choose, with plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from paceline.report.escaping import csv_lines
from paceline.report.server.lists import ListedRun
from paceline.report.tables.layouts import Grid
from paceline.report.tables.render_layouts import markdown as grid_markdown
from paceline.system.text.safe_text import as_json, plainly


def _lines(runs: Sequence[ListedRun]) -> list[tuple[object, ...]]:
    """The headings first; what is not known is left empty."""
    values = [tuple("" if value is None else value for value in msgspec.structs.astuple(run)) for run in runs]
    return [ListedRun.__struct_fields__, *values]


@plainly
def as_csv(runs: Sequence[ListedRun]) -> str:
    return csv_lines(_lines(runs))


def markdown(runs: Sequence[ListedRun]) -> str:
    return grid_markdown([Grid("runs", tuple(tuple(map(str, line)) for line in _lines(runs)), ())])


FORMATS: dict[str, Callable[[Sequence[ListedRun]], str]] = {"csv": as_csv, "json": as_json, "markdown": markdown}
