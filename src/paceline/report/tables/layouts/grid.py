"""A table in words, and what all shapes of tables say about their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.row import Row
from paceline.report.tables.small_forms import only_runs
from paceline.system.text.formatting import NOTHING, number

GridPlace = tuple[int, int]  # line and column of a table; line 0 has the headings
GridCells = tuple[Row | None, ...]  # None where there is no such cell
JOINT = "/"  # between the values of several cells in one place


@dataclass(frozen=True)
class Grid:
    """A table that is words already: a title above it, notes below."""

    title: str
    lines: tuple[tuple[str, ...], ...]  # the first has the headings
    notes: tuple[str, ...]
    turns: bool = True  # may be turned on its side to fit
    words: int = 1  # first columns that are no numbers
    unbroken: int = 2  # first columns whose names are not broken to fit
    blocks: tuple[str, ...] = ()  # lines below the notes that must stay as they are, such as commands
    blocks_title: str = ""  # what they are, where they do not say it themselves
    cells: Mapping[GridPlace, GridCells] = field(default_factory=dict)  # whose values stand in a place, in order

    def transposed(self) -> Grid:
        turned = {(column, line): cells for (line, column), cells in self.cells.items()}
        return replace(self, lines=tuple(zip(*self.lines, strict=True)), cells=turned)


def speed(row: Row | None) -> str:
    if row is None:
        return NOTHING
    return number(row.median(SPEED)) if row.estimate(SPEED) else row.status


def sureness(rows: Sequence[Row]) -> list[str]:
    """How sure the numbers are, where there are any: most shapes have no room for an interval at each."""
    what = "real seconds" if any(row.command for row in rows) else "images/s"
    values = [row.judged for row in rows if row.judged]
    if not values or only_runs(rows):
        return []
    widths = sorted(value.width for value in values if value.width is not None)
    if not widths:
        return ["one run each: how sure these numbers are is not known; more repeats tell"]
    middle = widths[len(widths) // 2]
    return [f"95 % intervals of {what} are {middle:.0%} of the value wide in the middle and {widths[-1]:.0%} at most"]


SCALING_KINDS = {
    "weak": "weak scaling: the batch grows with the devices",
    "strong": "strong scaling: the batch stays the same on more devices",
}


def scaling_kinds(rows: Sequence[Row]) -> list[str]:
    """How the batch follows the devices, where results of several numbers of devices stand together."""
    counts = {(row.cell.scaling, row.device_count) for row in rows if not row.command}
    found = [kind for kind, _ in counts]
    return [text for kind, text in SCALING_KINDS.items() if found.count(kind) > 1]
