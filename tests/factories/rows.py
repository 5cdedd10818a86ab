"""Rows of tables as tests need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.analysis.quantities.definition import ESTIMATE, OF_EACH, OF_RUNS
from paceline.analysis.quantities.known import MEMORY, TEST_ACCURACY, all_quantities
from paceline.analysis.rows.command_rows import CommandRow
from paceline.analysis.rows.row import Measured, Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.plan.cell import Cell
from paceline.store.resources import Noise
from tests.factories.runs import cell

USUAL: dict[str, Any] = {
    "images_per_second": Estimate(3631.7, 3468.8, 3854.1),
    "images_per_processor_second": 3600.0,
    "seconds": 2.1147,
    "first_step_seconds": 0.055,
    "peak_memory_mib": (157.25,),
    "idle_memory_mib": (301.5,),
}
CELL = cell(framework="torch", batch_size=128, steps=60, warmup=10)


def made_row(**changes: Any) -> Row:
    """PyTorch on one CPU device, with some fields changed."""
    row = Row(
        measured={},
        cell=CELL,
        framework_version="2.13.0",
        machine="0123abcd",
        machine_description="AMD EPYC, 2 cores, 24 GiB, Linux 6.1",
        quick=False,
        shares=(128,),
        epochs=0.1536,
        status="ok",
        reason=None,
        marks=(),
        repeats=5,
        seconds_per_epoch=13.768,
        target=None,
        runs_at_target=0,
        utilisation=((0.9, 0.97, 0.99),),
        noise=Noise(load=0.5, other=0.012, stolen=0.001, switches_per_second=35.0),
        memory_of="device",
        scaling=1.0,
        scaling_interval=None,
        efficiency=1.0,
        wrapped_efficiency=None,
        batch_norm=True,
        parameters=420_096,
        verified=False,
        runs=("20261115-230959-000001-a00ff3",),
        failed_run=None,
        log_end=None,
    )
    return changed(row, **{**USUAL, **changes})


def changed(row: Row, **changes: Any) -> Row:
    """With other fields, of the row itself, of its cell or of what was measured, under the names that JSON has."""
    cell = changes.pop("cell", row.cell)  # whose cores follow the devices
    own = {name: changes.pop(name) for name in list(changes) if name in Row.__struct_fields__}
    measured = _changed_values(row.measured, {name: changes.pop(name) for name in list(changes) if name in FIELDS})
    row = msgspec.structs.replace(row, cell=_changed_cell(cell, changes), measured=measured, **own)
    return msgspec.structs.replace(row, measured=_doubted(row))


FIELDS = {name: (each, form) for each in all_quantities() for name, form in each.forms.items()}


def _changed_values(measured: Mapping[str, Measured], changes: dict[str, Any]) -> dict[str, Measured]:
    found = dict(measured)
    for name, value in changes.items():
        quantity, form = FIELDS[name]
        one = found.get(quantity.name, Measured())
        found[quantity.name] = msgspec.structs.replace(one, **_parts(form, value))
    return found


def _parts(form: str, value: Any) -> dict[str, Any]:
    """An estimate has a median."""
    if form == OF_RUNS:
        return {"of_runs": tuple(value)}
    if form == OF_EACH:
        return {"of_each": value}
    median = value.median if isinstance(value, Estimate) else value
    return {"median": median, **({"estimate": value} if form == ESTIMATE else {})}


def _doubted(row: Row) -> dict[str, Measured]:
    doubts = {MEMORY.name: "preallocated" in row.marks, TEST_ACCURACY.name: row.above_chance is False}
    return {
        name: msgspec.structs.replace(one, doubt="made doubtful" if doubts.get(name) else "")
        for name, one in row.measured.items()
    }


def _changed_cell(cell: Cell, changes: dict[str, Any]) -> Cell:
    if "scaling_kind" in changes:
        changes["scaling"] = changes.pop("scaling_kind")
    cores = changes.pop("cores_per_device", len(cell.cores[0]))
    cell = msgspec.structs.replace(cell, **changes)
    if "devices" in changes or cores != len(cell.cores[0]):
        places = range(cell.device_set.count)
        cell = msgspec.structs.replace(
            cell, cores=tuple(tuple(range(place * cores, (place + 1) * cores)) for place in places)
        )
    return cell


COMMAND = CommandRow(
    line="python train.py -e 1",
    folder="/work",
    real_seconds=Estimate(20.6, 20.0, 21.0),
    user_seconds=17.0,
    system_seconds=3.3,
    times_sampled=False,
    largest_process_mib=None,
    left_behind=0,
    readings={},
    missing=(),
)
