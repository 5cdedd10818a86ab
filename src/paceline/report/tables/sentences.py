"""The findings of a table as sentences for people, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from paceline.analysis.findings import ComparedWith, Finding, findings
from paceline.analysis.quantities.known import all_quantities
from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.analysis.statistics.yardsticks import RATIO
from paceline.report.escaping import few
from paceline.report.tables.columns import tables
from paceline.report.tables.small_forms import only_runs
from paceline.system.text import safe_text

MOST_SENTENCES = 6
MOST_PARTS = 4  # of one sentence
FEW_SETS = 2  # so many device sets have a sentence each about the fastest


class TableFindings(msgspec.Struct, frozen=True):
    """The JSON form: all that is found in one table."""

    title: str
    sentences: list[str]
    findings: list[Finding]


def lines(rows: Sequence[Row]) -> list[str]:
    """What is printed under a table: the few sentences that matter most."""
    return first_ones(below_remarks(rows))


def below_remarks(rows: Sequence[Row]) -> list[str]:
    """All sentences but those about cells without a result or not trained, which the remarks have just named.

    None where the remarks say that the cells show no more than that they run.
    """
    if only_runs(rows):
        return []
    return sentences([finding for finding in findings(rows) if finding.kind not in (*TOGETHER, UNTRAINED)])


def first_ones(found: Sequence[str]) -> list[str]:
    """As many as are read, and where the others are."""
    left = len(found) - MOST_SENTENCES
    more = [f"{left} more: paceline show --format findings"] if left > 0 else []
    return [*found[:MOST_SENTENCES], *more]


def sentences(found: Sequence[Finding]) -> list[str]:
    """In the order of the findings, those of one kind together."""
    groups: dict[str, list[Finding]] = {}
    for finding in found:
        groups.setdefault(TOGETHER.get(finding.kind, finding.kind), []).append(finding)
    return [sentence for kind, group in groups.items() for sentence in _words(kind)(group)]


def _words(kind: str) -> Callable[[Sequence[Finding]], list[str]]:
    """Of a kind that is no other, those of the quantity whose best row it names."""
    if kind in WORDS:
        return WORDS[kind]
    quantity = next(each for each in all_quantities() if each.finding == kind)
    return _best(quantity.superlative, as_factor if quantity.yardstick is RATIO else as_difference)


def as_json(rows: list[Row]) -> str:
    found = [(title, findings(group)) for title, group in tables(rows)]
    written = [TableFindings(title, sentences(group), group) for title, group in found]
    return safe_text.as_json(written)


def with_interval(value: Estimate) -> str:
    """`1.24 (1.20–1.28)`; with a digit more where two would make it 1."""
    bounds = [bound for bound in (value.low, value.high) if bound is not None]
    digits = 3 if all(abs(bound - 1) < 0.05 for bound in [value.median, *bounds]) else 2
    low, high = (f"{bound:.{digits}f}" for bound in bounds)
    return f"{value.median:.{digits}f} ({low}–{high})"


def fastest(found: Sequence[Finding]) -> list[str]:
    if len(found) > FEW_SETS:
        return _best("fastest", as_factor)(found)
    return [_of_one_set(finding) for finding in found]


def _of_one_set(finding: Finding) -> str:
    (who,) = finding.who
    unclear, clear = _split(finding)
    if unclear:
        rivals = _or([who, *(one.name for one in unclear)])
        parts = [as_factor(one) for one in (*unclear[:1], *clear[:1])]
        return f"cannot tell which is the fastest on {finding.where}, {rivals}: {who} is {' and '.join(parts)}"
    others = ", ".join(map(as_factor, clear[1:])) if len(clear) < MOST_PARTS else ""
    return f"{who} is the fastest on {finding.where}: {as_factor(clear[0])}, the next{'; ' + others if others else ''}"


def _best(name: str, words: Callable[[ComparedWith], str]) -> Callable[[Sequence[Finding]], list[str]]:
    """One sentence with a part for each device set."""

    def part(finding: Finding) -> str:
        unclear, clear = _split(finding)
        if unclear:
            return f"on {finding.where} cannot tell, {_or([*finding.who, *(one.name for one in unclear)])}"
        return f"on {finding.where} {finding.who[0]}, {words(clear[0])}, the next"

    return lambda found: [f"{name}: {few(map(part, found), MOST_PARTS)}"]


def scaled(meaning: str) -> Callable[[Sequence[Finding]], list[str]]:
    def part(finding: Finding) -> str:
        (fewer,) = finding.against
        return f"{finding.who[0]} on {finding.where} is {with_interval(fewer.value)} times as fast as on {fewer.name}"

    return lambda found: [f"{meaning}: {few(map(part, found), MOST_PARTS)}"]


def without_result(found: Sequence[Finding]) -> list[str]:
    causes = (f"{', '.join(finding.who)} {finding.kind} ({finding.reason})" for finding in found)
    return [few(causes, MOST_PARTS)]


def one_run(found: Sequence[Finding]) -> list[str]:
    (finding,) = found
    if finding.who:
        return [f"only one run of {', '.join(finding.who)}: nothing can be told about it; more repeats tell"]
    return ["one run each: nothing can be told about differences; more repeats tell"]


def untrained(found: Sequence[Finding]) -> list[str]:
    causes = (f"{', '.join(finding.who)} ({finding.reason})" for finding in found)
    return [f"not trained long enough: {few(causes, MOST_PARTS)}"]


def not_interleaved(found: Sequence[Finding]) -> list[str]:
    sets = ", ".join(finding.where for finding in found)
    return [f"not all of {sets} was measured in the same rounds: a change of the machine would look like a difference"]


def _split(finding: Finding) -> tuple[list[ComparedWith], list[ComparedWith]]:
    """Those that cannot be told from the best, and those that can."""
    return [one for one in finding.against if not one.clear], [one for one in finding.against if one.clear]


def as_factor(one: ComparedWith) -> str:
    return f"{with_interval(one.value)} times {one.name}"


def as_difference(one: ComparedWith) -> str:
    value = one.value
    return f"{value.median:.3f} ({value.low:.3f} to {value.high:.3f}) above {one.name}"


def _or(names: Sequence[str]) -> str:
    if len(names) > MOST_PARTS:
        names = [*names[: MOST_PARTS - 1], f"{len(names) - MOST_PARTS + 1} more"]
    return f"{', '.join(names[:-1])} or {names[-1]}"


UNTRAINED = "untrained"
TOGETHER = {"failed": "without result", "skipped": "without result"}
WORDS: dict[str, Callable[[Sequence[Finding]], list[str]]] = {
    "one run": one_run,
    "fastest": fastest,
    "without result": without_result,
    "slower": scaled("more devices are slower"),
    "above linear": scaled("scaling is above linear, which asks for an explanation"),
    "apart": not_interleaved,
    UNTRAINED: untrained,
}
