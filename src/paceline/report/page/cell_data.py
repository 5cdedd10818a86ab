"""What a page knows about each cell and its runs, for the script that shows them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from paceline.analysis.rows.labels import where
from paceline.analysis.rows.row import Row
from paceline.report.escaping import page_text
from paceline.report.page.badges import BADGES, badges_of
from paceline.report.page.run_details import RunDetail, SetupDetail, of_runs
from paceline.report.tables.rerun_command import once_more
from paceline.store.store import Store


class CellDetail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    framework: str
    devices: str
    table: int  # its place among the titles
    marks: tuple[str, ...]  # the words of its badges, the status first
    again: str  # the command that measures it once more
    reason: str = ""
    runs: tuple[int, ...] = ()  # their places


class PageData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that the script of a page needs; cells are numbered from 1."""

    titles: list[str]
    cells: list[CellDetail]
    signs: dict[str, str]  # of the badges
    runs: list[RunDetail]
    setups: list[SetupDetail]
    texts: list[str]
    run_page: str = ""  # where a server has pages of single runs


def page_data(groups: Sequence[tuple[str, Sequence[Row]]], store: Store, run_page: str = "") -> PageData:
    """Of tables under their titles, in the order in which their cells are numbered."""
    known = of_runs(store, [run for _, rows in groups for row in rows for run in row.runs])
    places = {run.id: place for place, run in enumerate(known.runs)}
    cells = [_cell(row, table, places) for table, (_, rows) in enumerate(groups) for row in rows]
    return PageData(
        titles=[page_text(title) for title, _ in groups],
        cells=cells,
        signs={badge.word: badge.sign for badge in BADGES.values()},
        runs=known.runs,
        setups=known.setups,
        texts=known.texts,
        run_page=run_page,
    )


def _cell(row: Row, table: int, places: dict[str, int]) -> CellDetail:
    return CellDetail(
        framework=page_text(row.cell.framework),
        devices=page_text(where(row)),
        table=table,
        marks=tuple(badge.word for badge in badges_of(row)),
        again=page_text(once_more(row)),
        reason=page_text(row.reason or ""),
        runs=tuple(places[run] for run in row.runs if run in places),
    )
