"""What to take, and how sure that is: the fastest, the least memory, the best and the quickest accuracy of a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.findings import ACCURACY, MEMORY, RATIO, SPEED, Against, Finding, Quantity, leaders
from paceline.metrics import Row
from paceline.report.columns import interval, number, part, where
from paceline.report.sentences import with_interval
from paceline.series import Moment
from paceline.stats import Estimate, estimate
from paceline.web.words import shown

Times = Mapping[str, Sequence[Moment]]  # of a run, epoch by epoch
Place = tuple[str, str]  # a framework and its devices
SURE, UNSURE, UNKNOWN = "clear", "cannot tell", "not known"
SIGNS = {SURE: "●", UNSURE: "◐", UNKNOWN: "○"}
MOST_NAMED = 4
STEP = 0.05  # a target that nobody gave is a multiple of this


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
class Question:
    text: str
    quantity: Quantity
    say: Callable[[Estimate], str]
    compare: Callable[[Against], str]


def answers(rows: Sequence[Row], found: Sequence[Finding], times: Times, target: float | None) -> list[Answer]:
    """Of one table; machines are not mixed, and commands are not ranked."""
    if any(row.command for row in rows):
        return []
    machines: dict[tuple[str | None, str | None], list[Row]] = {}
    for row in rows:
        if row.repeats and row.status != "failed" and not row.slow:
            machines.setdefault((row.machine_description, row.machine), []).append(row)
    answered = [
        (description or name or "", list(_of_machine(group, found, times, target)))
        for (description, name), group in machines.items()
    ]
    if len(machines) == 1:
        return answered[0][1]
    return [replace(each, question=f"{each.question}: {shown(name)}") for name, all_ in answered for each in all_]


def _of_machine(rows: Sequence[Row], found: Sequence[Finding], times: Times, target: float | None) -> Iterator[Answer]:
    for question in QUESTIONS:
        yield from _answer(question, rows, [one for one in found if one.kind == question.quantity.kind])
    reached = target or common_target(rows)
    if reached:
        quickest = _quickest(times, reached)
        yield from _answer(quickest, rows, list(leaders(rows, quickest.quantity)))


def _answer(question: Question, rows: Sequence[Row], found: Sequence[Finding]) -> Iterator[Answer]:
    values = question.quantity.values
    usable = [row for row in rows if values(row)]
    if not usable:
        return
    best = max(usable, key=lambda row: question.quantity.better * statistics.median(values(row)))
    same = [one for one in found if one.who == (best.framework,) and one.where == where(best)]
    rivals = _untold(best, same) + _overlapping(best, usable, same, values)
    sure, why = _sureness(question, [values(row) for row in usable], len(values(best)), same, rivals)
    value = question.say(estimate(values(best)) or Estimate(0.0))
    said = f"{best.framework} on {where(best)}: {value}" if rivals else value
    who = _one_of([(best.framework, where(best)), *rivals])
    yield Answer(question.text, best, shown(who), shown(said), sure, shown(why))


def _untold(best: Row, same: Sequence[Finding]) -> list[Place]:
    """Frameworks that the runs on the same devices cannot tell from the best."""
    names = [one.name for finding in same for one in finding.against if not one.clear]
    return [(name, where(best)) for name in dict.fromkeys(names)]


def _overlapping(
    best: Row, rows: Sequence[Row], same: Sequence[Finding], values: Callable[[Row], Sequence[float]]
) -> list[Place]:
    """Cells that no test was made with, such as those on other devices, and whose interval meets that of the best."""
    tested = {(one.name, where(best)) for finding in same for one in finding.against}
    others = [row for row in rows if row is not best and (row.framework, where(row)) not in tested]
    met = [row for row in others if _meet(values(best), values(row))]
    return list(dict.fromkeys((row.framework, where(row)) for row in met))


def _meet(values: Sequence[float], others: Sequence[float]) -> bool:
    """Whether their intervals have something in common; a single run has none, and is not compared."""
    if max(min(values), min(others)) > min(max(values), max(others)):
        return False  # no interval of a median reaches beyond its values
    if len(values) == 1 or len(others) == 1:
        return False
    (low, high), (other_low, other_high) = _ends(values), _ends(others)
    return max(low, other_low) <= min(high, other_high)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    found = estimate(values)
    if found is None or found.low is None or found.high is None:
        raise ValueError("an interval needs two runs")
    return found.low, found.high


def _sureness(
    question: Question, measured: Sequence[Sequence[float]], runs: int, same: Sequence[Finding], rivals: Sequence[Place]
) -> tuple[str, str]:
    once = sum(len(values) == 1 for values in measured)
    aside = f"; {once} that ran once {'is' if once == 1 else 'are'} not compared" if once else ""
    unclear = [one for finding in same for one in finding.against if not one.clear]
    if runs == 1:
        return UNKNOWN, "one run: nothing can be told about differences; more repeats tell"
    if len(measured) - once == 1:
        return UNKNOWN, f"nothing else was measured that it could be compared with{aside}"
    if unclear:
        return UNSURE, f"the runs do not tell them apart: {question.compare(unclear[0])}{aside}"
    if rivals:
        return UNSURE, f"their 95 % intervals overlap{aside}"
    if same:
        return SURE, f"{question.compare(same[0].against[0])}, the next on the same devices{aside}"
    return SURE, f"its 95 % interval lies apart from those of all others{aside}"


def common_target(rows: Sequence[Row]) -> float | None:
    """The highest round test accuracy that every one of the rows has reached in the end; None if there is none."""
    reached = [row.test_accuracy.median for row in rows if row.test_accuracy]
    if not reached:
        return None
    target = round(math.floor(min(reached) / STEP + 1e-9) * STEP, 2)
    return target if target > 0 else None


def _quickest(times: Times, target: float) -> Question:
    def seconds(row: Row) -> list[float]:
        """Of each run that got there; none if not all did: the others would be compared with nothing."""
        reached = [
            next((at.seconds for at in times.get(run, ()) if (at.test_accuracy or 0) >= target), math.inf)
            for run in row.runs
        ]
        return reached if reached and all(map(math.isfinite, reached)) else []

    quantity = Quantity("time to accuracy", seconds, -1, RATIO)
    return Question(f"Quickest to test accuracy {target:g}", quantity, _with("s of training"), _times)


def _with(unit: str) -> Callable[[Estimate], str]:
    return lambda value: f"{number(value.median)} {unit}" + (f" ({interval(value)})" if value.low is not None else "")


def _accuracy(value: Estimate) -> str:
    return part(value.median) + (f" ({part(value.low)}–{part(value.high)})" if value.low is not None else "")


def _times(one: Against) -> str:
    return f"{with_interval(one.value)} times {one.name}"


def _above(one: Against) -> str:
    return f"{one.value.median:.3f} ({part(one.value.low)}–{part(one.value.high)}) above {one.name}"


def _one_of(cells: Sequence[Place]) -> str:
    """`torch, jax or mxnet on 1xcpu`, each with its own devices where they differ."""
    together = len({devices for _, devices in cells}) == 1
    names = [name if together else f"{name} on {devices}" for name, devices in cells]
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    said = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{said} on {cells[0][1]}" if together else said


QUESTIONS = (
    Question("Fastest", SPEED, _with("images/s"), _times),
    Question("Least memory", MEMORY, _with("MiB, all devices together"), _times),
    Question("Best test accuracy", ACCURACY, _accuracy, _above),
)
