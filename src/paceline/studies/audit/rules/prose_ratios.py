"""Ratios in the prose, such as `A is 2x faster than B`, against the tables."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cache

from paceline.studies.audit import printed_rows as p
from paceline.studies.audit.rules.definition import Checks, FigureKey, TableCheck, figures

MOST_SHOWN = 5  # ratios in a sentence
SAME = 1e-12

Side = dict[str, tuple[p.PrintedRow, tuple[p.PrintedNumber, ...]]]  # figures of a framework by their devices


@dataclass(frozen=True)
class TableRatios:
    """Of two frameworks, on all sets of devices that both have."""

    ordered: list[float]
    sums: str  # the arithmetic
    covers: tuple[FigureKey, ...]  # of several, another may fit as well


def claims(document: p.Document) -> Checks:
    """Ratios in the prose, on every set of devices that both sides have; right on some of them is a note."""
    rows = _rows_by_name(document)

    @cache
    def side(name: str, quantity: str, devices: int | None) -> Side:
        return _by_devices(rows.get((name, quantity), []), quantity, devices)

    @cache
    def ratios(better: str, worse: str, quantity: str, devices: int | None) -> TableRatios:
        return _ratios(side(better, quantity, devices), side(worse, quantity, devices), quantity)

    for claim in document.claims:
        found = ratios(claim.better.lower(), claim.worse.lower(), claim.quantity, claim.devices)
        if found.ordered:
            yield _check(claim, found)


def _check(claim: p.ProseRatio, found: TableRatios) -> TableCheck:
    printed, half = claim.factor, claim.factor.step / 2 + SAME
    every = len(found.ordered)
    fits = bisect_right(found.ordered, printed.value + half) - bisect_left(found.ordered, printed.value - half)
    if not fits:
        return TableCheck(claim.where, f"claimed {printed.text} times, but {found.sums}", found.covers)
    text = f"claimed {printed.text} times: {found.sums}; rounding makes it right in {fits} of {every}"
    return TableCheck(claim.where, None, found.covers) if fits == every else TableCheck(claim.where, text, counts=False)


def _ratios(better: Side, worse: Side, quantity: str) -> TableRatios:
    """For each set of devices; less time or memory is better."""
    shared = [name for name in (worse if len(worse) <= len(better) else better) if name in worse and name in better]
    found = []
    for devices in shared:
        (row, figure), (other, against) = worse[devices], better[devices]
        factor = _factor(row, other, quantity)
        if factor and total(against) and total(figure):
            found.append((factor * total(figure) / total(against), devices, row, other))
    texts = [
        f"{_with_unit(row, quantity, of=other)} / {_with_unit(other, quantity, of=row)} = {ratio:.2f} on {devices}"
        for ratio, devices, row, other in found[:MOST_SHOWN]
    ]
    more = [f"{len(found) - MOST_SHOWN:,} more"] if len(found) > MOST_SHOWN else []
    covers = [figures(row, quantity) + figures(other, quantity) for *_, row, other in found]
    return TableRatios(
        sorted(ratio for ratio, *_ in found), " and ".join(texts + more), covers[0] if len(covers) == 1 else ()
    )


def _factor(row: p.PrintedRow, other: p.PrintedRow, quantity: str) -> float | None:
    """From the unit of one row to that of another; None where only one of them has any."""
    here, there = _unit(row, quantity), _unit(other, quantity)
    if here == there:
        return 1.0
    return p.MEBIBYTES[here] / p.MEBIBYTES[there] if here in p.MEBIBYTES and there in p.MEBIBYTES else None


def _unit(row: p.PrintedRow, quantity: str) -> str:
    return row.units.get(quantity, "").lower() if quantity == p.MEMORY else ""


def _with_unit(row: p.PrintedRow, quantity: str, of: p.PrintedRow) -> str:
    figure = shown(row.quantities[quantity])
    return figure if _unit(row, quantity) == _unit(of, quantity) else f"{figure} {row.units[quantity]}"


def _rows_by_name(document: p.Document) -> dict[tuple[str, str], list[p.PrintedRow]]:
    """Those that a claim may be about; a summary comes before a log."""
    quantities = {claim.quantity for claim in document.claims}
    found: dict[tuple[str, str], list[p.PrintedRow]] = {}
    for row in (row for table in summaries(document) for row in table.rows if len(row.about) == 2):
        for quantity in quantities & row.quantities.keys():
            found.setdefault((row.about[0].lower(), quantity), []).append(row)
    return found


def _by_devices(rows: list[p.PrintedRow], quantity: str, devices: int | None) -> Side:
    found: Side = {}
    for row in rows:
        count = row.one(p.DEVICES)
        if count and devices in (None, count.value) and row.quantities[quantity]:
            found.setdefault(row.about[1], (row, row.quantities[quantity]))
    return found


def summaries(document: p.Document) -> list[p.PrintedTable]:
    return [table for table in document.tables if not table.is_log] or list(document.tables)


def total(found: tuple[p.PrintedNumber, ...]) -> float:
    return sum(figure.value for figure in found)


def shown(found: tuple[p.PrintedNumber, ...]) -> str:
    joined = " + ".join(figure.text for figure in found)
    return f"({joined})" if len(found) > 1 else joined
