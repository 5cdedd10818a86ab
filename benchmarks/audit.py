"""How much of what is printed `paceline audit` can check: each published figure is altered, one at a time.

`python -m benchmarks.audit` prints a section of docs/published.md (`--write` puts it there), and exits with 1 if less
is noticed than wanted. Noticed means a contradiction or a note that the unaltered tables do not have.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import msgspec

from benchmarks.determined import Figure, column, figures, how_determined, setting, within_rounding
from paceline.catalog.published import Benchmark, PublishedRow, all_benchmarks
from paceline.studies.audit.printed_rows import AuditFinding
from paceline.studies.audit.published import document_of
from paceline.studies.audit.rules.all_rules import examine

PAGE = Path(__file__).parent.parent / "docs" / "published.md"
HEADING = "## What the audit notices"
WANTED = {"x 2": 0.95, "x 1.2": 0.80, "swapped": 0.50}  # of the checkable figures
FACTORS = {"x 2": Decimal(2), "x 1.2": Decimal("1.2")}
CONTRADICTED, NOTED, MISSED = "contradiction", "note", ""
EXACT, ROUGH = "within rounding", "within 10 %"
INTRODUCTION = """`python -m benchmarks.audit --write` makes this section. Of {figures} figures, {exact} are
determined by others within rounding: the last printed digits of all, by one more or less, explain the difference.
Of these, {arithmetic} follow by arithmetic; of the others, an estimate is as near, which may be chance. {rough} are
determined to within 10 %: by arithmetic, from processor time, as a sum over cards, from the columns next to theirs, or
on the line between fewer and more devices. `benchmarks/determined.py` finds them without the rules of the audit. Each
figure is altered alone, to twice or 1.2 times its value, or swapped with the next in its column. A cell says how many
alterations were contradicted, plus those that got a note only, of how many; *all x 2* counts all figures, the other
columns those that are determined, from the second line on to within 10 %. Tables that are not altered are contradicted
nowhere but at the errors above."""

Seen = Counter[tuple[str, str, bool]]


@dataclass(frozen=True)
class Trial:
    """One alteration of one figure, and what came of it."""

    benchmark: str
    kind: str
    how: str  # the figure is determined; empty where it is not
    exact: bool  # it is determined within rounding, and not only to within 10 %
    alteration: str
    seen: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the section into docs/published.md")
    parser.add_argument("--missed", action="store_true", help="list what was missed")
    options = parser.parse_args()
    trials = list(all_trials(show_missed=options.missed))
    section = report(trials)
    if options.write:
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), section), encoding="utf-8")
    print(section, end="")
    exact = [each for each in trials if each.exact]
    return 0 if all(rate(of, name) >= least for of in (exact, trials) for name, least in WANTED.items()) else 1


def all_trials(*, show_missed: bool = False) -> Iterator[Trial]:
    for benchmark in all_benchmarks().values():
        before = findings(benchmark)
        for alteration, (how, exact), figure, altered in alterations(benchmark):
            seen = noticed(findings(altered) - before)
            if show_missed and how and seen == MISSED:
                print(f"missed: {alteration} {benchmark.name}, {figure.record.table}, {figure.record.row}, "
                      f"{figure.metric} {figure.value:g} ({how})", file=sys.stderr)  # fmt: skip
            yield Trial(benchmark.name, figure.kind, how, exact, alteration, seen)


Determined = tuple[str, bool]  # how, and whether within rounding


def alterations(benchmark: Benchmark) -> Iterator[tuple[str, Determined, Figure, Benchmark]]:
    for figure in figures(benchmark):
        how = determined(figure, benchmark)
        for name, factor in FACTORS.items():
            printed = times(printed_of(figure), factor)
            if printed != printed_of(figure):
                yield name, how, figure, with_figure(benchmark, figure, printed)
    for one, other in neighbours(benchmark):
        pair = [determined(each, benchmark) for each in (one, other)]
        if all(how for how, _ in pair):
            swapped = with_figure(with_figure(benchmark, one, printed_of(other)), other, printed_of(one))
            yield "swapped", ("column", all(exact for _, exact in pair)), one, swapped


def determined(figure: Figure, benchmark: Benchmark) -> Determined:
    how = "" if figure.is_wrong else how_determined(figure, benchmark)
    return how, bool(how) and within_rounding(figure, benchmark)


def findings(benchmark: Benchmark) -> Seen:
    return Counter(map(_key, filter(None, examine(document_of(benchmark)))))


def _key(finding: AuditFinding) -> tuple[str, str, bool]:
    return finding.where, finding.rule, finding.counts


def noticed(added: Seen) -> str:
    return CONTRADICTED if any(counts for *_, counts in added) else NOTED if added else MISSED


def neighbours(benchmark: Benchmark) -> Iterator[tuple[Figure, Figure]]:
    """Pairs of different figures: a setting on so many devices, and on the next larger number."""
    found = [each for each in figures(benchmark) if len(each.record.metrics[each.metric].printed) == 1]
    for one in found:
        larger = [n for n in column(one, benchmark) if n > one.record.device_count]
        for other in found:
            same = (other.metric, setting(other.record)) == (one.metric, setting(one.record))
            if same and larger and other.record.device_count == min(larger) and other.value != one.value:
                yield one, other
                break


def printed_of(figure: Figure) -> str:
    return figure.record.metrics[figure.metric].printed[figure.position]


def times(printed: str, factor: Decimal) -> str:
    """With as many decimals as it has."""
    digits = Decimal(printed)
    return str((digits * factor).quantize(Decimal(1).scaleb(int(digits.as_tuple().exponent))))


def with_figure(benchmark: Benchmark, figure: Figure, printed: str) -> Benchmark:
    records = tuple(_altered(each, figure, printed) if _is_same(each, figure) else each for each in benchmark.records)
    return msgspec.structs.replace(benchmark, records=records)


def _is_same(record: PublishedRow, figure: Figure) -> bool:
    return (record.table, record.row) == (figure.record.table, figure.record.row)


def _altered(record: PublishedRow, figure: Figure, printed: str) -> PublishedRow:
    metric = record.metrics[figure.metric]
    texts = (*metric.printed[: figure.position], printed, *metric.printed[figure.position + 1 :])
    metrics = {**record.metrics, figure.metric: msgspec.structs.replace(metric, printed=texts)}
    return msgspec.structs.replace(record, metrics=metrics)


def rate(trials: list[Trial], alteration: str) -> float:
    of = [each for each in trials if each.alteration == alteration and each.how]
    return sum(each.seen != MISSED for each in of) / len(of)


GROUPS: dict[str, Callable[[Trial], str]] = {
    "text": lambda trial: f"`{trial.benchmark}`",
    "kind of figure": lambda trial: f"`{trial.kind}`",
    "determined by": lambda trial: trial.how or "nothing",
}


def report(trials: list[Trial]) -> str:
    """Markdown: of all figures and of those that others determine, how many alterations were noticed."""
    doubled = [each for each in trials if each.alteration == "x 2"]
    exact = [each for each in doubled if each.exact]
    introduction = INTRODUCTION.format(
        figures=len(doubled),
        exact=len(exact),
        arithmetic=sum(each.how == "arithmetic" for each in exact),
        rough=sum(bool(each.how) for each in doubled),
    )
    lines = [
        HEADING,
        "",
        *textwrap.wrap(introduction, 120),
        "",
        "| figures | all x 2 | x 2 | x 1.2 | swapped with the next in its column |",
        "|---|---|---|---|---|",
        _line(EXACT, [each for each in trials if each.exact]),
        _line(ROUGH, trials),
    ]
    for name, group in GROUPS.items():
        swaps = [each for each in trials if name != "determined by" or each.alteration != "swapped"]
        values = dict.fromkeys(map(group, swaps))
        lines += [_line(f"{name}: {value}", [each for each in swaps if group(each) == value]) for value in values]
    return "\n".join([*lines, ""])


def _line(name: str, trials: list[Trial]) -> str:
    of_all = [each.seen for each in trials if each.alteration == "x 2"]
    columns = [[each.seen for each in trials if each.alteration == way and each.how] for way in WANTED]
    return f"| {name} | {' | '.join(map(_cell, [of_all, *columns]))} |"


def _cell(seen: list[str]) -> str:
    if not seen:
        return "–"
    found = Counter(seen)
    return f"{found[CONTRADICTED]} + {found[NOTED]} of {len(seen)}"


def with_section(page: str, section: str) -> str:
    """The page with its section replaced."""
    before, _, rest = page.partition(f"{HEADING}\n")
    _, next_heading, after = rest.partition("\n## ")
    return f"{before}{section}{next_heading}{after}"


if __name__ == "__main__":
    sys.exit(main())
