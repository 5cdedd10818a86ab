"""Orders in the prose, such as 2GPU > 3GPU > 1GPU, against the tables."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from paceline.studies.audit import printed_rows as p
from paceline.studies.audit.rules.definition import Checks, TableCheck
from paceline.studies.audit.rules.prose_ratios import shown, summaries, total

MORE_IS_BETTER = (p.IMAGES_PER_SECOND,)

Ranked = tuple[float, str, str]  # a value of which less is better, what is printed, and where
RanksOfRows = dict[str, list[Ranked]]  # by quantity
RanksByCount = dict[float, list[RanksOfRows]]  # by the number of devices


def orders(document: p.Document) -> Checks:
    """Each place of an order against the next; where a place means several rows, one pair in order will do."""
    ranks = DocumentRanks(document)
    for order in document.orders:
        for better, worse in pairwise(order.places):
            yield from _compared(order, better, worse, ranks)


class DocumentRanks:
    """Figures by what an order may call them, so that it need not walk over all rows."""

    def __init__(self, document: p.Document) -> None:
        quantities = {quantity for order in document.orders for quantity in order.quantities}
        self.by_row: dict[str, RanksOfRows] = {}
        self.by_name: dict[str, RanksByCount] = {}
        for row in (row for table in summaries(document) for row in table.rows if quantities):
            ranks = self.by_row.setdefault(row.where, {})
            for quantity in quantities & row.quantities.keys():
                figure = row.quantities[quantity]
                sign = -1 if quantity in MORE_IS_BETTER else 1
                ranks.setdefault(quantity, []).append((sign * total(figure), shown(figure), row.where))
            if devices := row.one(p.DEVICES):
                for name in {"", *map(str.lower, row.about)}:
                    self.by_name.setdefault(name, {}).setdefault(devices.value, []).append(ranks)
        self.of = cache(self._of)

    def _of(self, place: p.RankedPlace) -> RanksOfRows:
        """Of each quantity the best and the worst, or the only one."""
        counts = self.by_name.get(place.framework.lower(), {})
        meant = [place.fewest] if place.fewest == place.most else [n for n in counts if place.fewest <= n <= place.most]
        rows = [self.by_row.get(place.row, {})] if place.row else [row for n in meant for row in counts.get(n, [])]
        found: RanksOfRows = {}
        for quantity, ranks in ((quantity, ranks) for row in rows for quantity, ranks in row.items()):
            found.setdefault(quantity, []).extend(ranks)
        return {quantity: ranks if len(ranks) == 1 else [min(ranks), max(ranks)] for quantity, ranks in found.items()}


def _compared(order: p.ProseOrder, better: p.RankedPlace, worse: p.RankedPlace, ranks: DocumentRanks) -> Checks:
    over, under = ranks.of(better), ranks.of(worse)
    pairs = [
        (quantity, over[quantity], under[quantity])
        for quantity in order.quantities
        if quantity in over and quantity in under
    ]
    wrong = [f"{a[-1][1]} against {b[0][1]}" for _, a, b in pairs if a[-1][0] >= b[0][0]]
    some = any(a[0][0] < b[-1][0] for _, a, b in pairs)
    covers = (
        tuple((a[0][2], quantity) for quantity, a, b in pairs) if [len(a) + len(b) for _, a, b in pairs] == [2] else ()
    )
    text = f"claimed {better.name} before {worse.name}, but {' and '.join(wrong)}"
    if pairs:
        yield TableCheck(order.where, text if wrong else None, covers, counts=not some)
