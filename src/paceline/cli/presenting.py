"""Commands that present results: chart, report, serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from paceline.cli.application import StoreFlag, app
from paceline.cli.filter_flags import FilterFlags
from paceline.system.paths import default_store


@app.command
def chart(
    kind: str,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    table: int = 1,
    theme: Literal["light", "dark"] = "light",
    filters: FilterFlags = FilterFlags(),
    store: StoreFlag = None,
) -> None:
    """Draw a chart of the last run, or of all results that the filters choose, into a file.

    Parameters
    ----------
    kind
        speed, scaling, memory, steps, loss, accuracy, phases or batch; or a quantity of a plug-in, by its name.
    output
        The file, which ends in .svg, .png or .pdf; default: KIND.svg.
    table
        Which table to draw, where the results make several; what was drawn is printed, and what else there is.
    theme
        Dark ink on white, or light ink on dark.
    """
    from paceline.report.charts.chart_files import ChartRequest, draw

    wish = ChartRequest(kind, output or Path(f"{kind}.svg"), table, theme)
    print(draw(wish, store or default_store(), filters.cells(), filters.target))


@app.command
def report(
    *,
    output: Annotated[Path, Parameter(("--output", "-o"))] = Path("report.html"),
    filters: FilterFlags = FilterFlags(),
    store: StoreFlag = None,
) -> None:
    """Write all results, or those that the filters choose, as one HTML file that needs nothing else.

    Parameters
    ----------
    output
        The file to write.
    """
    from paceline.report.page.report_page import write_report

    print(write_report(store or default_store(), filters.cells(), filters.target, output))


@app.command
def serve(*, port: int = 8640, host: str = "127.0.0.1", store: StoreFlag = None) -> None:
    """Show results in a browser: reports, runs and logs, comparisons, and a running plan as it goes on.

    Parameters
    ----------
    port
        Where to listen; 0 takes any that is free.
    host
        An address of this machine; any but the loopback wants a token, which is printed or taken from $PACELINE_TOKEN.
    """
    from paceline.report.server.application import serve as serve_store

    try:
        serve_store(store or default_store(), host, port, lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        return  # the usual way to end it
