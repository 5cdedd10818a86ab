"""Published figures next to our own: side by side in any case, divided only where like stands by like."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from paceline.analysis.quantities.known import MEMORY, SECONDS, SPEED, TEST_ACCURACY
from paceline.analysis.rows.labels import SETTINGS, where
from paceline.analysis.rows.row import Row
from paceline.catalog.published import PublishedFigure, PublishedRow, all_benchmarks, definitions
from paceline.plan.cell_names import distinctions, grouped
from paceline.plan.published.cells import device_count, rows_of
from paceline.plan.published.commands import NAMES, blocks, by_command
from paceline.report.escaping import few
from paceline.report.tables.columns import part
from paceline.report.tables.layouts import Grid
from paceline.report.tables.remarks import supplied_exchange
from paceline.system.text.formatting import number

OURS: dict[str, Callable[[Row], float | None]] = {  # by the first word of a definition
    "images_per_second": lambda row: row.median(SPEED),
    "seconds": lambda row: row.median(SECONDS),
    "seconds_per_epoch": lambda row: row.seconds_per_epoch,
    "accuracy": lambda row: row.median(TEST_ACCURACY),
    "memory": lambda row: sum(row.of_each(MEMORY)) if row.of_each(MEMORY) else None,
}
LEFT_OUT = (  # we have no such column, or another line says it
    "seconds.user",
    "seconds.system",
    "accuracy.training",
    "memory.idle",
    "memory.peak",
)
TRAININGS = ("seconds", "accuracy")  # figures of a whole training, which its length decides
TINY = 1e-6  # what rounding may do
TITLE = "published figures"
ALWAYS = (
    "ratio: here / there, on other hardware; `paceline audit published` lists all errors of the tables",
    "[1] and so on: the command below that measures the published row here; `paceline list published` has all rows",
)
COMMANDS_TITLE = "The command of each published row, and what will differ all the same"
MOST_PLACES = 8
DISTINGUISHING = {name: SETTINGS[name] for name in ("batch", "learning rate", "length")}
HEADINGS = ("framework", "on", "published on", "what", "here", "there", "ratio")


@dataclass(frozen=True)
class PublishedPair:
    """A row and a published record of the same network, framework and number of devices, in one metric."""

    row: Row
    record: PublishedRow
    metric: PublishedFigure

    @property
    def kind(self) -> str:
        return self.metric.definition.partition(".")[0]

    @property
    def there(self) -> float:
        """As it should have been printed; of all devices together."""
        corrected = self.metric.error.corrected if self.metric.error else None
        if isinstance(corrected, tuple):
            return math.fsum(corrected)
        return corrected if isinstance(corrected, float) else self.metric.value

    def differences(self) -> list[str]:
        """Why the two must not be divided; empty if they may."""
        found = definitions()[self.metric.definition]
        reasons = [] if found.same else [f"the published figure counts something else: {found.counts}"]
        return reasons + [reason for reason, is_so in DIFFERENCES.items() if is_so(self)]


# Published figures are of float32, plain modes and devices as they were.
DIFFERENCES: dict[str, Callable[[PublishedPair], bool]] = {
    "the network was built wrongly there": lambda pair: any(error.field == "workload" for error in pair.record.errors),
    "its batch is not known": lambda pair: pair.record.batch_size is None,
    "another batch": lambda pair: pair.record.batch_size not in (None, pair.row.cell.batch_size),
    "another precision than float32 here": lambda pair: pair.row.cell.precision != "float32",
    "another mode of the framework here": lambda pair: "+" in pair.row.cell.framework,
    "devices slowed down on purpose here": lambda pair: bool(pair.row.cell.slow),
    "one device here in what several devices need": lambda pair: pair.row.cell.wrapped,
    "the exchange between devices here is Paceline's": lambda pair: bool(supplied_exchange(pair.row)),
    "memory of a process here, of cards there": lambda pair: (
        pair.kind == "memory" and pair.record.device_kind not in pair.row.cell.devices
    ),
    "scaled down here by --quick": lambda pair: pair.row.quick,
    "its number of epochs is not known": lambda pair: pair.kind in TRAININGS and pair.record.epochs is None,
    "another number of epochs": lambda pair: (
        pair.kind in TRAININGS and pair.record.epochs is not None and not has_epochs(pair.row, pair.record.epochs)
    ),
    "its learning rate is not known": lambda pair: pair.kind == "accuracy" and pair.record.learning_rate is None,
    "another learning rate": lambda pair: pair.kind == "accuracy" and not _rate_may_be(pair.record, pair.row),
}


def has_epochs(row: Row, epochs: int) -> bool:
    """Within one step; some inputs fill up the last batch of each epoch, and so have more steps."""
    if not row.epochs:
        return False
    batches = row.cell.steps / row.epochs
    return any(abs(row.cell.steps - epochs * steps) <= 1 + TINY for steps in (batches, math.ceil(batches - TINY)))


def _rate_may_be(record: PublishedRow, row: Row) -> bool:
    return record.learning_rate is None or math.isclose(record.learning_rate, row.cell.learning_rate)


def with_published(rows: Sequence[Row]) -> Grid:
    """One line for each figure that both have, and the commands that measure the published rows here."""
    pairs, bare = [pair for row in rows for pair in pairs_of(row)], _without_figures(rows)
    if not pairs and not bare:
        notes = ["none of these cells has a published figure: other networks, frameworks or numbers of devices"]
        return Grid(TITLE, (HEADINGS,), tuple(notes), turns=False)
    reasons = list(dict.fromkeys(reason for pair in pairs for reason in pair.differences()))
    letters = dict(zip(reasons, labels(), strict=False))
    records = _once([*(pair.record for pair in pairs), *bare])
    numbers = {id(row): number for number, of in enumerate(by_command(records).values(), 1) for row in of}
    places = _places(rows)
    lines = [_line(pair, places[id(pair.row)], letters, numbers[id(pair.record)]) for pair in pairs]
    notes = [f"({label}) not divided: {reason}" for reason, label in letters.items()]
    notes += [f"[{numbers[id(record)]}] no figure there: {_why_bare(record)}" for record in bare]
    return Grid(
        TITLE,
        (HEADINGS, *lines),
        (*notes, *_errors(pairs), *_inferred(pairs), *_added(rows), *ALWAYS),
        turns=False,
        unbroken=1,
        words=4,
        blocks=tuple(blocks(records, numbered=True)),
        blocks_title=COMMANDS_TITLE,
    )


def _once(records: Iterable[PublishedRow]) -> list[PublishedRow]:
    return list({id(record): record for record in records}.values())


def _without_figures(rows: Sequence[Row]) -> list[PublishedRow]:
    """Published rows of these cells that crashed, or were left blank."""
    bare = [record for benchmark in all_benchmarks().values() for record in benchmark.records if not record.metrics]
    return [record for record in bare if any(_same_cell(row, record) and _same_batch(row, record) for row in rows)]


def _same_batch(row: Row, record: PublishedRow) -> bool:
    return record.batch_size == row.cell.batch_size


def _why_bare(record: PublishedRow) -> str:
    if record.failure:
        return f"{record.row} crashed with {record.failure.strip().partition(':')[0]}"
    return f"{record.row} is blank"


def _added(rows: Sequence[Row]) -> list[str]:
    """Cells that are not those of any published row; in a small form none is."""
    if rows and all(row.quick for row in rows):
        return ["+ scaled down by --quick: no cell is that of a published row, the nearest rows are shown"]
    more = [row for row in rows if not row.command and (row.quick or not rows_of(row.cell))]
    groups = grouped(more, lambda row: (row.cell.framework, row.cell.workload))
    return [
        f"+ cells without a published row: {framework}, {workload}: {few(map(_place, group), MOST_PLACES, ', ')}"
        for (framework, workload), group in groups.items()
    ]


def _place(row: Row) -> str:
    """With all that may set it apart from the published ones."""
    return f"{_set(row)} {row.cell.batch_size} (lr={row.cell.learning_rate:g})"


def _set(row: Row) -> str:
    """The devices, how they agree and where fake images come from."""
    source = row.cell.data.removeprefix("fake:") if row.cell.data.startswith("fake") else ""
    update = row.cell.update if row.cell.update != "replicated" else ""
    return " ".join(filter(None, (where(row), source, update)))


def _places(rows: Sequence[Row]) -> dict[int, str]:
    """Of each row, with its batch, rate or length where these alone set it apart from another."""
    found: dict[int, str] = {}
    for group in grouped(rows, lambda row: (row.cell.workload, row.cell.framework)).values():
        labelled = zip(group, distinctions(group, _set, DISTINGUISHING), strict=True)
        found |= {id(row): f"{_set(row)} {label}".strip() for row, label in labelled}
    return found


def _errors(pairs: Sequence[PublishedPair]) -> list[str]:
    """What is known to be wrong with the records, those with the same error together."""
    places: dict[str, dict[str, None]] = {}
    for pair in pairs:
        for error in pair.record.errors:
            places.setdefault(error.why, {})[f"{pair.record.table}, {pair.record.row}"] = None
    return [f"! known error of the published table: {'; '.join(named)}: {why}" for why, named in places.items()]


def _inferred(pairs: Sequence[PublishedPair]) -> list[str]:
    """What is shown of a text though it does not print it, by the reason."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for record, metric in ((pair.record, pair.metric) for pair in pairs):
        for name, why in record.inferred.items():
            if name not in record.metrics or name == metric.definition:
                found.setdefault((record.benchmark, why), {})[name.partition(".")[0].replace("_", " ")] = None
    return [f"~ inferred, not printed by {name}: {', '.join(shown)}: {why}" for (name, why), shown in found.items()]


