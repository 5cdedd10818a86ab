"""docs/published-commands.md, made from the data: `make docs` writes it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence

from paceline.catalog.published import Benchmark, PublishedRow, all_benchmarks
from paceline.plan.cell import Cell
from paceline.plan.cell_names import grouped
from paceline.plan.published.cells import added, planned
from paceline.plan.published.commands import all_differences, by_command, command_of, place
from paceline.report.escaping import markdown_cell

INTRODUCTION = """# From a published row to its command

For every row of the four [published benchmarks](published.md), the command that measures its cell here. This page is
made from the data by `make docs`. `paceline list published` says the same in a terminal, and `paceline show --with
published` for the rows that match what was measured.

Each command plans one cell: that of the row in the suite of the same name. Runs that the one has measured, the other
does not measure again. Rows of the same cell share a command. Where the cards that it names are missing, a command is
refused; `paceline run NAME --quick` runs the suite's small form on any machine.

*differs* is what no command can make the same, or what the text leaves open: the hardware, the version of the
framework, what the figures count. Where the text prints no rate, the command has that of its program; for
tensorflow/benchmarks, that of tensorpack.
"""


def page() -> str:
    return "\n".join([INTRODUCTION, *(line for each in all_benchmarks().values() for line in _section(each))])


def _section(benchmark: Benchmark) -> Iterator[str]:
    yield from (f"## {benchmark.name}", "", "| row | command | differs |", "|---|---|---|")
    for rows in by_command(benchmark.records).values():
        yield _line(rows)
    yield ""
    if more := added(*planned(benchmark.name)):
        yield from ("Added in the suite, with no row in the text:", "", *(f"* {line}" for line in summary(more)), "")


def _line(rows: Sequence[PublishedRow]) -> str:
    named = "; ".join(map(place, rows))
    texts = (markdown_cell(named), f"`{shlex.join(command_of(rows[0]))}`", markdown_cell(all_differences(rows)))
    return f"| {' | '.join(texts)} |"


def summary(cells: Sequence[Cell]) -> list[str]:
    """Those that differ in their devices alone are one line."""
    groups = grouped(cells, lambda cell: (cell.framework, cell.update, cell.data, cell.learning_rate))
    return [
        f"{framework}, {update}, {data}, lr={rate:g}: {', '.join(cell.devices for cell in group)}"
        for (framework, update, data, rate), group in groups.items()
    ]


if __name__ == "__main__":
    sys.stdout.write(page())
