"""`paceline audit`: recomputes what a results table allows, and names the cells that contradict each other.

Reading tables is the business of `text`, knowing what must hold that of `rules`; nothing is printed here.
"""

from __future__ import annotations

import gc
from pathlib import Path

import msgspec

from paceline.catalog.published import all_benchmarks
from paceline.store.index_damage import blaming_the_index
from paceline.store.records.runs import PLAN_FOLDER, RUN_FOLDER
from paceline.store.store import Store
from paceline.studies.audit import published, store
from paceline.studies.audit.printed_rows import AuditFinding
from paceline.studies.audit.rules.all_rules import AuditJudgement, UncheckedFigures, judge
from paceline.studies.audit.text import reading
from paceline.system.errors import UserError

PUBLISHED = "published"


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Nothing checked means that the figures did not allow to tell."""

    source: str
    checked: int
    findings: tuple[AuditFinding, ...]  # contradictions
    notes: tuple[AuditFinding, ...]  # what is nearly one
    unchecked: tuple[UncheckedFigures, ...] = ()  # figures that no rule can find wrong

    @property
    def passed(self) -> int:
        return self.checked - len(self.findings) - len(self.notes)


def audit(what: str) -> Audit:
    """The published figures, the tables of a file, or the results of a store."""
    collected = gc.isenabled()
    gc.disable()  # looking for garbage takes half of the time, and the values of a table are none
    try:
        return _summed_up(what, _judged(what))
    finally:
        if collected:
            gc.enable()


def _judged(what: str) -> AuditJudgement:
    if what == PUBLISHED:
        each = [judge(published.document_of(benchmark)) for benchmark in all_benchmarks().values()]
        return AuditJudgement(
            [v for found in each for v in found.verdicts], tuple(u for found in each for u in found.unchecked)
        )
    path = Path(what)
    if not path.exists():
        raise UserError(f"There is no {what}; give a Markdown or CSV file, the folder of a store, or `{PUBLISHED}`.")
    if not path.is_dir():
        return judge(reading.read(path))
    if not (path / RUN_FOLDER).is_dir() and not (path / PLAN_FOLDER).is_dir():
        raise UserError(f"{what} is no store: it has neither {RUN_FOLDER} nor {PLAN_FOLDER}.")
    with blaming_the_index(Store(path)):
        return AuditJudgement(store.examine(Store(path)), ())


def _summed_up(source: str, judgement: AuditJudgement) -> Audit:
    found = [verdict for verdict in judgement.verdicts if verdict]
    return Audit(
        source=source,
        checked=len(judgement.verdicts),
        findings=tuple(finding for finding in found if finding.counts),
        notes=tuple(finding for finding in found if not finding.counts),
        unchecked=judgement.unchecked,
    )
