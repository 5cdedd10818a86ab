"""A row as one flat object: the fields of the JSON and CSV forms, under the names that they keep."""

from __future__ import annotations

from typing import Any

import msgspec

from paceline.analysis.rows.row import Row

FROM_CELL = (
    *("workload", "framework", "devices", "update", "parameter_device", "data", "input", "precision"),
    *("batch_size", "slow", "wrapped", "learning_rate", "steps", "warmup", "evaluate", "seed"),
)
# Programs that read these forms may count on the order, too.
ORDER = (
    *("workload", "framework", "framework_version", "machine", "machine_description", "quick", "devices"),
    *("device_count", "cards", "update", "parameter_device", "data", "input", "precision", "batch_size", "shares"),
    *("slow", "wrapped", "learning_rate", "steps", "warmup", "evaluate", "epochs", "whole_epochs", "seed"),
    *("cores_per_device", "status", "reason", "marks", "repeats", "sequential", "images_per_second"),
)


def flat(row: Row) -> dict[str, Any]:
    """Its own fields, and those of its cell."""
    values = {name: value for name, value in msgspec.structs.asdict(row).items() if name != "cell"}
    values |= {name: getattr(row.cell, name) for name in FROM_CELL}
    values |= {"device_count": row.device_count, "cores_per_device": row.cores_per_device}
    values |= {"scaling_kind": row.cell.scaling}
    return {name: values[name] for name in dict.fromkeys((*ORDER, *values))}
