"""Published figures beside our own: side by side in any case, divided only where like stands by like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from paceline.metrics import Row
from paceline.published import Metric, Record, all_benchmarks, definitions
from paceline.report.columns import number, part, where
from paceline.report.layouts import Grid

OURS: dict[str, Callable[[Row], float | None]] = {  # by the first word of a definition
    "images_per_second": lambda row: row.images_per_second.median if row.images_per_second else None,
    "seconds": lambda row: row.seconds,
    "seconds_per_epoch": lambda row: row.seconds_per_epoch,
    "accuracy": lambda row: row.test_accuracy.median if row.test_accuracy else None,
    "memory": lambda row: sum(row.peak_memory_mib) if row.peak_memory_mib else None,
}
NAMES = {
    "images_per_second": "images/s",
    "seconds": "s",
    "seconds_per_epoch": "s/epoch",
    "accuracy": "accuracy",
    "memory": "MiB",
}
LEFT_OUT = (  # we have no such column, or another line says it
    "seconds.user",
    "seconds.system",
    "accuracy.training",
    "memory.idle",
    "memory.peak",
)
HEADINGS = ("framework", "on", "published on", "what", "here", "there", "ratio")


@dataclass(frozen=True)
class Pair:
    """A row and a published record of the same network, framework and number of devices, in one metric."""

    row: Row
    record: Record
    metric: Metric

    @property
    def kind(self) -> str:
        return self.metric.definition.partition(".")[0]

    @property
    def there(self) -> float:
        """As it should have been printed."""
        corrected = self.metric.error.corrected if self.metric.error else None
        return corrected if isinstance(corrected, float) else self.metric.value

    def unlike(self) -> list[str]:
        """Why the two must not be divided; empty if they may."""
        found = definitions()[self.metric.definition]
        reasons = [] if found.same else [f"the published figure counts something else: {found.counts}"]
        if self.record.batch_size not in (None, self.row.batch_size):
            reasons.append("another batch")
        if self.kind == "memory" and self.record.device_kind not in self.row.devices:
            reasons.append("memory of a process here, of cards there")
        if self.row.quick:
            reasons.append("scaled down here by --quick")
        if self.kind == "seconds" and self.record.epochs != self.row.epochs:
            reasons.append("another number of epochs")
        return reasons


def beside_published(rows: Sequence[Row]) -> Grid:
    """One line for each figure that both have."""
    pairs = [pair for row in rows for pair in pairs_of(row)]
    reasons = list(dict.fromkeys(reason for pair in pairs for reason in pair.unlike()))
    letters = dict(zip(reasons, labels(), strict=False))
    lines = [_line(pair, letters) for pair in pairs]
    errors = dict.fromkeys(f"{pair.record.row}: {pair.metric.error.why}" for pair in pairs if pair.metric.error)
    notes = [f"({label}) not divided: {reason}" for reason, label in letters.items()]
    notes += [f"known error of the published table: {error}" for error in errors]
    notes.append("ratio: here / there, on other hardware; `paceline audit published` lists all errors of the tables")
    if not pairs:
        notes = ["none of these cells has a published figure: other networks, frameworks or numbers of devices"]
    return Grid("published figures", (HEADINGS, *lines), tuple(notes), turns=False)


def labels() -> Iterator[str]:
    yield from ascii_lowercase
    yield from (first + second for first in ascii_lowercase for second in ascii_lowercase)


def pairs_of(row: Row) -> Iterator[Pair]:
    for benchmark in all_benchmarks().values():
        for record in benchmark.records:
            if _same_cell(row, record):
                for name, metric in record.metrics.items():
                    kind = name.partition(".")[0]
                    if name not in LEFT_OUT and kind in OURS and OURS[kind](row) is not None:
                        yield Pair(row, record, metric)


def _same_cell(row: Row, record: Record) -> bool:
    """The same network on the same framework and number of devices; update and data where they are said."""
    return (
        (row.workload, row.framework.partition("+")[0], row.device_count)
        == (record.workload, record.framework, record.device_count)
        and record.update in ("", row.update)
        and (record.data in ("", row.data) or not record.data.startswith("fake"))
    )


def _line(pair: Pair, letters: dict[str, str]) -> tuple[str, ...]:
    here = OURS[pair.kind](pair.row) or 0.0
    unlike = pair.unlike()
    show = part if pair.kind == "accuracy" else number
    ratio = f"({''.join(letters[reason] for reason in unlike)})" if unlike else f"{here / pair.there:.2f}"
    mark = "!" if pair.metric.error else ""
    source = f" {pair.row.data.removeprefix('fake:')}" if pair.record.data.startswith("fake") else ""
    return (
        pair.row.framework,
        where(pair.row) + source,
        f"{pair.record.devices}, {pair.record.batch}",
        NAMES[pair.kind],
        show(here),
        show(pair.there) + mark,
        ratio,
    )
