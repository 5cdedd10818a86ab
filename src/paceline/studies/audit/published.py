"""The published figures as rows that the rules of an audit understand."""

from __future__ import annotations

import re
from functools import cache
from itertools import groupby

from paceline.catalog.networks.cost import NetworkCost
from paceline.catalog.published import Benchmark, PublishedClaim, PublishedRow
from paceline.catalog.workloads import all_workloads
from paceline.studies.audit import printed_rows as p

QUANTITIES = {
    "seconds.wall_with_startup": p.SECONDS,
    "seconds.fit_with_validation": p.SECONDS,
    "seconds.user": p.USER_SECONDS,
    "seconds.system": p.SYSTEM_SECONDS,
    "seconds_per_epoch.time_cost": p.EPOCH_SECONDS,
    "seconds_per_epoch.fit_with_validation": p.EPOCH_SECONDS,
    "images_per_second.log_window": p.IMAGES_PER_SECOND,
    "images_per_second.epoch_of_60000": p.IMAGES_PER_SECOND,
    "images_per_second.progress_bar": p.IMAGES_PER_SECOND,
    "images_per_second.timed_loop": p.IMAGES_PER_SECOND,
    "memory.device_total": p.MEMORY,
    "memory.peak_minus_idle": p.MEMORY,
    "memory.peak": p.PEAK_MEMORY,
    "memory.idle": p.IDLE_MEMORY,
    "utilisation.devices": p.BUSY_DEVICES,
    "utilisation.percent": p.BUSY_PERCENT,
}
TOTAL_MEMORY = "memory.device_total"
BYTES_OF_A_WEIGHT = 4  # all four texts train in single precision


def document_of(benchmark: Benchmark) -> p.Document:
    """Its tables, claims and commands, as they were printed."""
    grouped = groupby(benchmark.records, key=lambda record: record.table)
    return p.Document(
        benchmark.name,
        tuple(_table(benchmark, title, list(rows)) for title, rows in grouped),
        tuple(_claims(benchmark)),
        tuple(_order(benchmark, each) for each in benchmark.claims if each.order),
        tuple(
            p.PrintedCommand(_where(each), each.command, each.device_count, each.framework_there)
            for each in benchmark.records
            if each.command and not {"command", "device_count"}.intersection(each.inferred)
        ),
    )


def _claims(benchmark: Benchmark) -> list[p.ProseRatio]:
    return [
        p.ProseRatio(
            _place_of(benchmark, each), QUANTITIES[each.metric], each.better, each.worse, factor, each.device_count
        )
        for each in benchmark.claims
        if (factor := p.number(each.printed))
    ]


def _order(benchmark: Benchmark, claim: PublishedClaim) -> p.ProseOrder:
    rows = {each.row: _where(each) for each in benchmark.records if claim.table in ("", each.table)}
    places = tuple(p.RankedPlace(name, row=rows[name]) for name in claim.order)
    return p.ProseOrder(_place_of(benchmark, claim), (QUANTITIES[claim.metric],), places)


def _place_of(benchmark: Benchmark, claim: PublishedClaim) -> str:
    return f'{benchmark.name}, "{claim.text}"'


def _table(benchmark: Benchmark, title: str, records: list[PublishedRow]) -> p.PrintedTable:
    rows = tuple(_row(benchmark, each) for each in records)
    totals = any(TOTAL_MEMORY in each.metrics for each in records)
    heading = "sum of memory" if totals else ""
    return p.PrintedTable(f"{benchmark.name}, {title}", rows, p.dataset_in(benchmark.dataset), heading)


def _row(benchmark: Benchmark, record: PublishedRow) -> p.PrintedRow:
    figures = {name: _numbers(metric.printed) for name, metric in record.metrics.items()}
    quantities = {QUANTITIES[name]: found for name, found in figures.items() if name in QUANTITIES}
    # A run on processors has no number of GPUs, as in its table. What no text prints is held against nothing.
    if record.device_kind != "cuda" or "device_count" not in record.inferred:
        quantities[p.DEVICES] = (p.exact(record.device_count if record.device_kind == "cuda" else 0),)
    if record.epochs and "epochs" not in record.inferred:
        quantities[p.EPOCHS] = (p.exact(record.epochs),)
    machine = benchmark.machines[record.machine]
    name = re.split(r"[.,(]\s|\s\(|,", machine.text)[0]
    return p.PrintedRow(
        _where(record),
        (record.framework, record.devices),
        quantities,
        {name: found[0] for name, found in figures.items() if name.startswith("accuracy.")},
        None if "batch" in record.inferred else p.batch(record.batch),
        {QUANTITIES[key]: each.printed_unit for key, each in record.metrics.items() if key in QUANTITIES},
        _setting(record),
        p.PrintedMachine(name, machine.devices) if machine.devices else None,
        weights_mib(record.workload) if TOTAL_MEMORY in record.metrics else 0.0,
    )


def _setting(record: PublishedRow) -> tuple[str, ...] | None:
    """What stays as devices are added, if they are of one kind."""
    kind = p.device_kind(record.devices)
    if kind is None or record.device_kind != "cuda":
        return None
    share = f"{record.batch_per_device:g} per device" if record.batch_per_device else record.batch
    if not record.batch.endswith("per GPU") and "x" not in record.batch:
        share = record.batch.partition(" ")[0]
    return (record.framework_there, record.workload, record.machine, kind, record.data, record.update, share)


@cache
def weights_mib(workload: str) -> float:
    """What each device holds at least, on which the batch has no influence."""
    return NetworkCost.of(all_workloads()[workload].graph()).trainable * BYTES_OF_A_WEIGHT / 2**20


def _where(record: PublishedRow) -> str:
    return f"{record.benchmark}, {record.table}, {record.row}"


def _numbers(printed: tuple[str, ...]) -> tuple[p.PrintedNumber, ...]:
    return tuple(found for text in printed if (found := p.number(text)))
