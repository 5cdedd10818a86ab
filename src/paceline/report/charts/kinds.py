"""The kinds of charts, and which rows are drawn together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from paceline.analysis.quantities.definition import LESS, MORE, Quantity
from paceline.analysis.quantities.known import SPEED, WHERE_KNOWN, brought
from paceline.analysis.rows.labels import update
from paceline.analysis.rows.row import Row
from paceline.plan.cell_names import grouped
from paceline.report.charts import bars, curves, durations, lines
from paceline.report.charts.captions import MOST_DESCRIBED, WITHOUT_RESULT, about, fixed, short, where_and_what
from paceline.report.charts.material import ChartData, Drawing, Link
from paceline.report.escaping import few
from paceline.report.tables.columns import machine_of, title, titled
from paceline.store.series import Series

LONGEST_TITLE, LONGEST_NOTE = 80, 400


@dataclass(frozen=True)
class ChartKind:
    title: str
    lead: str  # what the numbers in its description are
    marks: str  # what its marks mean
    needs: str  # what must have been measured
    draw: Callable[[ChartData], Drawing | None]
    shared: Callable[[Sequence[Row]], Callable[[Row], str]] = titled  # rows that are alike in it are drawn together
    on_pages: Callable[[Row], bool] = lambda row: True  # rows of which a page shows it unasked


def without_batch(rows: Sequence[Row]) -> Callable[[Row], str]:
    """What rows share that differ in their batch; the steps follow from it where epochs were asked for."""
    machine = machine_of(rows)
    return lambda row: (title(row, "") if row.command else _settings(row)) + machine(row)


def _settings(row: Row) -> str:
    data = f"{row.cell.data} {row.cell.input}".strip()
    cores = f", {row.cores_per_device} core{'s' if row.cores_per_device > 1 else ''} per device"
    cores = cores if "cpu" in row.cell.devices else ""
    return f"{row.cell.workload}: {data}, {row.cell.precision}, {update(row)}{cores}"


KINDS = {
    "speed": ChartKind(
        title="Training speed",
        lead="Images per second, the fastest first",
        marks="bars: median of fresh processes; lines: 95 % interval",
        needs="runs that ended well and know how many images they trained",
        draw=partial(bars.estimated, SPEED),
    ),
    "scaling": ChartKind(
        title="Scaling",
        lead="Speed-up against one device",
        marks="points: median of fresh processes; lines across: 95 % interval; dashed: ideal",
        needs="the same training on one device and on several, as `paceline run WORKLOAD --scale 1,2` measures it",
        draw=lines.scaling,
    ),
    "memory": ChartKind(
        title="Memory",
        lead="Peak minus idle memory of a device in MiB, the least first",
        marks="bars: the largest device; lines: lowest to highest device, or run",
        needs="runs that ended well and whose memory was seen",
        draw=bars.memory,
    ),
    "steps": ChartKind(
        title="Time of a step",
        lead="Median of a step with its lowest and highest block",
        marks="means of blocks of steps, all runs; boxes: middle half and median; lines: lowest to highest",
        needs="training runs that ended well; a command measured from outside has no steps",
        draw=durations.steps,
    ),
    "loss": ChartKind(
        title="Training loss",
        lead="Last training loss",
        marks="lines: mean of each block, median of the runs, as long as all have one; "
        "shade: from the lowest to the highest run",
        needs="training runs of two blocks or more whose loss is a number",
        draw=curves.loss,
        on_pages=lambda row: not row.cell.data.startswith("fake:"),  # labels at random: nothing is learnt
    ),
    "accuracy": ChartKind(
        title="Accuracy",
        lead="Last test accuracy",
        marks="thick: test, thin: training, median of the runs; shade: from the lowest to the highest run",
        needs="real data with evaluation, as `paceline run WORKLOAD --data cifar10 --epochs 2` measures it",
        draw=curves.accuracy,
    ),
    "phases": ChartKind(
        title="Where the time goes",
        lead="Sum of the phases' medians",
        marks="median of the runs; of several ranks the slowest; "
        "dark: the train phase, with the pauses between its blocks, which images/s leaves out",
        needs="training runs that ended well; a command measured from outside has no phases",
        draw=durations.phases,
    ),
    "batch": ChartKind(
        title="Speed against batch size",
        lead="The batch with the most images per second",
        marks="points: median of fresh processes; lines across: 95 % interval",
        needs="the same training with several batches, as `paceline run WORKLOAD --batch-size 32,64,128` measures it",
        draw=lines.batch,
        shared=without_batch,
    ),
}


@cache
def kinds() -> Mapping[str, ChartKind]:
    """With one for each quantity that not every machine has, and for each of a plug-in."""
    further = [each for each in (*WHERE_KNOWN, *brought()) if each.name not in KINDS]
    return KINDS | {each.name: _of_quantity(each) for each in further}


def _of_quantity(quantity: Quantity) -> ChartKind:
    return ChartKind(
        title=quantity.label,
        lead={MORE: "The most first", LESS: "The least first"}.get(quantity.better, "Each cell"),
        marks=KINDS["speed"].marks,
        needs=f"{quantity.meaning}; there is none of {quantity.absent or 'these results'}",
        draw=partial(bars.estimated, quantity),
    )


@dataclass(frozen=True)
class Picture:
    """A chart: ready for a page or a file."""

    kind: str
    title: str
    shared: str  # what its rows have in common
    notes: Sequence[str]  # what is fixed, what its marks mean, and what is missing or doubtful
    description: str  # in words
    drawing: Drawing


def pictures(kind: str, rows: Sequence[Row], series: Series, link: Link = lambda row: "") -> Iterator[Picture]:
    """A picture of this kind for each group of rows that has the data for it, in the order of the rows."""
    made = kinds()[kind]
    for shared, group in grouped(rows, made.shared(rows)).items():
        drawing = made.draw(ChartData(group, series, link))
        if drawing:
            yield _picture(kind, shared, group, drawing)


def _picture(kind: str, shared: str, rows: Sequence[Row], drawing: Drawing) -> Picture:
    made = kinds()[kind]
    heading = made.title if rows[0].command else f"{made.title}: {rows[0].cell.workload}"
    notes = [*fixed(rows, shared.removeprefix(f"{rows[0].cell.workload}: ")), made.marks, *drawing.notes]
    in_words = [
        f"{made.lead}: {few(drawing.values_in_words, MOST_DESCRIBED)}",
        *drawing.notes,
        *_unnamed(rows, drawing.notes),
    ]
    return Picture(
        kind=kind,
        title=short(heading, LONGEST_TITLE),
        shared=short(shared, LONGEST_NOTE),
        notes=[short(note, LONGEST_NOTE) for note in notes],
        description=" ".join(f"{each}." for each in in_words),
        drawing=drawing,
    )


def _unnamed(rows: Sequence[Row], notes: Sequence[str]) -> list[str]:
    """Cells without result that only the picture shows: a description must name them."""
    if any(note.startswith(WITHOUT_RESULT) for note in notes):
        return []
    return about((where_and_what(row), row) for row in rows if row.status in WITHOUT_RESULT)
