"""A row as one flat object: the fields of the JSON and CSV forms, under the names and in the order that they keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paceline.analysis.quantities.definition import ESTIMATE, MEDIAN, OF_EACH, OF_RUNS, Quantity
from paceline.analysis.quantities.field_names import FIELDS
from paceline.analysis.quantities.known import all_quantities
from paceline.analysis.rows.row import Row

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
    others = {name: getattr(row if hasattr(row, name) else row.cell, name) for name in FIELDS if name not in found}
    return {name: (found | others)[name] for name in dict.fromkeys([*FIELDS, *found])}


def estimates() -> list[str]:
    """The fields that are estimates."""
    return [name for each in all_quantities() for name, form in each.forms.items() if form == ESTIMATE]
