"""A row as one flat object: the fields of the JSON and CSV forms, under the names and in the order that they keep."""

from __future__ import annotations

from typing import Any

from paceline.analysis.rows.row import Row

FIRST = (  # its own fields and those of its cell
    *("workload", "framework", "framework_version", "machine", "machine_description", "quick", "devices"),
    *("device_count", "cards", "update", "parameter_device", "data", "input", "precision", "batch_size", "shares"),
    *("slow", "wrapped", "learning_rate", "steps", "warmup", "evaluate", "epochs", "whole_epochs", "seed"),
    "cores_per_device",
)
OTHERS = tuple(name for name in Row.__struct_fields__ if name not in (*FIRST, "cell"))
AFTER_KIND = OTHERS.index("scaling")
NAMES = (*FIRST, *OTHERS[:AFTER_KIND], "scaling_kind", *OTHERS[AFTER_KIND:])


def flat(row: Row) -> dict[str, Any]:
    return {name: getattr(row if hasattr(row, name) else row.cell, name) for name in NAMES}
