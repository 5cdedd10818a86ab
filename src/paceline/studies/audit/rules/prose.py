"""What the prose around results tables says, against the tables: ratios and orders."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from paceline.studies.audit.printed_rows import (
    DEVICES,
    IMAGES_PER_SECOND,
    Document,
    PrintedNumber,
    PrintedRow,
    PrintedTable,
    ProseOrder,
    ProseRatio,
    RankedPlace,
)
from paceline.studies.audit.rules.definition import Checks, FigureKey, TableCheck, figures

MORE_IS_BETTER = (IMAGES_PER_SECOND,)


def claims(document: Document) -> Checks:
    """Ratios in the prose, on every set of devices that both sides have; right on some of them is a note."""
    for claim in document.claims:
        ratios = _ratios(document, claim)
        if not ratios:
            continue
        half = claim.factor.step / 2
        fits = [abs(ratio - claim.factor.value) <= half for ratio, _, _ in ratios]
        sums = " and ".join(text for _, text, _ in ratios)
        covers = ratios[0][2] if len(ratios) == 1 else ()  # of several, another may fit as well
        if not any(fits):
            yield TableCheck(claim.where, f"claimed {claim.factor.text} times, but {sums}", covers)
        elif not all(fits):
            text = f"claimed {claim.factor.text} times: {sums}; rounding makes it right in {sum(fits)} of {len(fits)}"
            yield TableCheck(claim.where, text, counts=False)
        else:
            yield TableCheck(claim.where, None, covers)


def _ratios(document: Document, claim: ProseRatio) -> list[tuple[float, str, tuple[FigureKey, ...]]]:
    """For each set of devices; less time or memory is better."""
    better, worse = _by_devices(document, claim, claim.better), _by_devices(document, claim, claim.worse)
    found = []
    for devices, (row, figure) in worse.items():
        (other, against) = better.get(devices, (row, ()))
        total, part = _total(figure), _total(against)
        if part and total:
            text = f"{_shown(figure)} / {_shown(against)} = {total / part:.2f} on {devices}"
            found.append((total / part, text, figures(row, claim.quantity) + figures(other, claim.quantity)))
    return found


def _by_devices(
    document: Document, claim: ProseRatio, name: str
) -> dict[str, tuple[PrintedRow, tuple[PrintedNumber, ...]]]:
    """The figures of one side; a summary comes before a log."""
    found: dict[str, tuple[PrintedRow, tuple[PrintedNumber, ...]]] = {}
    for table in _summaries(document):
        for row in table.rows:
            figure, devices = row.quantities.get(claim.quantity, ()), row.one(DEVICES)
            named = len(row.about) == 2 and row.about[0].lower() == name.lower()
            if named and figure and devices and claim.devices in (None, devices.value):
                found.setdefault(row.about[1], (row, figure))
    return found


def _summaries(document: Document) -> list[PrintedTable]:
    return [table for table in document.tables if not table.is_log] or list(document.tables)


def _total(found: tuple[PrintedNumber, ...]) -> float:
    return sum(figure.value for figure in found)


def _shown(found: tuple[PrintedNumber, ...]) -> str:
    joined = " + ".join(figure.text for figure in found)
    return f"({joined})" if len(found) > 1 else joined


def orders(document: Document) -> Checks:
    """Each place of an order against the next; where a place means several rows, one pair in order will do."""
    for order in document.orders:
        found = [list(_at(document, order, place)) for place in order.places]
        for (better, over), (worse, under) in pairwise(zip(order.places, found, strict=True)):
            pairs = [(a, b, _in_order(a, b)) for a in over for b in under if a[1] == b[1]]
            covers = tuple((a[0].where, a[1]) for a in over) if len(pairs) == 1 else ()
            if not pairs:
                continue
            shown = " and ".join(f"{a[2]} against {b[2]}" for a, b, right in pairs if not right)
            text = f"claimed {better.name} before {worse.name}, but {shown}"
            right = sum(each for *_, each in pairs)
            yield TableCheck(order.where, None if right == len(pairs) else text, covers, counts=not right)


Ranked = tuple[PrintedRow, str, str, float]  # row, quantity, what is printed, and a value of which less is better


def _at(document: Document, order: ProseOrder, place: RankedPlace) -> Iterator[Ranked]:
    for table in _summaries(document):
        for row in table.rows:
            for quantity in order.quantities:
                figure = row.quantities.get(quantity, ())
                if figure and _is_meant(row, place):
                    sign = -1 if quantity in MORE_IS_BETTER else 1
                    yield row, quantity, _shown(figure), sign * _total(figure)


def _is_meant(row: PrintedRow, place: RankedPlace) -> bool:
    if place.row:
        return row.where == place.row
    devices, name = row.one(DEVICES), place.framework.lower()
    named = not name or name in (text.lower() for text in row.about)
    return named and devices is not None and place.fewest <= devices.value <= place.most


def _in_order(better: Ranked, worse: Ranked) -> bool:
    return better[3] < worse[3]
