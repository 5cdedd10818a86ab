"""The counts of all mutants, in words, Markdown and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.judging import Shown, as_row
from benchmarks.mutants.mistakes import mutants
from benchmarks.mutants.mutation import Mistake, Omitted
from benchmarks.mutants.networks import Setting

RIGHT = Mistake("nothing", lambda setting: [], lambda setting, site: NotImplemented, ())
CAUGHT_TARGET, NAMED_TARGET = 0.98, 0.90


@dataclass(frozen=True)
class Summary:
    rows: Sequence[Shown]  # of mutants
    right: Sequence[Shown]  # of networks as they are
    equivalent: Sequence[Omitted]
    impossible: Sequence[Omitted]
    seconds: float

    @property
    def judged(self) -> list[Shown]:
        return [row for row in self.rows if row.failure is None]

    @property
    def alarms(self) -> list[Shown]:
        return [row for row in self.right if row.caught or row.failure]

    @property
    def caught(self) -> float:
        return sum(row.caught for row in self.judged) / max(1, len(self.judged))

    @property
    def named(self) -> float:
        return sum(row.named for row in self.judged) / max(1, len(self.judged))

    @property
    def met(self) -> bool:
        return self.caught >= CAUGHT_TARGET and self.named >= NAMED_TARGET and not self.alarms and bool(self.right)


def summary(rows: Iterable[Shown], settings: Iterable[Setting], seconds: float) -> Summary:
    found = list(rows)
    omitted = [mutants(setting)[1:] for setting in settings]
    return Summary(
        [row for row in found if row.mutant.mistake is not RIGHT],
        [row for row in found if row.mutant.mistake is RIGHT],
        [one for equivalent, _ in omitted for one in equivalent],
        [one for _, impossible in omitted for one in impossible],
        seconds,
    )


def line(row: Shown) -> str:
    """One mutant's end."""
    what = f"{row.framework} {row.mutant.setting.name}: {row.mutant.name}"
    if row.failure:
        return f"{what}: refused: {row.failure.splitlines()[0][:100]}"
    if row.finding is None:
        return f"{what}: {'equal' if row.mutant.mistake is RIGHT else 'MISSED'}"
    seen = f"{row.finding.quantity} {row.finding.diverges_at} by {row.finding.by or float('inf'):.1e}"
    return f"{what}: {'caught' if row.named else 'caught, NOT NAMED'}: {seen}"


def counts(found: Summary, key: Callable[[Shown], str]) -> list[tuple[str, int, int, int, int]]:
    """Mutants, caught, named and refused by some key."""
    keys = dict.fromkeys(key(row) for row in found.rows)
    return [
        (
            name,
            sum(1 for row in found.judged if key(row) == name),
            sum(row.caught for row in found.judged if key(row) == name),
            sum(row.named for row in found.judged if key(row) == name),
            sum(1 for row in found.rows if key(row) == name and row.failure),
        )
        for name in keys
    ]


def sentence(found: Summary) -> str:
    refused = len(found.rows) - len(found.judged)
    return (
        f"{len(found.judged)} mutants: {found.caught:.1%} caught, {found.named:.1%} with the right layer or rule "
        "named; "
        f"{refused} more were refused by the framework, {len(found.equivalent)} changes are proved to be none and "
        f"{len(found.impossible)} have impossible shapes. {len(found.alarms)} alarms on {len(found.right)} pairs of "
        f"framework and network as they are. {found.seconds / 60:.0f} minutes."
    )


def text(found: Summary) -> str:
    lines = [sentence(found), ""]
    lines += ["Missed:", *(f"  {line(row)}" for row in found.judged if not row.caught)]
    lines += ["Not named:", *(f"  {line(row)}" for row in found.judged if row.caught and not row.named)]
    lines += ["Refused:", *(f"  {line(row)}" for row in found.rows if row.failure)]
    lines += ["Alarms:", *(f"  {line(row)}" for row in found.alarms)]
    return "\n".join(lines)


def markdown(found: Summary) -> str:
    lines = [sentence(found), ""]
    keys: tuple[tuple[str, Callable[[Shown], str]], ...] = (
        ("framework", lambda row: row.framework),
        ("network", lambda row: row.mutant.setting.name),
        ("mistake", lambda row: row.mutant.mistake.name),
    )
    for title, key in keys:
        lines += [f"| {title} | mutants | caught | named | refused |", "|---|---:|---:|---:|---:|"]
        lines += [f"| {' | '.join(map(str, row))} |" for row in counts(found, key)]
        lines.append("")
    reasons = Counter(one.reason for one in found.equivalent)
    lines += ["Left out, since they are no mistakes:", ""]
    lines += [f"* {reason}: {count}" for reason, count in reasons.most_common()]
    for title, rows in (
        ("Missed", [row for row in found.judged if not row.caught]),
        ("Caught, but something else is named", [row for row in found.judged if row.caught and not row.named]),
        ("Refused", [row for row in found.rows if row.failure]),
        ("Alarms", found.alarms),
    ):
        lines += ["", f"{title}:", "", *(f"* {line(row)}" for row in rows)]
    return "\n".join(lines) + "\n"


def write(path: Path, found: Summary) -> None:
    if path.suffix == ".json":
        content = {"summary": sentence(found), "mutants": [as_row(row) for row in found.rows]}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    else:
        path.write_text(markdown(found), encoding="utf-8")
