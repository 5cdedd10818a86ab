"""The report as one page: the answer first, then tables and charts, every cell of them with its runs."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from paceline.analysis.findings import findings
from paceline.analysis.quantities.known import TEST_ACCURACY
from paceline.analysis.rows.row import Row
from paceline.analysis.rows.statuses import counted
from paceline.analysis.rows.table_rows import chosen_rows
from paceline.report.charts import Figure, figures, kinds, load_series
from paceline.report.escaping import page_text
from paceline.report.page.answers import Answer, answers, silence
from paceline.report.page.badges import BADGES, Badge
from paceline.report.page.cell_data import PageData, page_data
from paceline.report.page.tables import ArrangedTable, NumberOfCell, PageTable, arranged, further_tables, speed_table
from paceline.report.page.templating import environment, inline_json
from paceline.report.tables import sentences
from paceline.report.tables.columns import tables
from paceline.report.tables.command_tables import command_remarks
from paceline.report.tables.layouts import LAYOUTS
from paceline.report.tables.published_comparison import with_published
from paceline.report.tables.remarks import remarks
from paceline.report.tables.render import footnotes
from paceline.report.tables.small_forms import only_runs
from paceline.store.series import Series
from paceline.store.store import Store
from paceline.system.files.atomic_files import check_place, write_bytes
from paceline.system.text.secret_names import doubtful_names, warning

MOST_CHARTED = 8  # tables: drawing is what takes longest, and a page must stay quick to make and to open
MOST_ARRANGED = 300  # cells of a workload; a suite's own layout is not made for more
COMMANDS = "commands"
ACROSS = ("batch",)  # kinds of charts that draw several tables of a workload together
LAYOUT_OF_WORKLOADS = """
SELECT json_extract(plan_cell.cell, '$.workload') AS workload, plan.layout, MAX(plan.id) AS newest
FROM plan_cell JOIN plan ON plan.id = plan_cell.plan_id
WHERE plan.suite = :suite OR (:suite IS NULL AND NOT plan.replay)
GROUP BY 1, 2 ORDER BY newest
"""


@dataclass(frozen=True)
class RowGroup:
    """Rows that may be compared: one table with what is found in it."""

    id: str
    title: str  # what its rows share, the workload left out
    table: PageTable
    further: list[PageTable]
    answers: list[Answer]
    silence: str  # why there are none
    findings: list[str]
    remarks: list[str]
    figures: list[Figure]
    charted: bool  # False where charts are left out


@dataclass(frozen=True)
class Section:
    """A workload with its tables."""

    id: str
    name: str
    workload: str  # as flags call it
    arranged: list[ArrangedTable]
    unarranged: str  # the layout that was left out because there are too many cells
    groups: list[RowGroup]
    published: ArrangedTable | None  # figures of the texts that these rows continue
    figures: list[Figure]  # of all tables together


@dataclass(frozen=True)
class Report:
    """Everything that the template says."""

    heading: str
    facts: list[str]
    machines: list[str]
    sections: list[Section]
    footnotes: list[str]
    marks: list[Badge]  # those that occur
    number: NumberOfCell  # of a row's cell
    details: PageData

    @property
    def groups(self) -> list[tuple[Section, RowGroup]]:
        return [(section, group) for section in self.sections for group in section.groups]


def report_context(
    rows: Sequence[Row],
    store: Store,
    *,
    layouts: Mapping[str, str] | None = None,
    target: float | None = None,
    run_page: str = "",
) -> Report:
    """What the page says about these rows, with the layouts of their workloads and where pages of runs begin."""
    sections = _by_workload(rows)
    titled = [table for tables_of_one in sections.values() for table in tables_of_one]
    ordered = [row for _, group in titled for row in group]
    numbers = {id(row): number for number, row in enumerate(ordered, 1)}

    def number(row: Row) -> int:
        return numbers[id(row)]

    charted = {title for title, _ in tables(rows)[:MOST_CHARTED]}
    used_rows = [row for title, group in titled for row in group if title in charted or row.estimate(TEST_ACCURACY)]
    series = load_series(store, [run for row in used_rows for run in row.runs])
    maker = _PageMaker(number, series, charted, target)
    made = [maker.section(name, groups, (layouts or {}).get(name, "rows")) for name, groups in sections.items()]
    details = page_data(titled, store, run_page)
    used = {word for cell in details.cells for word in cell.marks}
    return Report(
        heading=_heading(list(sections)),
        facts=_facts(details),
        machines=sorted({page_text(row.machine_description) for row in rows if row.machine_description}),
        sections=made,
        footnotes=footnotes(list(rows)),
        marks=[badge for badge in BADGES.values() if badge.word in used],
        number=number,
        details=details,
    )


def render_report(report: Report, *, made_by: str = "paceline report", template: str = "report.html.j2") -> str:
    made = f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, Paceline {version('paceline')}"
    page = environment().get_template(template)
    return page.render(report=report, details=inline_json(report.details), made=made, made_by=page_text(made_by))


def layouts_of(store: Store, suite: str | None = None) -> dict[str, str]:
    """For each workload the shape that the newest plan with it wants for its table."""
    return {row["workload"]: row["layout"] for row in store.query(LAYOUT_OF_WORKLOADS, suite=suite)}


@dataclass(frozen=True)
class _PageMaker:
    """Makes the parts of a page out of rows."""

    number: NumberOfCell
    series: Series
    charted: set[str]
    target: float | None

    def section(self, name: str, groups: Sequence[tuple[str, list[Row]]], layout: str) -> Section:
        rows = [row for _, group in groups for row in group]
        wanted = layout in LAYOUTS
        fits = wanted and len(rows) <= MOST_ARRANGED
        return Section(
            id=f"workload-{self.number(rows[0])}",
            name=page_text(name),
            workload=page_text(shlex.quote(rows[0].cell.workload)),
            arranged=[arranged(grid, self.number) for grid in LAYOUTS[layout](rows)] if fits else [],
            unarranged=layout if wanted and not fits else "",
            groups=[self.group(title, group) for title, group in groups],
            published=self.published(rows),
            figures=self.figures([row for title, group in groups if title in self.charted for row in group], ACROSS),
        )

    def published(self, rows: Sequence[Row]) -> ArrangedTable | None:
        """Nothing where no text has such a row, or where there are too many cells."""
        found = with_published(rows) if len(rows) <= MOST_ARRANGED else None
        return arranged(found, self.number) if found and found.blocks else None

    def group(self, title: str, rows: list[Row]) -> RowGroup:
        wanted = [kind for kind in kinds() if kind not in ACROSS]
        charted = title in self.charted
        found = [] if only_runs(rows) else findings(rows)
        lines = [*remarks(rows), *(command_remarks(rows) if rows[0].command else [])]
        return RowGroup(
            id=f"table-{self.number(rows[0])}",
            title=page_text(title.removeprefix(f"{rows[0].cell.workload}: ").removeprefix(f"{COMMANDS}: ")),
            table=speed_table(rows, self.number),
            further=further_tables(rows, self.number),
            answers=answers(rows, self.series.epochs, self.target),
            silence=silence(rows),
            findings=[page_text(line) for line in sentences.sentences(found)],
            remarks=[page_text(line) for line in lines],
            figures=self.figures(rows, wanted) if charted else [],
            charted=charted,
        )

    def figures(self, rows: list[Row], wanted: Sequence[str]) -> list[Figure]:
        return figures(rows, self.series, self.link, wanted)

    def link(self, row: Row) -> str:
        return f"#cell-{self.number(row)}"


def _by_workload(rows: Sequence[Row]) -> dict[str, list[tuple[str, list[Row]]]]:
    """The tables of each workload, in the order in which they first come."""
    found: dict[str, list[tuple[str, list[Row]]]] = {}
    for title, group in tables(rows):
        found.setdefault(COMMANDS if group[0].command else group[0].cell.workload, []).append((title, group))
    return found


def _heading(workloads: Sequence[str]) -> str:
    if list(workloads) == [COMMANDS]:
        return "What commands cost"
    named = [page_text(name) for name in workloads if name != COMMANDS]
    listed = ", ".join(named[:2]) + (f" and {len(named) - 2} more workloads" if len(named) > 2 else "")
    return f"Training {listed}"


def _facts(details: PageData) -> list[str]:
    """How much was measured, what came of it, and when."""
    statuses = [cell.marks[0] for cell in details.cells]
    counts = [f"{count} {word}" for word, count in counted(statuses).items()]
    runs, started = len(details.runs), [run.started for run in details.runs]
    cells = f"{len(statuses):,} cell{'s' * (len(statuses) != 1)} ({', '.join(counts)})"
    ends = (min(started), max(started)) if started else ()
    days = dict.fromkeys(time.strftime("%Y-%m-%d", time.gmtime(at)) for at in ends)
    return [cells, f"{runs:,} run{'s' * (runs != 1)}", *([f"measured {' to '.join(days)}"] if days else [])]


def write_report(folder: Path, filters: Mapping[str, str | None], target: float | None, output: Path) -> str:
    """Write the page, whole or not at all; what was written, and what to look at before it is sent."""
    check_place(output, "report.html")
    store, suite = Store(folder), filters.get("suite")
    rows = chosen_rows(folder, filters, target, everything=suite is None)
    report = report_context(rows, store, layouts=layouts_of(store, suite), target=target)
    page = render_report(report, made_by=shlex.join(["paceline", *sys.argv[1:]])).encode()
    write_bytes(output, page)
    summary = f"{output}: {', '.join(report.facts)}; {_size(len(page))}"
    words = [word for row in rows if row.command for word in shlex.split(row.command.line)]
    doubtful = list(doubtful_names(words))
    return f"{summary}\n{warning(doubtful, 'report')}" if doubtful else summary


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"
