"""Recompute what a results table allows to recompute, and name the cells that contradict each other."""

from __future__ import annotations

from pathlib import Path

import msgspec

from paceline.auditing import published, reading, store
from paceline.auditing.rows import Finding
from paceline.auditing.rules import examine
from paceline.errors import UserError
from paceline.index_damage import blaming_the_index
from paceline.published import all_benchmarks
from paceline.records import PLAN_FOLDER, RUN_FOLDER
from paceline.store import Store

PUBLISHED = "published"


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Nothing checked means that the figures did not allow to tell."""

    source: str
    checked: int
    findings: tuple[Finding, ...]  # contradictions
    notes: tuple[Finding, ...]  # what is nearly one


def audit(what: str) -> Audit:
    """The published figures, the tables of a file, or the results of a store."""
    return _summed_up(what, _verdicts(what))


def _verdicts(what: str) -> list[Finding | None]:
    if what == PUBLISHED:
        documents = map(published.document_of, all_benchmarks().values())
        return [verdict for document in documents for verdict in examine(document)]
    path = Path(what)
    if not path.exists():
        raise UserError(f"There is no {what}; give a Markdown or CSV file, the folder of a store, or `{PUBLISHED}`.")
    if not path.is_dir():
        return examine(reading.read(path))
    if not (path / RUN_FOLDER).is_dir() and not (path / PLAN_FOLDER).is_dir():
        raise UserError(f"{what} is no store: it has neither {RUN_FOLDER} nor {PLAN_FOLDER}.")
    with blaming_the_index(Store(path)):
        return store.examine(Store(path))


def _summed_up(source: str, verdicts: list[Finding | None]) -> Audit:
    found = [verdict for verdict in verdicts if verdict]
    return Audit(
        source=source,
        checked=len(verdicts),
        findings=tuple(finding for finding in found if finding.counts),
        notes=tuple(finding for finding in found if not finding.counts),
    )
