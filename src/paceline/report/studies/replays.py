"""A run and its replay, quantity by quantity."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from paceline.analysis.comparison.differences import NOTHING_ELSE
from paceline.report.document import Document, Heading, Notes, Table, Title
from paceline.report.formats import formats
from paceline.report.studies.comparison import change
from paceline.studies.replay.results import Replay, ReplayLine
from paceline.system.text.formatting import NOTHING, number

INTERVAL = "95 % interval"
HEADINGS = ("", "old", "new", "new/old", INTERVAL, "verdict")


def document(replay: Replay) -> Document:
    title = f"{replay.cell}: {_runs(replay.old_runs)} and again as {_runs(replay.new_runs)}"
    return [Title(title, whole=True), _table(replay.lines), Notes(list(notes(replay)))]


def _runs(ids: Sequence[str]) -> str:
    return f"run {ids[0]}" + (f" with {len(ids) - 1} more of its cell" if len(ids) > 1 else "")


def _table(lines: Sequence[ReplayLine]) -> Table:
    """Without a column of intervals where no quantity has one."""
    rows = [dict(zip(HEADINGS, _cells(line), strict=True)) for line in lines]
    shown = [name for name in HEADINGS if name != INTERVAL or any(row[name] != NOTHING for row in rows)]
    headings = [Heading(name, number=name not in ("", "verdict"), whole=name != "verdict") for name in shown]
    return Table(headings, [[row[name] for name in shown] for row in rows], optional=True)


def _cells(line: ReplayLine) -> tuple[str, ...]:
    return (
        line.name,
        _median(line.old, line.name),
        _median(line.new, line.name),
        *change(line.ratio, line.difference),
        ": ".join(filter(None, (line.verdict, line.reason))),
    )


def _median(values: Sequence[float], name: str) -> str:
    if not values:
        return NOTHING
    median = statistics.median(values)
    return f"{median:.3f}" if "accuracy" in name else number(median)


def notes(replay: Replay) -> Iterator[str]:
    """Failures first, then losses, then what else is not the same."""
    yield from (f"old: {failure}" for failure in replay.old_failures)
    yield from (f"new: {failure} (paceline log {failure.split()[0]})" for failure in replay.new_failures)
    if replay.losses:
        yield replay.losses
    yield from (f"differs: {difference}" for difference in replay.differences)
    if not replay.differences:
        yield NOTHING_ELSE
    if any(line.difference for line in replay.lines):
        yield "accuracies: new less old"
    if any(line.ratio for line in replay.lines):
        yield "old and new were measured at different times: a change of the machine's mood looks like a difference"
    if len(replay.new_runs) == 1 and replay.lines:
        yield "--repeats 5 measures it five times, against all runs of its cell"


FORMATS = formats(document)
