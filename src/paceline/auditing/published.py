"""The published figures as rows that the rules of an audit understand."""

from __future__ import annotations

from itertools import groupby

from paceline.auditing.rows import (
    BUSY_DEVICES,
    DEVICES,
    EPOCH_SECONDS,
    EPOCHS,
    IDLE_MEMORY,
    IMAGES_PER_SECOND,
    MEMORY,
    PEAK_MEMORY,
    SECONDS,
    Claim,
    Command,
    Document,
    Number,
    Row,
    Table,
    batch,
    dataset_in,
    exact,
    number,
)
from paceline.published import Benchmark, Record

QUANTITIES = {
    "seconds.wall_with_startup": SECONDS,
    "seconds.fit_with_validation": SECONDS,
    "seconds_per_epoch.time_cost": EPOCH_SECONDS,
    "seconds_per_epoch.fit_with_validation": EPOCH_SECONDS,
    "images_per_second.log_window": IMAGES_PER_SECOND,
    "images_per_second.epoch_of_60000": IMAGES_PER_SECOND,
    "images_per_second.progress_bar": IMAGES_PER_SECOND,
    "images_per_second.timed_loop": IMAGES_PER_SECOND,
    "memory.device_total": MEMORY,
    "memory.peak_minus_idle": MEMORY,
    "memory.peak": PEAK_MEMORY,
    "memory.idle": IDLE_MEMORY,
    "utilisation.devices": BUSY_DEVICES,
}


def document_of(benchmark: Benchmark) -> Document:
    """Its tables, claims and commands, as they were printed."""
    grouped = groupby(benchmark.records, key=lambda record: record.table)
    dataset = dataset_in(benchmark.dataset)
    claims = (
        Claim(f'{benchmark.name}, "{each.text}"', QUANTITIES[each.metric], each.better, each.worse, factor)
        for each in benchmark.claims
        if (factor := number(each.printed))
    )
    return Document(
        benchmark.name,
        tuple(Table(f"{benchmark.name}, {title}", tuple(map(_row, rows)), dataset) for title, rows in grouped),
        tuple(claims),
        tuple(Command(_where(each), each.command, each.device_count) for each in benchmark.records if each.command),
    )


def _row(record: Record) -> Row:
    figures = {name: _numbers(metric.printed) for name, metric in record.metrics.items()}
    quantities = {QUANTITIES[name]: found for name, found in figures.items() if name in QUANTITIES}
    # A run on processors has no number of GPUs, as in its table.
    quantities[DEVICES] = (exact(record.device_count if record.device_kind == "cuda" else 0),)
    if record.epochs:
        quantities[EPOCHS] = (exact(record.epochs),)
    accuracies = {name: found[0] for name, found in figures.items() if name.startswith("accuracy.")}
    return Row(_where(record), (record.framework, record.devices), quantities, accuracies, batch(record.batch))


def _where(record: Record) -> str:
    return f"{record.benchmark}, {record.table}, {record.row}"


def _numbers(printed: tuple[str, ...]) -> tuple[Number, ...]:
    return tuple(found for text in printed if (found := number(text)))
