"""What an audit found: the arithmetic in one sentence for each, in Markdown as a table."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from functools import partial

from paceline.report.document import Document, Paragraph, listing
from paceline.report.formats import formats
from paceline.studies.audit import Audit
from paceline.studies.audit.printed_rows import AuditFinding
from paceline.studies.audit.rules.all_rules import UncheckedFigures
from paceline.system.text.formatting import NOTHING
from paceline.system.text.safe_text import plainly

WIDTH = 80
HEADINGS = ("where", "rule", "what")
_filled = partial(textwrap.fill, width=WIDTH, break_on_hyphens=False)


def summary(audit: Audit) -> str:
    """How much was checked, and how much cannot be: an audit that checks nothing proves nothing."""
    unchecked = sum(each.figures for each in audit.unchecked)
    open_ones = f"{_count(unchecked, 'figure')} not checkable"
    if not audit.checked:
        return f"{audit.source}: cannot tell: no two figures of it say the same thing; {open_ones}."
    wrong = _count(len(audit.findings), "contradiction") if audit.findings else "nothing contradicts"
    passed = f"{_count(audit.passed, 'check')} passed"
    return f"{audit.source}: {passed}, {wrong}, {_count(len(audit.notes), 'note')}, {open_ones}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def open_question(unchecked: UncheckedFigures) -> str:
    """Figures that may be anything, and why."""
    return f"{_count(unchecked.figures, 'figure')} of {unchecked.quantity} not checkable: {unchecked.why}"


def sentence(finding: AuditFinding) -> str:
    return f"{'' if finding.counts else 'note: '}{finding.text}"


def _lines(audit: Audit) -> list[tuple[str, str, str]]:
    """Where, by which rule, and what."""
    found = [(each.where, each.rule, sentence(each)) for each in (*audit.findings, *audit.notes)]
    return [*found, *((each.where, NOTHING, open_question(each)) for each in audit.unchecked)]


@plainly
def text(audit: Audit) -> str:
    """Readable on 80 columns."""
    listed = [_filled(f"* {where}: {what}", subsequent_indent="  ") for where, _, what in _lines(audit)]
    last = _filled(summary(audit), break_long_words=False)
    return "\n".join([*listed, *([""] if listed else []), last, ""])


def document(audit: Audit) -> Document:
    return [replace(listing(HEADINGS, _lines(audit)), optional=True), Paragraph(summary(audit))]


FORMATS = {**formats(document), "text": text}
