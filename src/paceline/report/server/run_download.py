"""The list of runs to take away: all that the filters choose, with plain values."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Callable, Mapping, Sequence

import msgspec

from paceline.report.escaping import spreadsheet_cell
from paceline.report.server.lists import FILTERS, RUNS, moment
from paceline.report.server.stored_cell_names import names_in
from paceline.report.tables.layouts import Grid
from paceline.report.tables.render_layouts import markdown as grid_markdown
from paceline.store.records.outcome import cause_of
from paceline.store.store import Store
from paceline.system.text import safe_text
from paceline.system.text.safe_text import plainly

NO_LIMIT = -1  # as SQLite has it


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended. Its fields are the columns of the table."""

    run: str  # its id
    cell: str
    repeat: int  # from 1 up
    status: str
    started: str  # UTC
    seconds: float  # all of it
    images_per_second: float | None
    cause: str  # of a failure
    framework_version: str
    machine: str


def listed_runs(store: Store, chosen: Mapping[str, str | None]) -> list[ListedRun]:
    """The newest first, as the pages of the list have them."""
    wanted = {name: chosen.get(name) for name in (*FILTERS, "status")}
    rows = store.query(RUNS, **wanted, limit=NO_LIMIT, offset=0)
    names = names_in(row["cell"] for row in rows)
    return [_listed(row, names[row["cell"]]) for row in rows]


def _listed(row: sqlite3.Row, name: str) -> ListedRun:
    cause = cause_of(row["kind"], row["phase"], row["message"]) if row["status"] == "failed" else ""
    return ListedRun(
        run=row["id"],
        cell=name,
        repeat=row["repeat"] + 1,
        status=row["status"],
        started=moment(row["started"]),
        seconds=row["seconds"],
        images_per_second=row["images_per_second"],
        cause=cause,
        framework_version=row["framework_version"],
        machine=row["machine"] or "",
    )


def _lines(runs: Sequence[ListedRun]) -> list[tuple[object, ...]]:
    """The headings first; what is not known is left empty."""
    values = [tuple("" if value is None else value for value in msgspec.structs.astuple(run)) for run in runs]
    return [ListedRun.__struct_fields__, *values]


@plainly
def as_csv(runs: Sequence[ListedRun]) -> str:
    output = io.StringIO()
    csv.writer(output, lineterminator="\n").writerows(map(spreadsheet_cell, line) for line in _lines(runs))
    return output.getvalue()


def markdown(runs: Sequence[ListedRun]) -> str:
    return grid_markdown([Grid("runs", tuple(tuple(map(str, line)) for line in _lines(runs)), ())])


def as_json(runs: Sequence[ListedRun]) -> str:
    return safe_text.as_json(runs)


FORMATS: dict[str, Callable[[Sequence[ListedRun]], str]] = {"csv": as_csv, "json": as_json, "markdown": markdown}
