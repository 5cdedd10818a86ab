"""A row as one flat object: the fields of the JSON and CSV forms, under the names and in the order that they keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paceline.analysis.quantities.definition import ESTIMATE, MEDIAN, OF_EACH, OF_RUNS, Quantity
from paceline.analysis.quantities.known import all_quantities
from paceline.analysis.rows.row import Row

NAMES = (
    *("workload", "framework", "framework_version", "machine", "machine_description", "quick", "devices"),
    *("device_count", "cards", "update", "parameter_device", "data", "input", "precision", "batch_size", "shares"),
    *("slow", "wrapped", "learning_rate", "steps", "warmup", "evaluate", "epochs", "whole_epochs", "seed"),
    *("cores_per_device", "status", "reason", "marks", "repeats", "sequential"),
    *("images_per_second", "images_per_processor_second", "seconds", "seconds_per_epoch", "first_step_seconds"),
    *("waiting", "train_accuracy", "test_accuracy", "chance", "above_chance", "evaluation_seconds"),
    *("target", "runs_at_target", "seconds_to_target", "images_to_target"),
    *("peak_memory_mib", "idle_memory_mib", "started_memory_mib", "allocator_memory_mib", "utilisation", "noise"),
    *("memory_of", "scaling_kind", "scaling", "scaling_interval", "scaling_against"),
    *("efficiency", "wrapped_efficiency", "batch_norm", "parameters", "verified", "runs", "failed_run", "log_end"),
    *("command", "images_per_second_of_runs", "memory_mib_of_runs", "test_accuracy_of_runs", "quota_cores", "remarks"),
    *("package_joules_per_image", "gpu_joules_per_image"),
)
FORMS: Mapping[str, Callable[[Row, Quantity], object]] = {
    ESTIMATE: Row.estimate,
    MEDIAN: Row.median,
    OF_RUNS: Row.of_runs,
    OF_EACH: Row.of_each,
}


def flat(row: Row) -> dict[str, object]:
    """The fields of plug-ins' quantities come last."""
    quantities = {name: (each, FORMS[form]) for each in all_quantities() for name, form in each.forms.items()}
    found: dict[str, object] = {name: form(row, quantity) for name, (quantity, form) in quantities.items()}
    others = {name: getattr(row if hasattr(row, name) else row.cell, name) for name in NAMES if name not in found}
    return {name: (found | others)[name] for name in dict.fromkeys([*NAMES, *found])}


def estimates() -> list[str]:
    """The fields that are estimates."""
    return [name for each in all_quantities() for name, form in each.forms.items() if form == ESTIMATE]
