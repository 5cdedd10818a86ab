"""Two sets of results, cell by cell: better, worse, or cannot tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from paceline.analysis.comparison.command_names import check_names
from paceline.analysis.comparison.differences import RunPair, differences
from paceline.analysis.comparison.selections import CellRuns, Side, named
from paceline.analysis.quantities.definition import MORE, Quantity
from paceline.analysis.statistics.intervals import CONFIDENCE, Estimate
from paceline.analysis.statistics.yardsticks import DIFFERENCE, RATIO, judge
from paceline.plan.cell import Cell
from paceline.store.run_results import RunResult
from paceline.system.errors import UserError

ONE_FAILED = ("failed", "works again")
VERDICTS = ("better", "worse", *ONE_FAILED)  # that say something; those below do not
CANNOT_TELL, INCONCLUSIVE = "cannot tell", "inconclusive"
NOT_COMPARED = ("only in old", "only in new", "not run")


class ComparedCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell in both."""

    cell: Cell
    verdict: str  # better, worse, cannot tell, failed, works again, failed in both, only in old, only in new
    regression: bool = False  # more of its runs fail, or it is surely worse by more than the threshold
    reason: str = ""  # why there is no verdict; and which runs failed, since a verdict is about the others
    old_plan: str = ""  # that it is from; empty where a side has no such cell
    new_plan: str = ""
    old: tuple[float, ...] = ()  # of each run
    new: tuple[float, ...] = ()
    ratio: Estimate | None = None  # new divided by old
    difference: Estimate | None = None  # new less old, of what is compared so, such as accuracies
    p: float | None = None
    detectable: float | None = None  # the smallest difference that such runs show; relative where `ratio` is

    @property
    def measured_in_both(self) -> bool:
        return bool(self.old and self.new)

    @property
    def is_compared(self) -> bool:
        return self.verdict not in NOT_COMPARED

    @property
    def enough_runs(self) -> bool:
        """Whether so many can show any difference."""
        return min(len(self.old), len(self.new)) > 1


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    old: str
    new: str
    metric: str
    threshold: float
    differences: tuple[str, ...]  # such as versions, of the cells that both have
    nothing_else_differs: bool  # of all that is recorded
    cells: tuple[ComparedCell, ...]
    conclusion: str  # regressions, no regressions, or inconclusive: no cell has a verdict
    regressions: int
    inconclusive: int  # cells of which one cannot tell
    too_few_runs: bool  # in every cell that was measured in both, so that no difference could have shown


def compare(old: Side, new: Side, threshold: float, *, whole: bool = False) -> Comparison:
    """Cells that differ in any setting are not compared, but listed; the whole list of other differences is long."""
    if old.by_name:
        check_names(old, new)
    if not old.cells.keys() & new.cells.keys():
        cure = "; --by-name compares commands by their names" if _same_names(old, new) else ""
        raise UserError(f"{old.name} and {new.name} have no cell in common: {_why_nothing_in_common(old, new)}{cure}.")
    keys = dict.fromkeys([*old.cells, *new.cells])
    cells = tuple(_compared(key, old, new, threshold) for key in keys)
    in_both = [cell for cell in cells if cell.measured_in_both]
    if not in_both and not any(cell.verdict in ONE_FAILED for cell in cells):
        raise UserError(f"No cell has {old.quantity.label} in both {old.name} and {new.name}.")
    changed, regressions = tuple(_differences(old, new, whole)), sum(cell.regression for cell in cells)
    return Comparison(
        old=old.name,
        new=new.name,
        metric=old.quantity.label,
        threshold=threshold,
        differences=changed,
        nothing_else_differs=not changed,
        cells=cells,
        conclusion=_conclusion(cells, regressions),
        regressions=regressions,
        inconclusive=sum(cell.verdict == CANNOT_TELL for cell in cells),
        too_few_runs=bool(in_both) and not any(cell.enough_runs for cell in in_both),
    )


def _conclusion(cells: Sequence[ComparedCell], regressions: int) -> str:
    """That nothing was found is no praise where nothing could be seen."""
    if regressions:
        return "regressions"
    return "no regressions" if any(cell.verdict in VERDICTS for cell in cells) else INCONCLUSIVE


def _differences(old: Side, new: Side, whole: bool) -> Iterator[str]:
    """Of all cells that have run on both sides."""
    common = [(old.cells[cell], new.cells[cell]) for cell in old.cells if cell in new.cells]
    return differences(
        [
            RunPair(before.cell.framework.partition("+")[0], old.setups_of(before), new.setups_of(after))
            for before, after in common
        ],
        whole=whole,
    )


def _compared(key: Cell, old: Side, new: Side, threshold: float) -> ComparedCell:
    before, after = old.cells.get(key), new.cells.get(key)
    found = _verdict(before, after, old.quantity, threshold)
    return msgspec.structs.replace(
        found, old_plan=before.plan_id if before else "", new_plan=after.plan_id if after else ""
    )


