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
from paceline.report.document import Notes, Paragraph, Part, listing
from paceline.report.formats import as_markdown

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
    return INTRODUCTION + "\n" + as_markdown([part for each in all_benchmarks().values() for part in _section(each)])


def _section(benchmark: Benchmark) -> Iterator[Part]:
    yield Paragraph(f"## {benchmark.name}")
    yield listing(("row", "command", "differs"), list(map(_line, by_command(benchmark.records).values())))
    if more := added(*planned(benchmark.name)):
        yield from (Paragraph("Added in the suite, with no row in the text:"), Notes(summary(more)))


def _line(rows: Sequence[PublishedRow]) -> tuple[str, ...]:
    return "; ".join(map(place, rows)), f"`{shlex.join(command_of(rows[0]))}`", all_differences(rows)


def summary(cells: Sequence[Cell]) -> list[str]:
    """Those that differ in their devices alone are one line."""
    groups = grouped(cells, lambda cell: (cell.framework, cell.update, cell.data, cell.learning_rate))
    return [
        f"{framework}, {update}, {data}, lr={rate:g}: {', '.join(cell.devices for cell in group)}"
        for (framework, update, data, rate), group in groups.items()
    ]


if __name__ == "__main__":
    sys.stdout.write(page())
