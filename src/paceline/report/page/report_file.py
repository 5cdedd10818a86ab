"""The report as a file that can be sent to a colleague."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from paceline.analysis.rows.table_rows import chosen_rows
from paceline.report.charts import start_drawing
from paceline.report.page.report_page import layouts_of, render_report, report_context
from paceline.store.store import Store
from paceline.system.files.atomic_files import check_place, write_bytes
from paceline.system.text.secret_names import doubtful_names, warning


def write_report(folder: Path, filters: Mapping[str, str | None], target: float | None, output: Path) -> str:
    """Write the page, whole or not at all; what was written, and what to look at before it is sent."""
    check_place(output, "report.html")
    start_drawing()
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
