"""What each column of a table is: a quantity, an accuracy, or words, and which of these were chosen."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from paceline.studies.audit.printed_rows import COUNTED_DEVICES, DEVICES, DIGITS, number
from paceline.studies.audit.text.headings import counts_machines, is_accuracy, quantity_of

INTERVAL = re.compile(r"\s*\d[\d.,]{0,20}\s?(?:[–—±]|\+/-)\s?\d")
MANY = 3  # rows, after which a column of nothing but different decimals is a result, not a setting


@dataclass(frozen=True)
class ColumnRoles:
    """What the columns of a grid are, by their position."""

    headings: list[str]
    quantities: dict[int, str]
    accuracies: dict[int, str]
    words: list[int] = field(default_factory=list)  # all others
    names: list[int] = field(default_factory=list)  # those of them without a number
    settings: list[int] = field(default_factory=list)  # those of them that were probably chosen


def roles_of(headings: list[str], body: list[list[str]]) -> ColumnRoles:
    all_of_them = {i: name for i, heading in enumerate(headings) if (name := quantity_of(heading))}
    # Of two columns of one quantity, the second is about something else; devices may be listed before they are counted.
    first = {name: i for i, name in reversed(all_of_them.items())}
    quantities = {i: name for i, name in all_of_them.items() if name == DEVICES or first[name] == i}
    accuracies = {i: heading for i, heading in enumerate(headings) if i not in all_of_them and is_accuracy(heading)}
    words = [
        i
        for i, heading in enumerate(headings)
        if i not in all_of_them and i not in accuracies and heading.lower() != "status"
    ]
    columns = {i: [cells[i] for cells in body if i < len(cells) and cells[i]] for i in words}
    names = [i for i in words if not any(map(DIGITS.match, columns[i]))]
    settings = [i for i in words if not _is_result(columns[i]) and not any(map(COUNTED_DEVICES.match, columns[i]))]
    devices = next((i for i, name in quantities.items() if name == DEVICES), None)
    settings = [i for i in settings if not (counts_machines(headings[i]) and _follows(i, devices, body))]
    return ColumnRoles(headings, quantities, accuracies, words, names, settings)


def _follows(column: int, devices: int | None, body: list[list[str]]) -> bool:
    """True if each number of devices has one number of machines: they are then not a setting of their own."""
    if devices is None:
        return False
    pairs = {(cells[devices], cells[column]) for cells in body if len(cells) > max(devices, column)}
    return len(pairs) == len({count for count, _ in pairs})


def _is_result(column: list[str]) -> bool:
    """All different decimals are probably measured (power, loss), and so are intervals."""
    if any(map(INTERVAL.match, column)):
        return True
    return (
        len(column) > MANY and len(set(column)) == len(column) and all("." in text and number(text) for text in column)
    )