def labels() -> Iterator[str]:
    yield from ascii_lowercase
    yield from (first + second for first in ascii_lowercase for second in ascii_lowercase)


def pairs_of(row: Row) -> Iterator[PublishedPair]:
    """With the records that are most like the row."""
    records = [record for benchmark in all_benchmarks().values() for record in benchmark.records]
    for record in _most_like(row, [record for record in records if _same_cell(row, record) and _shared(row, record)]):
        for metric in _shared(row, record):
            yield PublishedPair(row, record, metric)


def _same_cell(row: Row, record: PublishedRow) -> bool:
    """The same network on the same framework and number of devices; update and data where they are given."""
    return (
        (row.cell.workload, row.cell.framework.partition("+")[0], row.device_count)
        == (record.workload, record.framework, device_count(record))
        and record.update in ("", row.cell.update)
        and (record.data in ("", row.cell.data) or not record.data.startswith("fake"))
    )


def _shared(row: Row, record: PublishedRow) -> list[PublishedFigure]:
    """Figures of a record of which the row has its own."""
    kinds = {name: name.partition(".")[0] for name in record.metrics if name not in LEFT_OUT}
    return [record.metrics[name] for name, kind in kinds.items() if kind in OURS and OURS[kind](row) is not None]


def _most_like(row: Row, records: Sequence[PublishedRow]) -> list[PublishedRow]:
    """Those of the same batch and learning rate, or else of the nearest batch, or else all: none has a known batch."""
    same = [record for record in records if record.batch_size == row.cell.batch_size and _rate_may_be(record, row)]
    sizes = [record.batch_size for record in records if record.batch_size is not None]
    nearest = min(sizes, key=lambda size: abs(size - row.cell.batch_size), default=None)
    return same or [record for record in records if record.batch_size == nearest]


def _line(pair: PublishedPair, place: str, letters: dict[str, str], command: int) -> tuple[str, ...]:
    here = OURS[pair.kind](pair.row) or 0.0
    reasons = pair.differences()
    show = part if pair.kind == "accuracy" else number
    ratio = f"({''.join(letters[reason] for reason in reasons)})" if reasons else f"{here / pair.there:.2f}"
    return (
        pair.row.cell.framework,
        place,
        f"[{command}] {pair.record.devices}, {pair.record.batch}" + "!" * _is_doubtful(pair.record),
        NAMES[pair.kind],
        show(here),
        show(pair.there) + "!" * bool(pair.metric.error) + "~" * (pair.metric.definition in pair.record.inferred),
        ratio,
    )


def _is_doubtful(record: PublishedRow) -> bool:
    """Whether an error is not about one of its figures, but about what was measured."""
    return any(error.field not in record.metrics for error in record.errors)
