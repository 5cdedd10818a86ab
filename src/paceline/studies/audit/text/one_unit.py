"""A column has one unit: figures with another are converted, and those that then have none are set apart."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from paceline.studies.audit import printed_rows as p

TIMES = (p.SECONDS, p.EPOCH_SECONDS)
MINUTES = re.compile(r"\d\s?(h|m)", re.IGNORECASE)
IN_SECONDS = re.compile(r"\b(s|secs?|seconds?)\b", re.IGNORECASE)


def unit_of(quantity: str, text: str, heading: str) -> str:
    """Of a cell, or of its column. Times are read as seconds, so it only matters whether a number alone is one."""
    if quantity == p.MEMORY:
        return p.memory_unit(text) or p.memory_unit(heading)
    if quantity not in TIMES:
        return ""
    return (
        "min" if MINUTES.search(text) else "s" if text.strip("*_` ").endswith("s") or IN_SECONDS.search(heading) else ""
    )


def in_one_unit(table: p.PrintedTable) -> p.PrintedTable:
    """In the unit that most rows have."""
    for quantity in (p.MEMORY, *TIMES):
        units = Counter(row.units.get(quantity, "") for row in table.rows if row.quantities.get(quantity))
        known = Counter({unit: count for unit, count in units.items() if unit})
        if len(units) > 1 and (quantity == p.MEMORY or {"", "min"} <= units.keys()):
            unit = known.most_common(1)[0][0]
            rows = tuple(_converted(row, quantity, unit) for row in table.rows)
            table = replace(table, rows=rows, units={**table.units, quantity: (unit, *sorted(units.keys() - {unit}))})
    return table


def _converted(row: p.PrintedRow, quantity: str, unit: str) -> p.PrintedRow:
    here = row.units.get(quantity, "")
    if here == unit or quantity not in row.quantities:
        return row
    if not here:
        others = {name: found for name, found in row.quantities.items() if name != quantity}
        return replace(row, quantities={**others, f"{quantity}{p.WITHOUT_UNIT}": row.quantities[quantity]})
    if quantity in TIMES:
        return row
    factor = p.MEBIBYTES[here.lower()] / p.MEBIBYTES[unit.lower()]
    found = tuple(_times(figure, factor) for figure in row.quantities[quantity])
    return replace(row, quantities={**row.quantities, quantity: found}, units={**row.units, quantity: unit})


def _times(figure: p.PrintedNumber, factor: float) -> p.PrintedNumber:
    return p.PrintedNumber(figure.value * factor, figure.step * factor, f"{figure.value * factor:.6g}")