def _verdict(before: CellRuns | None, after: CellRuns | None, quantity: Quantity, threshold: float) -> ComparedCell:
    if before is None or after is None or before.skipped or after.skipped:
        return _only(before, after)
    if failed := _failed(before, after):
        return failed
    confidence = max(side.limit.confidence for side in (before, after))
    found = compare_quantity(before.cell, quantity, before.good, after.good, threshold, confidence)
    return msgspec.structs.replace(found, reason="; ".join(filter(None, (found.reason, *_failures(before, after)))))


def _only(before: CellRuns | None, after: CellRuns | None) -> ComparedCell:
    """In one of them alone, or not run in one or both."""
    skips = {"old": before and before.skipped, "new": after and after.skipped}
    if skips["old"] == skips["new"]:
        skips = {"both": skips["old"]}
    reason = "; ".join(f"skipped in {side}, {reason}" for side, reason in skips.items() if reason)
    present = [side for side, runs in (("old", before), ("new", after)) if runs and not runs.skipped]
    known = before or after
    assert known is not None  # noqa: S101 - it came from one of the sides
    verdict = f"only in {present[0]}" if present else "not run"
    return ComparedCell(cell=known.cell, verdict=verdict, reason=reason)


def _failed(before: CellRuns, after: CellRuns) -> ComparedCell | None:
    """Where failures are the verdict; None where those runs that ended well are to be judged."""
    reason = "; ".join(_failures(before, after))
    if before.failed_part == after.failed_part == 1:
        return ComparedCell(cell=before.cell, verdict="failed in both", reason=reason)
    if after.failed_part > before.failed_part:
        return ComparedCell(cell=before.cell, verdict="failed", regression=True, reason=reason)
    if before.failed_part == 1:
        return ComparedCell(cell=before.cell, verdict="works again", reason=reason)
    return None


def _failures(before: CellRuns, after: CellRuns) -> list[str]:
    sides = {"in new": after, "in old": before}
    return [f"{side} {runs.failure}" for side, runs in sides.items() if runs.failure]


def compare_quantity(
    cell: Cell,
    quantity: Quantity,
    old: Sequence[RunResult],
    new: Sequence[RunResult],
    threshold: float = 0.0,
    confidence: float = CONFIDENCE,
) -> ComparedCell:
    """Values that are no result are not compared; where one side alone is doubtful, that may be said only."""
    sides = {"old": old, "new": new}
    doubts = {name: quantity.doubt(cell, runs) for name, runs in sides.items()}
    before, after = quantity.values_of(cell, old), quantity.values_of(cell, new)
    if all(doubts.values()) or (any(doubts.values()) and not quantity.both_doubtful):
        reason = doubts["new"] or doubts["old"]
        return ComparedCell(cell=cell, verdict=CANNOT_TELL, reason=reason, old=tuple(before), new=tuple(after))
    found = compare_values(cell, quantity, before, after, threshold, confidence)
    named = [f"in {name} {doubt}" for name, doubt in doubts.items() if doubt]
    return msgspec.structs.replace(found, reason="; ".join(filter(None, (found.reason, *named))))


def compare_values(
    cell: Cell,
    quantity: Quantity,
    old: Sequence[float],
    new: Sequence[float],
    threshold: float = 0.0,
    confidence: float = CONFIDENCE,
) -> ComparedCell:
    bare = ComparedCell(cell=cell, verdict=CANNOT_TELL, reason="not measured", old=tuple(old), new=tuple(new))
    if not old or not new:
        return bare
    yardstick = quantity.yardstick
    found = judge(yardstick, new, old, confidence)
    better = found.value is not None and (found.value.median > yardstick.equal) == (quantity.better == MORE)
    verdict = CANNOT_TELL if found.why_not else "better" if better else "worse"
    return msgspec.structs.replace(
        bare,
        verdict=verdict,
        regression=verdict == "worse" and _beyond(found.value, quantity, threshold),
        reason=found.why_not,
        ratio=found.value if yardstick is RATIO else None,
        difference=found.value if yardstick is DIFFERENCE else None,
        p=found.p,
        detectable=yardstick.detectable(new, old),
    )


def _beyond(found: Estimate | None, quantity: Quantity, threshold: float) -> bool:
    """Whether the whole interval is worse than the threshold allows."""
    if found is None or found.low is None or found.high is None:
        return False
    equal = quantity.yardstick.equal
    return found.high < equal - threshold if quantity.better == MORE else found.low > equal + threshold


def _same_names(old: Side, new: Side) -> bool:
    """Whether commands are only told other things, or elsewhere."""
    before, after = ({named(cell) for cell in side.cells if cell.command} for side in (old, new))
    return bool(before & after)


def _why_nothing_in_common(old: Side, new: Side) -> str:
    """In what no cell of one agrees with any of the other."""
    fields = [name for name in Cell.__struct_fields__ if name not in ("cores", "oversubscribed")]
    values = [
        (name, {getattr(cell, name) for cell in old.cells}, {getattr(cell, name) for cell in new.cells})
        for name in fields
    ]
    differing = [
        f"{name} is {_some(before)} against {_some(after)}" for name, before, after in values if not before & after
    ]
    return ", ".join(differing) or "no combination of their settings is in both"


def _some(values: set[object]) -> str:
    kept = sorted(str(value) or "none" for value in values)
    return ", ".join(kept[:3]) + (", …" if len(kept) > 3 else "")
