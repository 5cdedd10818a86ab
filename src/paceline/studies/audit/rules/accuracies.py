"""Accuracies: their range, the other rows of the same setting, training against test, errors and top-k."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from paceline.studies.audit.printed_rows import DEVICES, EPOCHS, PrintedNumber, PrintedRow, PrintedTable
from paceline.studies.audit.rules.definition import Checks, TableCheck, figures
from paceline.studies.audit.rules.robust_statistics import spread

LEAST_PERCENTAGE = 10  # where as many values are above 1 as not: chance on ten classes
PLAINLY_PERCENT = 3  # values above 1, before one below 1 among them is worth a note
FEWEST_OTHERS = 3  # rows of the same setting
SMALL_GROUP = 50  # of which one row moves the median
FAR = 5  # spreads above the others: worth a note
VERY_FAR = 8
LEAST_SPREAD = 0.01  # of accuracies: one point, as between two seeds
WORTH_A_NOTE = 0.10  # part by which one is above all others of its setting
GAP_NOTE = 0.15  # by which test may be above training, which augmentation makes harder
GAP_WRONG = 0.25
ERROR = re.compile(r"(?<![a-z])err(or)?\b", re.IGNORECASE)

Named = tuple[PrintedRow, PrintedNumber, float]  # with its value as a part of 1


def in_percent(values: Iterable[PrintedNumber]) -> bool:
    """Of accuracies without a sign: by most of them, since one may be misprinted."""
    plain = [value.value for value in values if not value.percent]
    above = [value for value in plain if value > 1]
    if 2 * len(above) != len(plain):
        return 2 * len(above) > len(plain)
    return bool(above) and min(above) >= LEAST_PERCENTAGE


def _named(table: PrintedTable) -> dict[str, list[Named]]:
    names: dict[str, list[tuple[PrintedRow, PrintedNumber]]] = {}
    for row in table.rows:
        for name, figure in row.accuracies.items():
            names.setdefault(name, []).append((row, figure))
    hits = [figure for name, rows in names.items() if not ERROR.search(name) for _, figure in rows]
    found = {}
    for name, rows in names.items():
        # Of good networks most errors are below 1 %: the accuracies of the table say what is meant.
        whole = 100 if in_percent(hits if hits and ERROR.search(name) else [figure for _, figure in rows]) else 1
        found[name] = [(row, figure, figure.value / (1 if figure.percent else whole)) for row, figure in rows]
    return found


def accuracy_range(table: PrintedTable) -> Checks:
    """It holds a figure only if twice as much would be out of range."""
    for name, found in _named(table).items():
        above = sum(figure.value > 1 for _, figure, _ in found)
        for row, figure, part in found:
            highest = 1 if figure.percent or part == figure.value else 100
            wrong = f"printed {figure.text}, but {name.lower()} lies between 0 and {highest}"
            if not 0 <= part <= 1:
                yield TableCheck(row.where, wrong, figures(row, name))
            elif highest == 100 and not ERROR.search(name) and 0 < figure.value <= 1 and above >= PLAINLY_PERCENT:
                yield TableCheck(
                    row.where, f"printed {figure.text} among percentages", figures(row, name), counts=False
                )
            elif part > 1 / 2:
                yield TableCheck(row.where, None, figures(row, name))


def same_setting(table: PrintedTable) -> Checks:
    """Training may fail in many ways, but what lies far above all others of its setting is strange."""
    for name, found in _named(table).items():
        if ERROR.search(name):
            continue  # a run that failed has many
        groups: dict[tuple[str, ...], list[Named]] = {}
        for row, figure, part in found:
            epochs = row.one(EPOCHS)
            if row.setting is not None and row.one(DEVICES):
                groups.setdefault((*row.setting, epochs.text if epochs else ""), []).append((row, figure, part))
        for group in groups.values():
            if len(group) > FEWEST_OTHERS and all(0 <= part <= 1 for *_, part in group):
                yield from _above_the_others(name, group)


def _above_the_others(name: str, group: list[Named]) -> Checks:
    counts = {row.where: count.value for row, *_ in group if (count := row.one(DEVICES))}
    fewest, most = min(counts.values()), max(counts.values())
    parts = sorted(part for *_, part in group)
    others = _others(parts)
    for row, figure, part in group:
        middle, stray = others(part)
        highest = parts[-1] if part < parts[-1] else parts[-2]
        near = max(middle + FAR * stray, highest * (1 + WORTH_A_NOTE))
        noticed = figures(row, name) if 2 * part > near else ()
        very = fewest < counts[row.where] < most and part > middle + VERY_FAR * stray
        text = (
            f"printed {figure.text}, but the other {len(group) - 1} rows of its setting have {middle:.3g} in the "
            f"middle and {highest:.3g} at most"
        )
        if noticed:
            yield TableCheck(row.where, text if part > near else None, noticed, counts=very)


def _others(parts: list[float]) -> Callable[[float], tuple[float, float]]:
    """Median and spread without one of them, which matters only in a small group."""
    whole = spread(parts)

    def without(part: float) -> tuple[float, float]:
        if len(parts) > SMALL_GROUP:
            return whole[0], max(whole[1], LEAST_SPREAD)
        i = parts.index(part)
        middle, stray = spread(parts[:i] + parts[i + 1 :])
        return middle, max(stray, LEAST_SPREAD)

    return without


def training_and_test(table: PrintedTable) -> Checks:
    """Test far above training, where the other rows have no such gap."""
    named = _named(table)
    training = next((found for name, found in named.items() if "train" in name.lower()), [])
    testing = next((found for name, found in named.items() if re.search(r"test|valid", name, re.IGNORECASE)), [])
    tested = {row.where: (row, figure, part) for row, figure, part in testing}
    pairs = [(figure, *tested[row.where], part) for row, figure, part in training if row.where in tested]
    if len(pairs) <= FEWEST_OTHERS:
        return
    middle, stray = spread([part - trained for _, _, _, part, trained in pairs])
    for trained_text, row, figure, part, trained in pairs:
        gap = part - trained
        far = gap - middle > FAR * max(stray, LEAST_SPREAD)
        text = f"test accuracy {figure.text}, but {trained_text.text} in training; the others have no such gap"
        wrong = text if far and gap > GAP_NOTE else None
        covers = (
            figures(row, *(name for name, found in named.items() if found is testing))
            if 2 * part - trained > GAP_NOTE
            else ()
        )
        if wrong or covers:
            yield TableCheck(row.where, wrong, covers, counts=gap > GAP_WRONG)


def error_and_top(row: PrintedRow) -> Checks:
    """Accuracy and error make 100 %; the right class is among five at least as often as first of all."""
    by_name = {
        " ".join(re.findall(r"[a-z0-9]+", name.lower())): (name, figure) for name, figure in row.accuracies.items()
    }
    for plain, (name, figure) in by_name.items():
        other = by_name.get(ERROR.sub("", plain).strip()) if ERROR.search(plain) else None
        if other:
            total = figure.value + other[1].value
            whole = 100 if total > 2 else 1
            right = abs(total - whole) <= figure.step + other[1].step
            text = f"{other[1].text} of accuracy and {figure.text} of errors make {total:.6g}, not {whole}"
            yield TableCheck(row.where, None if right else text, figures(row, name, other[0]))
        five = by_name.get(re.sub(r"\b(top ?)1\b", r"\g<1>5", plain)) if re.search(r"\btop ?1\b", plain) else None
        if five and not ERROR.search(plain):
            wrong = f"top-1 {figure.text} is more than top-5 {five[1].text}"
            is_wrong = figure.value > five[1].value
            covers = figures(row, name) if 2 * figure.value > five[1].value else ()
            if covers:
                yield TableCheck(row.where, wrong if is_wrong else None, covers)
