"""What charts say in words: names of cells, what is fixed, what is missing, and what is doubtful."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from paceline.analysis.rows.labels import where
from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.escaping import few
from paceline.report.tables.columns import machines
from paceline.system.text.formatting import number
from paceline.system.text.safe_text import printable

LONGEST_NAME, LONGEST_REASON = 44, 64
MOST_NAMED, MOST_DESCRIBED = 4, 6
WITHOUT_RESULT = ("failed", "skipped", "not run")

Setting = Callable[[Row], str]


def short(text: str, longest: int) -> str:
    """In one line, of letters that any picture may hold."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def kind_of_device(row: Row) -> str:
    return "cpu" if "cpu" in row.cell.devices else "cuda"


def where_and_what(row: Row) -> str:
    return short(f"{row.cell.framework} {where(row)}", LONGEST_NAME)


def _epochs(row: Row) -> str:
    if row.epochs is None:
        return f"{row.cell.steps} steps"
    count = f"{row.epochs:.3g}"  # the last batch may be filled up
    return f"{count} epoch{'' if count == '1' else 's'}"


# Each in all the ways in which it can be said: of those that tell most rows apart, the one with the fewest names is
# taken, which keeps lines together.
IF_NEEDED: tuple[tuple[Setting, ...], ...] = (
    (lambda row: f"{row.cell.steps} steps", _epochs),
    (lambda row: f"lr {row.cell.learning_rate:g}",),
    (lambda row: f"seed {row.cell.seed}",),
    (lambda row: row.framework_version or "",),
)


def names(
    rows: Sequence[Row], settings: Sequence[Setting] = (where,), place: Callable[[Row], object] = lambda row: None
) -> list[str]:
    """The framework, then each told setting in which rows differ, then what else tells two in one place apart.

    They are whole: what is cut before it is compared may be alike.
    """
    found = [row.cell.framework for row in rows]
    places = list(map(place, rows))
    for setting in settings:
        if len(set(map(setting, rows))) > 1:
            found = _longer(found, rows, setting)
    for ways in IF_NEEDED:
        known = [found, *(_longer(found, rows, setting) for setting in ways)]
        found = min(known, key=lambda each: (-len(set(zip(each, places, strict=True))), len(set(each))))
    return found


def _longer(found: Sequence[str], rows: Sequence[Row], setting: Setting) -> list[str]:
    return [f"{name} {setting(row)}".strip() for name, row in zip(found, rows, strict=True)]


def numbered(found: Sequence[str]) -> list[str]:
    """Short, and no two alike: two bars of one name would be drawn as one."""
    seen: Counter[str] = Counter()
    settings = []
    for name in (short(each, LONGEST_NAME) for each in found):
        seen[name] += 1
        settings.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return settings


def doubts(row: Row) -> str:
    """Marks in words; those that its name has already are left out."""
    marks = [*(("noisy",) if row.status == "noisy" else ()), *row.marks]
    return ", ".join(mark for mark in marks if mark not in where(row))


def outcome(row: Row, value: str) -> str:
    """The text next to a mark: the number and its doubts, or why there is none."""
    if row.status in WITHOUT_RESULT:
        why = short(f"{row.status}: {row.reason or 'unknown cause'}", LONGEST_REASON)
        return f"{value}, {why}" if value else why
    return ", ".join(filter(None, (value, doubts(row)))) or "no value"


def about(rows: Iterable[tuple[str, Row]], *, hollow: bool = True) -> list[str]:
    """Which rows have no result, and which are doubtful, where marks cannot carry their own words."""
    groups: dict[str, list[str]] = {}
    for name, row in rows:
        state = row.status if row.status in WITHOUT_RESULT else doubts(row)
        if state:
            groups.setdefault(state, []).append(name)
    return [
        f"{state}{' (hollow points)' if hollow and state not in WITHOUT_RESULT else ''}: {few(found, MOST_NAMED, ', ')}"
        for state, found in groups.items()
    ]


def counted(count: int, one: str, several: str) -> list[str]:
    """A note about so many, if there are any."""
    return [f"{count} {one if count == 1 else several}"] if count else []


def fixed(rows: Sequence[Row], shared: str) -> list[str]:
    """What all rows share, and what their machine is."""
    return [shared, *(description or name for name, description in machines(rows).items())]


def with_interval(value: Estimate, text: Callable[[float], str] = number) -> str:
    if value.low is None or value.high is None:
        return text(value.median)
    return f"{text(value.median)} ({text(value.low)}–{text(value.high)})"
