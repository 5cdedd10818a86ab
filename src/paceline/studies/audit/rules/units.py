"""One unit in each column, and the same one for what is printed twice."""

from __future__ import annotations

from paceline.studies.audit.printed_rows import MEMORY, PrintedTable
from paceline.studies.audit.rules.definition import Checks, TableCheck


def one_unit(table: PrintedTable) -> Checks:
    """Of several, all figures were converted to one; it is named because its reader may not have noticed."""
    for quantity, (unit, *others) in table.units.items():
        known = [unit, *filter(None, others)]
        compared = f"; compared in {unit}" if quantity == MEMORY and len(known) > 1 else ""
        without = ", and without a unit" if "" in others else ""
        text = f"{quantity} is printed in {' and '.join(known)}{without}{compared}"
        yield TableCheck(table.title, text, counts=False)
