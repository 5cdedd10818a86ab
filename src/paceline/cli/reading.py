"""Commands that read results: show, compare, log, index."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from paceline.cli.application import EXIT_NO_VERDICT, EXIT_REGRESSION, Format, StoreFlag, app
from paceline.cli.filter_flags import FilterFlags
from paceline.plan.settings import Layout
from paceline.system.paths import default_store


@app.command
def show(
    *,
    filters: FilterFlags = FilterFlags(),
    layout: Layout | None = None,
    beside: Annotated[Literal["published"] | None, Parameter("--with", help="Also show published figures.")] = None,
    format: Literal[Format, "findings"] = "text",  # noqa: A002 - the flag's name
    store: StoreFlag = None,
) -> None:
    """Print the table of the last run, or of all results that the filters choose.

    Parameters
    ----------
    layout
        Shape of the table; default: the suite's. rows: a row for each cell; sources: data sources joined by /;
        matrix: frameworks by device sets; long: with machines as numbers; transposed: a table for each framework.
    """
    from paceline.cli.actions import TableOptions, show_table

    shape = TableOptions(layout, published=beside == "published")
    show_table(store or default_store(), filters.cells(), format, filters.target, shape)


@app.command
def compare(  # noqa: PLR0913 - each is a flag
    old: str,
    new: str,
    *,
    metric: str = "images/s",
    threshold: float = 0.05,
    by_name: Annotated[bool, Parameter(negative=())] = False,
    require_verdict: Annotated[bool, Parameter(negative=())] = False,
    format: Format = "text",  # noqa: A002 - the flag's name
    store: StoreFlag = None,
) -> int:
    """Compare two sets of results, cell by cell; exit code 3 if the new ones are worse.

    Parameters
    ----------
    old
        The folder of a store, or of --store suite:NAME, plan:ID, date:2026-11-15, version:torch=2.13.0 or machine:ID.
    new
        Likewise.
    metric
        What to compare: images/s, seconds (of training), memory (peak minus idle), accuracy (on the test images), or
        any other of `paceline list quantities`.
    threshold
        By which part a cell must surely be worse to make the exit code 3; of accuracies, by how much.
    by_name
        Compare the commands of `paceline time` by their names (--name), whatever their arguments.
    require_verdict
        End with exit code 4 if of any compared cell one cannot tell; a regression is exit code 3 all the same.
    """
    from paceline.analysis.comparison.compare import compare as compare_sides
    from paceline.analysis.comparison.selections import choose
    from paceline.analysis.quantities.known import comparable
    from paceline.report.studies.comparison import FORMATS
    from paceline.system.limits import check_flag

    check_flag("--threshold", threshold)
    folder = store or default_store()
    quantity = comparable(metric)
    before, after = (choose(text, folder, quantity, by_name=by_name) for text in (old, new))
    compared = compare_sides(before, after, threshold, whole=format == "json")
    sys.stdout.write(FORMATS[format](compared))
    if compared.regressions:
        return EXIT_REGRESSION
    return EXIT_NO_VERDICT if require_verdict and compared.inconclusive else 0


@app.command
def log(run: str, *, store: StoreFlag = None) -> None:
    """Print the whole log of a run.

    Parameters
    ----------
    run
        Its id, or how it begins or ends.
    """
    from paceline.cli.actions import print_log

    print_log(store or default_store(), run)


@app.command
def index(*, store: StoreFlag = None) -> None:
    """Rebuild the index from the run folders."""
    from paceline.store.newer_records import warn_of_left_out
    from paceline.store.store import Store

    folder = store or default_store()
    print(f"{Store(folder).rebuild()} runs in {folder}")
    warn_of_left_out(Store(folder).query)
