"""The machine of each row: its table may name it, or the prose above."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from paceline.studies.audit.printed_rows import PrintedMachine, PrintedRow
from paceline.studies.audit.text.headings import LONGEST, counts_machines
from paceline.studies.audit.text.machines import ALONE, machine_in, speaks_of_several

MULTIPLIED = re.compile(
    r"large\)?\s?[x×*]\s?\d|\b\d{1,5}\s?[x×*]\s?(?:standard_)?\w{1,9}[.-]|\(\d{1,5}\)", re.IGNORECASE
)


def with_machines(rows: list[PrintedRow], headings: Sequence[str], above: PrintedMachine | None) -> list[PrintedRow]:
    """None where a column counts machines, since several have more devices than one."""
    if any(map(counts_machines, headings)):
        return rows
    alone = any(ALONE.search(heading) for heading in headings if len(heading) <= LONGEST)
    named = {text: _named(text, alone=alone) for text in {text for row in rows for text in row.about}}
    return [replace(row, machine=machine) if (machine := _largest(row, named) or above) else row for row in rows]


def _named(cell: str, *, alone: bool) -> PrintedMachine | None:
    machine = machine_in(cell)
    if machine and (speaks_of_several(cell) or MULTIPLIED.search(cell)):
        return replace(machine, devices=0)  # how many they have together is not known
    return machine and replace(machine, alone=alone or machine.alone)


def _largest(row: PrintedRow, named: dict[str, PrintedMachine | None]) -> PrintedMachine | None:
    found = [machine for text in row.about if (machine := named[text])]
    return max(found, key=lambda each: each.devices, default=None)
