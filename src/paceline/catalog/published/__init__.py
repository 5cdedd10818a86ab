"""The figures of four published benchmarks, every one with what it counts and what is known to be wrong with it.

The figures stay as they were printed. Nothing here measures or judges them: our cells for them are in `plan.published`,
and `studies.audit` finds their contradictions.
"""

from __future__ import annotations

import tomllib
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

NAMES = ("neon-vs-mxnet", "mxnet-multi-gpu", "keras-backends", "tensorpack-vs-tf")  # in the order of their ages


class PublishedStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all of these are: values whose every field is meant."""


class Definition(PublishedStruct, frozen=True, kw_only=True):
    """What a kind of figure counts."""

    id: str
    unit: str
    counts: str
    ours: str  # our own definition of the same kind; empty if we have none
    same: bool  # it counts the same as ours


class Publication(PublishedStruct, frozen=True, kw_only=True):
    title: str
    author: str
    program: str
    revision: str
    date: str


class PublishedMachine(PublishedStruct, frozen=True, kw_only=True):
    id: str
    text: str
    devices: int | None = None  # the GPUs that it has; None where that is not known
    cards: tuple[str, ...] = ()  # by their numbers, as the devices of its rows are called; empty where all are alike
    inferred: dict[str, str] = {}  # why a field holds what its text does not print


class Erratum(PublishedStruct, frozen=True, kw_only=True):
    """Something that is known to be wrong."""

    field: str  # the metric, or the field of a record or a claim
    kind: str
    why: str  # with the arithmetic
    corrected: float | str | tuple[float, ...] | None = None  # None where no right value is known


class PublishedFigure(PublishedStruct, frozen=True, kw_only=True):
    """One printed figure."""

    definition: str
    unit: str  # by its definition
    printed_unit: str  # as the text has it; empty where it prints none
    value: float  # of all devices together where each has its own
    per_device: tuple[float, ...]  # empty where there is one figure
    printed: tuple[str, ...]  # with the digits that were printed
    error: Erratum | None


class PublishedRow(PublishedStruct, frozen=True, kw_only=True):
    """One measured place in a published table."""

    benchmark: str
    table: str
    row: str
    framework: str  # by our name
    framework_there: str
    workload: str  # by our name
    machine: str  # id
    devices: str
    device_count: int
    device_kind: str
    batch: str  # as printed
    batch_size: int | None = None  # of all devices together; None where it cannot be told
    learning_rate: float | None = None
    update: str = ""  # empty where it is not said
    data: str = ""
    epochs: int | None = None
    seed: int | None = None
    command: str = ""
    failure: str = ""  # what a crashed run said
    remark: str = ""
    inferred: dict[str, str] = {}  # fields and metrics that no text prints as they are here, and why they are so
    errors: tuple[Erratum, ...] = ()
    metrics: dict[str, PublishedFigure] = {}

    @property
    def batch_per_device(self) -> float | None:
        return None if self.batch_size is None else self.batch_size / self.device_count


class PublishedClaim(PublishedStruct, frozen=True, kw_only=True):
    """What the prose says about figures: a ratio of two frameworks, or an order of rows."""

    text: str
    metric: str
    better: str = ""  # a ratio: `better` is `factor` times as good as `worse`
    worse: str = ""
    factor: float | None = None
    printed: str = ""  # the factor with the digits that were printed
    device_count: int | None = None  # None where the prose names no number of devices: it speaks of all
    table: str = ""  # of the rows of an order; empty where their names are enough
    order: tuple[str, ...] = ()  # rows, best first; such a claim has no factor
    remark: str = ""
    errors: tuple[Erratum, ...] = ()


class Statement(PublishedStruct, frozen=True, kw_only=True):
    """A sentence that no rule can check, word for word, and what is known about it."""

    text: str
    kind: str  # a claim without a number, or a caveat
    remark: str


class Benchmark(PublishedStruct, frozen=True, kw_only=True):
    name: str
    dataset: str
    source: Publication
    machines: dict[str, PublishedMachine]
    records: tuple[PublishedRow, ...]
    claims: tuple[PublishedClaim, ...]
    statements: tuple[Statement, ...] = ()
    inferred: dict[str, str] = {}


@cache
def definitions() -> dict[str, Definition]:
    """What each kind of figure counts, by its id."""
    return {found.id: found for found in msgspec.convert(_read("definitions")["definition"], list[Definition])}


@cache
def all_benchmarks() -> dict[str, Benchmark]:
    """The four benchmarks by name."""
    return {name: _benchmark(_read(name)) for name in NAMES}


def _read(name: str) -> dict[str, Any]:
    """Decimal, because 0.810 says more than 0.81."""
    text = (files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text, parse_float=Decimal)


def _benchmark(found: dict[str, Any]) -> Benchmark:
    return Benchmark(
        name=found["name"],
        dataset=found["dataset"],
        source=msgspec.convert(found["source"], Publication),
        machines={each["id"]: msgspec.convert(each, PublishedMachine) for each in found["machine"]},
        records=tuple(_record(found["name"], table, row) for table in found["table"] for row in table["row"]),
        claims=tuple(_claim(each) for each in found.get("claim", ())),
        statements=msgspec.convert(found.get("statement", []), tuple[Statement, ...]),
        inferred=found.get("inferred", {}),
    )


def _record(benchmark: str, table: dict[str, Any], row: dict[str, Any]) -> PublishedRow:
    """A row has what its table says, unless it says otherwise."""
    fields = {**table, **row, "benchmark": benchmark}
    units = fields.pop("units", {})
    fields.pop("error", None)
    errors = _errors(row) + _errors(table)  # of two errors of a figure, the row's is the closer one
    metrics = {
        name: _metric(name, printed, units.get(name, ""), errors) for name, printed in fields.pop("metrics", {}).items()
    }
    why = {**table.get("inferred", {}), **row.get("inferred", {})}
    record = msgspec.structs.replace(msgspec.convert(fields, PublishedRow), metrics=metrics)
    return msgspec.structs.replace(
        record,
        errors=tuple(error for error in errors if _has(record, error.field)),
        inferred={name: why[name] for name in why if _has(record, name)},
    )


def _has(record: PublishedRow, name: str) -> bool:
    """What a table says of all its rows holds for those that have such a value."""
    return name in record.metrics or getattr(record, name, None) not in (None, "")


def _metric(name: str, figures: Any, printed_unit: str, errors: tuple[Erratum, ...]) -> PublishedFigure:
    each = figures if isinstance(figures, list) else [figures]
    return PublishedFigure(
        definition=name,
        unit=definitions()[name].unit,
        printed_unit=printed_unit,
        value=float(sum(each)),
        per_device=tuple(map(float, each)) if len(each) > 1 else (),
        printed=tuple(map(str, each)),
        error=next((error for error in errors if error.field == name), None),
    )


def _claim(found: dict[str, Any]) -> PublishedClaim:
    fields = {key: value for key, value in found.items() if key != "error"}
    fields = {**fields, "printed": str(found.get("factor", ""))}
    return msgspec.structs.replace(msgspec.convert(fields, PublishedClaim), errors=_errors(found))


def _errors(found: dict[str, Any]) -> tuple[Erratum, ...]:
    return msgspec.convert(found.get("error", []), tuple[Erratum, ...])
