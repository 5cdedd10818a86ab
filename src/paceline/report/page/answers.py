"""What to take, and how sure that is: the fastest, the least memory, the best and the quickest accuracy of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.analysis.findings import ComparedWith, Measure, RowComparer, interleaved
from paceline.analysis.quantities.chance_accuracy import floor_of
from paceline.analysis.quantities.definition import LESS, Quantity
from paceline.analysis.quantities.known import MEMORY, TEST_ACCURACY, all_quantities
from paceline.analysis.rows.labels import labels, where
from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate, estimate
from paceline.analysis.statistics.yardsticks import RATIO
from paceline.report.escaping import page_text
from paceline.report.tables.columns import accuracy
from paceline.report.tables.sentences import as_difference, as_factor
from paceline.report.tables.small_forms import only_runs, small_form_note
from paceline.store.series import Moment
from paceline.system.text.formatting import number

Times = Mapping[str, Sequence[Moment]]  # of a run, epoch by epoch
SURE, UNSURE, UNKNOWN = "clear", "cannot tell", "not known"
SIGNS = {SURE: "●", UNSURE: "◐", UNKNOWN: "○"}
ONE_RUN = "one run: nothing can be told about differences; more repeats tell"
MOST_NAMED = 4


@dataclass(frozen=True)
class Answer:
    question: str
    row: Row
    who: str
    value: str
    sure: str
    why: str

    @property
    def sign(self) -> str:
        return SIGNS[self.sure]


@dataclass(frozen=True)
class TableQuestion:
    text: str
    measure: Measure
    say: Callable[[Estimate], str]
    compare: Callable[[ComparedWith], str]
    aside: str = ""  # about rows that it could not be asked of


def answers(rows: Sequence[Row], times: Times, target: float | None) -> list[Answer]:
    """Of one table; machines are not mixed, and commands are not ranked."""
    if any(row.command for row in rows) or only_runs(rows):
        return []
    machines: dict[str | None, list[Row]] = {}
    for row in rows:
        if row.repeats and row.status != "failed" and not row.cell.slow:
            machines.setdefault(row.machine, []).append(row)
    answered = [
        (group[0].machine_description or name or "", list(_of_machine(group, times, target)))
        for name, group in machines.items()
    ]
    if len(machines) == 1:
        return answered[0][1]
    return [replace(each, question=f"{each.question}: {page_text(name)}") for name, all_ in answered for each in all_]


def silence(rows: Sequence[Row]) -> str:
    """Why there may be no answers for a table."""
    if any(row.command for row in rows):
        return "commands are not ranked, since nobody knows whether they train the same thing"
    if only_runs(rows):
        return small_form_note(rows)
    if any(row.repeats for row in rows):
        return "the only cells of this table with a result are simulated, or failed in some of their runs"
    return "no cell of this table has a result"


def _of_machine(rows: Sequence[Row], times: Times, target: float | None) -> Iterator[Answer]:
    reached = target or common_target(rows)
    untrained = sum(row.above_chance is False for row in rows)
    aside = f"{untrained} other{'s were' if untrained > 1 else ' was'} not trained long enough" if untrained else ""
    quickest = [_quickest(rows, times, reached)] if reached else []
    for question in (*questions(aside), *quickest):
        yield from _answer(question, rows)
    if not reached:
        yield from _near_chance(rows)


def _near_chance(rows: Sequence[Row]) -> Iterator[Answer]:
    """Why there is no accuracy to which the time could be asked for."""
    accurate = [row for row in rows if row.of_runs(TEST_ACCURACY) and row.chance is not None]
    if accurate:
        row = min(accurate, key=lambda row: min(row.of_runs(TEST_ACCURACY)))
        ended = f"a run of {_names(rows)(row)} on {where(row)} ended at {min(row.of_runs(TEST_ACCURACY)):.3f}"
        why = page_text(f"{ended}, and guessing gets {row.chance:g}")
        yield Answer("Quickest to a test accuracy", row, "not trained long enough", "", UNKNOWN, why)


def _answer(question: TableQuestion, rows: Sequence[Row]) -> Iterator[Answer]:
    measure, values = question.measure, question.measure.values
    ranked = measure.ranked(filter(measure.measured, rows))
    if not ranked:
        return
    best, name = ranked[0], _names(ranked)
    others = _against(measure, ranked, name) if len(values(best)) > 1 else None
    sure, why = (UNKNOWN, ONE_RUN) if others is None else _sureness(question, best, others)
    rivals = [row for row, one in others or () if not one.clear]
    value = question.say(estimate(values(best), measure.yardstick.scale, best.confidence) or Estimate(0.0))
    value_text = f"{name(best)} on {where(best)}: {value}" if rivals else value
    who = _one_of([(name(row), where(row)) for row in (best, *rivals)])
    yield Answer(
        question.text,
        best,
        page_text(who),
        page_text(value_text),
        sure,
        page_text(why),
    )


def _against(measure: Measure, ranked: Sequence[Row], name: Callable[[Row], str]) -> list[tuple[Row, ComparedWith]]:
    """The best against each of the others; one that ran once is clear if it lies beyond the interval of the best."""
    (best, *others), values = ranked, measure.values
    repeated = [row for row in ranked if len(values(row)) > 1]
    judge = RowComparer.of(measure, repeated, math.comb(len(repeated), 2))  # each could have been the best
    found = estimate(values(best), measure.yardstick.scale, best.confidence) or Estimate(0.0)
    end = (found.low if measure.better > 0 else found.high) or 0.0

    def judged(row: Row) -> ComparedWith:
        called = name(row) if where(row) == where(best) else f"{name(row)} on {where(row)}"
        if len(values(row)) == 1:
            return ComparedWith(called, Estimate(values(row)[0]), clear=measure.better * (end - values(row)[0]) > 0)
        return judge.against(called, values(best), values(row))

    return [(row, judged(row)) for row in others]


def _sureness(question: TableQuestion, best: Row, others: Sequence[tuple[Row, ComparedWith]]) -> tuple[str, str]:
    compared = [(one, interleaved((best, row))) for row, one in others if one.value.low is not None]
    unclear = [one for _, one in others if not one.clear]
    once = sum(one.clear and one.value.low is None for _, one in others)
    elsewhere = [one.name for one, together in compared if not together]
    asides = (
        f"{once} that ran once {'is' if once == 1 else 'are'} not compared" if once else "",
        f"not measured in the same rounds as {_few(elsewhere, 'and')}" if elsewhere else "",
        question.aside,
    )
    if unclear and unclear[0].value.low is None:
        sure, why = UNSURE, f"{unclear[0].name} ran once, too little to tell them apart"
    elif unclear:
        sure, why = UNSURE, f"the runs do not tell them apart: {question.compare(unclear[0])}"
    elif compared:
        nearest, together = compared[0]
        sure, why = SURE if together else UNSURE, f"{question.compare(nearest)}, the next"
    else:
        sure, why = UNKNOWN, "" if question.aside else "nothing else was measured that it could be compared with"
    return sure, "; ".join(filter(None, (why, *asides)))


def common_target(rows: Sequence[Row]) -> float | None:
    """The highest round test accuracy, above guessing, that every run has reached of the rows that got anywhere."""
    trained = [row for row in rows if row.above_chance is not False and row.of_runs(TEST_ACCURACY)]
    reached = floor_of(min((value for row in trained for value in row.of_runs(TEST_ACCURACY)), default=0.0))
    return reached if reached > max((row.chance or 0.0 for row in trained), default=0.0) else None


def _quickest(rows: Sequence[Row], times: Times, target: float) -> TableQuestion:
    def seconds(row: Row) -> list[float]:
        """Of each run that got there; none if not all did: the others would be compared with nothing."""
        reached = [
            next((at.seconds for at in times.get(run, ()) if (at.test_accuracy or 0) >= target), math.inf)
            for run in row.runs
        ]
        return reached if reached and all(map(math.isfinite, reached)) else []

    left = sum(bool(row.of_runs(TEST_ACCURACY)) and not seconds(row) for row in rows)
    aside = f"{left} other{'s' if left > 1 else ''} did not reach it in every run" if left else ""
    measure = Measure(seconds, LESS, RATIO)
    return TableQuestion(f"Quickest to test accuracy {target:g}", measure, _with("s of training"), as_factor, aside)


def _with(unit: str, text: Callable[[float], str] = number) -> Callable[[Estimate], str]:
    def said(value: Estimate) -> str:
        bounds = "" if value.low is None or value.high is None else f" ({text(value.low)}–{text(value.high)})"
        return f"{text(value.median)} {unit}{bounds}"

    return said


def _names(rows: Sequence[Row]) -> Callable[[Row], str]:
    """How each is called: by its framework, and by what sets it apart from others of that name on the same devices."""
    elsewhere = labels(rows, lambda row: (row.cell.framework, where(row)))
    names = {id(row): f"{row.cell.framework} {label}".strip() for row, label in zip(rows, elsewhere, strict=True)}
    return lambda row: names[id(row)]


def _one_of(cells: Sequence[tuple[str, str]]) -> str:
    """`torch, jax or mxnet on 1xcpu`, each with its own devices where they differ."""
    if len({devices for _, devices in cells}) == 1:
        return f"{_few([name for name, _ in cells], 'or')} on {cells[0][1]}"
    return _few([f"{name} on {devices}" for name, devices in cells], "or")


def _few(names: Sequence[str], last: str) -> str:
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def questions(untrained: str) -> Iterator[TableQuestion]:
    """What is asked of every table; of what was not trained long enough, no accuracy counts."""
    for quantity in all_quantities():
        if quantity.question:
            aside = untrained if quantity is TEST_ACCURACY else ""
            say, compare = _words(quantity)
            yield TableQuestion(quantity.question, Measure.of(quantity), say, compare, aside)


def _words(quantity: Quantity) -> tuple[Callable[[Estimate], str], Callable[[ComparedWith], str]]:
    if quantity.yardstick is RATIO:
        return _with(
            f"{quantity.unit}{', all devices together' if quantity is MEMORY else ''}", quantity.text
        ), as_factor
    return accuracy, as_difference
