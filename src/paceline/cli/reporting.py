"""The command that makes a page: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline.cli.application import StoreFlag, app
from paceline.cli.filters import Filters
from paceline.system.paths import default_store


@app.command
def report(
    *,
    output: Annotated[Path, Parameter(("--output", "-o"))] = Path("report.html"),
    filters: Filters = Filters(),
    store: StoreFlag = None,
) -> None:
    """Write all results, or those that the filters choose, as one HTML file that needs nothing else.

    Parameters
    ----------
    output
        The file to write.
    """
    from paceline.report.page.report_file import write_report

    print(write_report(store or default_store(), filters.cells(), filters.target, output))
