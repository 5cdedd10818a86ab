"""What each column of a table is by its heading and its cells: a quantity, an accuracy, or words that were chosen."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from paceline.studies.audit import printed_rows as p

LONGEST = 100  # letters of a heading that means a quantity
IMAGES = r"(images?|imgs?|samples?|examples?|frames?)"
MEASURE = r"mi?b|gi?b"

# The first that fits is meant; headings are compared in small letters, with spaces for underscores.
HEADINGS = (
    (p.EPOCH_SECONDS, r".*\b(time|seconds|secs?|s)\b.*(/| per )\s*epoch|.*epoch (time|seconds)"),
    (
        p.STEP_SECONDS,
        r"(\w+ ){0,2}(step|batch|iteration) time\b|(time|seconds|ms|s)( \(m?s\))?\s*(/| per )\s*(step|batch|iteration)",
    ),
    (p.SPEED_OF_ONE, rf".*{IMAGES}.*s.*(/|per )\s*(gpu|device|card|chip|accelerator)"),
    (p.IMAGES_PER_SECOND, rf"(?!.*(cpu|processor|\blow|\bhigh)).*{IMAGES}( processed)?\s*(/|per)\s*s|fps$|throughput$"),
    (p.EPOCHS, r"(number of |num )?epochs?$"),
    (p.SECONDS, r"(training |total |wall )*(time|seconds|secs?|s)( \(?(s|secs?|seconds)\)?)?$"),
    (p.DEVICES, r"#?\s*(number of |num |total )?(gpus?|devices?|cards|accelerators)( num| number| count)?$"),
    (p.BATCH, r"(\w+ ){0,3}batch([ -]?size)?$"),
    (
        p.MEMORY,
        rf"((max(imum)?|peak|total|gpu) )*memory( consumption| usage)?( \(?({MEASURE})\)?)?(,? \(?total\)?)?$"
        rf"|({MEASURE})$",
    ),
    (p.SPEED_UP, r"(speed-? ?up|scaling)$"),
    (p.EFFICIENCY, r"(scaling |parallel )?efficiency( \(%\))?$"),
)
FORMS = tuple((name, re.compile(form)) for name, form in HEADINGS)
TIMES = (p.EPOCH_SECONDS, p.SECONDS)
OTHER_UNITS = re.compile(r"\b(ms|min|mins|minutes?|hours?|hrs?|h|days?)\b")  # of which a number alone says nothing
ANY = re.compile(
    r"time|sec|\bs\b|epoch|/|per|gpu|device|card|batch|b\b|memory|speed|scaling|efficiency|fps|throughput|step"
)
TOP = re.compile(r"(top[ -]?|acc(uracy)?@)[15]\b")
MACHINES = re.compile(
    r"#?\s*(number of |num )?(nodes?|hosts?|machines|instances|servers|workers)( num| number| count)?$"
)
ACCURACY = re.compile(
    r"\b(accuracy|acc|top[ -]?[15]|(test|val|validation|train|training|classification) err(or)?)\b|acc@"
)
NO_ACCURACY = re.compile(r"time|epoch|step|loss|drop|delta|gain|change|diff|std|interval|target|to reach|vs|[Δ±/]")
INTERVAL = re.compile(r"\s*\d[\d.,]{0,20}\s?(?:[–—±]|\+/-)\s?\d")
MANY = 3  # rows, after which a column of nothing but different decimals is a result, not a setting


@lru_cache(maxsize=4096)
def quantity_of(heading: str) -> str | None:
    if len(heading) > LONGEST:
        return None
    plain = _plain(heading).removesuffix(" median")
    if not ANY.search(plain):
        return None
    found = next((name for name, form in FORMS if form.match(plain)), None)
    return None if found in TIMES and OTHER_UNITS.search(plain) else found


def subject_of(heading: str) -> str | None:
    """What a whole table is about: Time, or Performance (image/second)."""
    if len(heading) > LONGEST:
        return None
    inside = re.search(r"\(([^()]+)\)", heading)
    return quantity_of(heading) or (quantity_of(inside[1]) if inside else None)


def counts_machines(heading: str) -> bool:
    return len(heading) <= LONGEST and bool(MACHINES.match(_plain(heading)))


def is_accuracy(heading: str) -> bool:
    if len(heading) > LONGEST:
        return False
    plain = _plain(heading)
    rest = TOP.sub("top", plain)
    is_one = ACCURACY.search(plain) or re.search(r"\btop [15]\b|\btop[15]\b", plain)
    return bool(is_one) and not re.search(r"\d", rest) and not NO_ACCURACY.search(rest)


def _plain(heading: str) -> str:
    return heading.strip(" *`").lower().replace("_", " ")


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
    quantities = {i: name for i, name in all_of_them.items() if name == p.DEVICES or first[name] == i}
    accuracies = {i: heading for i, heading in enumerate(headings) if i not in all_of_them and is_accuracy(heading)}
    words = [
        i
        for i, heading in enumerate(headings)
        if i not in all_of_them and i not in accuracies and heading.lower() != "status"
    ]
    columns = {i: [cells[i] for cells in body if i < len(cells) and cells[i]] for i in words}
    names = [i for i in words if not any(map(p.DIGITS.match, columns[i]))]
    settings = [i for i in words if not _is_result(columns[i]) and not any(map(p.COUNTED_DEVICES.match, columns[i]))]
    devices = next((i for i, name in quantities.items() if name == p.DEVICES), None)
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
        len(column) > MANY
        and len(set(column)) == len(column)
        and all("." in text and p.number(text) for text in column)
    )
