"""The command that draws a chart: chart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from paceline.cli.application import StoreFlag, app
from paceline.cli.filters import Filters
from paceline.system.paths import default_store


@app.command
def chart(
    kind: str,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    table: int = 1,
    theme: Literal["light", "dark"] = "light",
    filters: Filters = Filters(),
    store: StoreFlag = None,
) -> None:
    """Draw a chart of the last run, or of all results that the filters choose, into a file.

    Parameters
    ----------
    kind
        speed, scaling, memory, steps, loss, accuracy, phases or batch.
    output
        The file, which ends in .svg, .png or .pdf; default: KIND.svg.
    table
        Which table to draw, where the results make several; what was drawn is printed, and what else there is.
    theme
        Dark ink on white, or light ink on dark.
    """
    from paceline.report.charts.files import Wish, draw

    wish = Wish(kind, output or Path(f"{kind}.svg"), table, theme)
    print(draw(wish, store or default_store(), filters.cells(), filters.target))
