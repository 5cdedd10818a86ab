"""Memory of devices: differences, sums over cards, cards that were filled beforehand; and units, also of times."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from itertools import groupby, pairwise

from paceline.studies.audit import printed_rows as p
from paceline.studies.audit.rules.definition import Checks, TableCheck, contradiction, figures, off

SAME_MEMORY = 0.001  # so alike is every card when it is filled and not used
FEWEST_COUNTS = 3  # of devices, before memory that grows with them is called filled cards
CARDS_GIB = (2, 3, 4, 6, 8, 11, 12, 16, 24, 32, 40, 48, 80, 96)
FILLED = 0.88  # part of a card that is taken where all of it is: TensorFlow took 10,944 MiB of a K80 with 12 GB
TOTAL_WORDS = ("total memory", "memory total", "sum of", "all gpus", "all cards", "all devices", "(total", "(sum")

Held = tuple[p.PrintedRow, p.PrintedNumber, p.PrintedNumber]  # with memory and devices


def memory_difference(row: p.PrintedRow) -> Checks:
    printed, peaks, idles = (row.quantities.get(name, ()) for name in (p.MEMORY, p.PEAK_MEMORY, p.IDLE_MEMORY))
    if not printed or not len(printed) == len(peaks) == len(idles):
        return
    factor = _factor(row)
    for memory, peak, idle in zip(printed, peaks, idles, strict=True):
        right, within = peak.value - idle.value, (memory.step + peak.step + idle.step) / 2
        text = contradiction(memory, right, within, f"{peak.text} - {idle.text}")
        converted = contradiction(memory, right * factor, within * max(factor, 1), "")
        yield TableCheck(row.where, text if converted else None, figures(row, p.MEMORY, p.PEAK_MEMORY, p.IDLE_MEMORY))


def _factor(row: p.PrintedRow) -> float:
    """From the unit of the peak to that of the difference."""
    here, there = (row.units.get(name, "").lower() for name in (p.MEMORY, p.PEAK_MEMORY))
    return p.MEBIBYTES[there] / p.MEBIBYTES[here] if here in p.MEBIBYTES and there in p.MEBIBYTES else 1.0


def units(table: p.PrintedTable) -> Checks:
    """The same digits under another unit; said once for a table."""
    differing = [row for row in table.rows if _factor(row) != 1 and row.quantities.get(p.IDLE_MEMORY)]
    for row in differing[:1]:
        memory, peak, idle = (row.quantities[name][0] for name in (p.MEMORY, p.PEAK_MEMORY, p.IDLE_MEMORY))
        here, there, right = row.units[p.MEMORY], row.units[p.PEAK_MEMORY], peak.value - idle.value
        same_digits = abs(memory.value - right) <= memory.step
        text = (
            f"printed {memory.text} {here}, but {peak.text} - {idle.text} {there} = {right * _factor(row):.0f} {here}"
        )
        yield TableCheck(table.title, text if same_digits and abs(_factor(row) - 1) * right > memory.step else None)


def filled_memory(table: p.PrintedTable) -> Checks:
    """Memory of all devices that is the same for each card, whatever the number of cards."""
    found = _held(table.rows)
    if not _is_filled(found):
        return
    each = statistics.median(memory.value / devices.value for _, memory, devices in found)
    (_, first, one), (_, last, many) = found[0], found[-1]
    text = (
        f"memory is devices x nearly a whole card: {first.text} / {one.text} = {first.value / one.value:,.0f} and "
        f"{last.text} / {many.text} = {last.value / many.value:,.0f}; cards that are filled beforehand say nothing "
        "about the network"
    )
    if any(FILLED <= each / (1024 * size) <= 1 for size in CARDS_GIB):
        yield TableCheck(table.title, text)
    for row, memory, devices in found:
        right = each * devices.value
        wrong = f"printed {memory.text}, but {devices.text} x {each:,.0f}, as in the other columns, = {right:.0f}"
        is_wrong = abs(memory.value / right - 1) > 10 * SAME_MEMORY
        yield TableCheck(
            row.where, f"{wrong} ({off(memory.value, right)})" if is_wrong else None, figures(row, p.MEMORY)
        )


def _is_filled(found: list[Held]) -> bool:
    """The same for each card in all rows but one at most."""
    each = [memory.value / devices.value for _, memory, devices in found]
    if len({devices.value for _, _, devices in found}) < FEWEST_COUNTS:
        return False
    middle = statistics.median(each)
    differing = sum(abs(value - middle) > SAME_MEMORY * middle for value in each)
    return differing <= (len(each) > FEWEST_COUNTS)


def _held(rows: Iterable[p.PrintedRow]) -> list[Held]:
    """By the number of devices."""
    found = [
        (row, m, d)
        for row in rows
        if (m := row.one(p.MEMORY)) and m.value > 0 and (d := row.one(p.DEVICES)) and d.value > 0
    ]
    return sorted(found, key=lambda each: each[2].value)


def sums(document: p.Document) -> Checks:
    """Each card of a sum adds at least its copy of the weights, whether the batch is split or not."""
    headings = {table.memory_heading for table in document.tables if _is_filled(_held(table.rows))} - {""}
    for table in document.tables:
        heading = table.memory_heading
        if heading not in headings and not any(word in heading.lower() for word in TOTAL_WORDS):
            continue
        placed = sorted((row for row in table.rows if row.setting is not None), key=lambda row: row.setting or ())
        for _, rows in groupby(placed, key=lambda row: row.setting):
            yield from _sum(table, _held(rows))


def _sum(table: p.PrintedTable, found: list[Held]) -> Checks:
    """From each number of cards to the next."""
    if _is_filled(found):
        return
    for (fewer, less, few), (_, more, many) in pairwise(found):
        weights = fewer.weights_mib * (many.value - few.value)
        added = f", and {weights:.0f} MiB of weights came with them" if weights else ""
        text = f"memory is not a sum over cards: {more.text} on {many.text} after {less.text} on {few.text}{added}"
        is_wrong = few.value < many.value and more.value < less.value * (1 - SAME_MEMORY) + weights
        if is_wrong or more.value < 2 * less.value:
            yield TableCheck(table.title, text if is_wrong else None, figures(fewer, p.MEMORY))


def one_unit(table: p.PrintedTable) -> Checks:
    """Of several, all figures were converted to one; it is named because its reader may not have noticed."""
    for quantity, (unit, *others) in table.units.items():
        known = [unit, *filter(None, others)]
        compared = f"; compared in {unit}" if quantity == p.MEMORY and len(known) > 1 else ""
        without = ", and without a unit" if "" in others else ""
        text = f"{quantity} is printed in {' and '.join(known)}{without}{compared}"
        yield TableCheck(table.title, text, counts=False)
