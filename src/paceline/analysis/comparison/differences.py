"""What else differs, other than what is compared: of two runs, or of two sets of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from paceline.analysis.comparison.recorded_facts import KINDS, FactKind
from paceline.store.index.setups import OWN_VARIABLES, Setup
from paceline.store.shown_variables import HIDDEN
from paceline.system.text.safe_text import printable, shortened

MOST_ITEMS = 5  # that differ are named, such as packages; more of them are counted
MOST_LINES = 5  # of one kind; likewise
MOST_NAMES = 4  # of frameworks
MOST_LETTERS = 300  # of a value
NOTHING_ELSE = (
    "nothing else that is recorded differs: machine, kernel, driver, cores, versions, packages, variables "
    f"(other than {', '.join(OWN_VARIABLES)}), data, settings and code are the same"
)


@dataclass(frozen=True)
class RunPair:
    """The runs of a cell on both sides, those that are alike once."""

    name: str  # of the framework
    old: Sequence[Setup]
    new: Sequence[Setup]


def differences(pairs: Sequence[RunPair], *, whole: bool = False) -> Iterator[str]:
    """A line for each, which says of which framework it is, and of how many cells if it is not of all.

    Long lists are cut for people, but not if the whole is wanted.
    """
    comparable = [_by_the_same_rule(pair) for pair in pairs if pair.old and pair.new]
    found: dict[str, dict[str, list[RunPair]]] = defaultdict(lambda: defaultdict(list))
    for pair in comparable:
        for name, change in _changes(pair, whole).items():
            found[name][change].append(pair)
    for name, kind in KINDS.items():
        lines = [_line(name, kind, change, having, comparable) for change, having in found[name].items()]
        yield from lines if whole else lines[:MOST_LINES]
        if len(lines) > MOST_LINES and not whole:
            yield f"{name}: {len(lines) - MOST_LINES} more differences"


def _by_the_same_rule(pair: RunPair) -> RunPair:
    """Beside a record from before machines had identities, all of them are known by their host names."""
    if all(setup.machine.identity for setup in (*pair.old, *pair.new)):
        return pair
    return RunPair(pair.name, *([_without_identity(setup) for setup in side] for side in (pair.old, pair.new)))


def _without_identity(setup: Setup) -> Setup:
    return msgspec.structs.replace(setup, machine=msgspec.structs.replace(setup.machine, identity=""))


def _changes(pair: RunPair, whole: bool) -> dict[str, str]:
    """By kind, in words."""
    every = {name: _change(kind, pair, whole) for name, kind in KINDS.items()}
    changed = {name: change for name, change in every.items() if change}
    return {
        name: change
        for name, change in changed.items()
        if not changed.keys() & set(KINDS[name].follows) and KINDS[name].only_with in ("", *changed)
    }


def _change(kind: FactKind, pair: RunPair, whole: bool) -> str:
    """Item by item; empty if there is none."""
    old, new = ([kind.items(setup) for setup in side] for side in (pair.old, pair.new))
    texts = []
    for item in sorted({item for items in (*old, *new) for item in items}):
        before, after = ({items.get(item, kind.missing) for items in side} for side in (old, new))
        if before != after:
            shown = [_shown(kind, item, values) for values in (before, after)]
            texts.append(" ".join(filter(None, (item, " → ".join(shown)))))
    if len(texts) > MOST_ITEMS and not whole:
        texts[MOST_ITEMS:] = [f"{len(texts) - MOST_ITEMS} more"]
    return printable(", ".join(texts))


def _shown(kind: FactKind, item: str, values: set[str]) -> str:
    harmless = kind.harmless
    kept = sorted({each if each == kind.missing or not harmless or harmless(item, each) else HIDDEN for each in values})
    more = [f"{len(kept) - MOST_ITEMS} more"] if len(kept) > MOST_ITEMS else []
    return ", ".join([*(shortened(value, MOST_LETTERS) for value in kept[:MOST_ITEMS]), *more])


def _line(name: str, kind: FactKind, change: str, having: Sequence[RunPair], comparable: Sequence[RunPair]) -> str:
    names = [] if kind.everywhere else sorted({pair.name for pair in having} - {""})
    among = [pair for pair in comparable if pair.name in names or not names]
    more = [f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    cells = ", ".join(names[:MOST_NAMES] + more)
    part = f" ({len(having)} of {len(among)} cells)" if len(having) < len(among) else ""
    return f"{' '.join(filter(None, (cells, name)))}: {change}{part}"
