"""What an audit found, as text, Markdown or JSON: the arithmetic in one sentence for each."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from paceline.report.escaping import markdown_cell
from paceline.studies.audit import Audit
from paceline.studies.audit.printed_rows import AuditFinding
from paceline.studies.audit.rules.all_rules import UncheckedFigures
from paceline.system.text import safe_text
from paceline.system.text.safe_text import plainly

WIDTH = 80


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
    figures = f"{_count(unchecked.figures, 'figure')} of {unchecked.quantity}"
    return f"{unchecked.where}: {figures} not checkable: {unchecked.why}"


def sentence(finding: AuditFinding) -> str:
    return f"{finding.where}: {'' if finding.counts else 'note: '}{finding.text}"


@plainly
def text(audit: Audit) -> str:
    """Readable on 80 columns."""
    sentences = [*map(sentence, (*audit.findings, *audit.notes)), *map(open_question, audit.unchecked)]
    listed = [textwrap.fill(f"* {each}", WIDTH, subsequent_indent="  ", break_on_hyphens=False) for each in sentences]
    last = textwrap.fill(summary(audit), WIDTH, break_on_hyphens=False, break_long_words=False)
    return "\n".join([*listed, *([""] if listed else []), last, ""])


@plainly
def markdown(audit: Audit) -> str:
    rows = [
        f"| {markdown_cell(each.where)} | {each.rule} | {'' if each.counts else 'note: '}{markdown_cell(each.text)} |"
        for each in (*audit.findings, *audit.notes)
    ]
    rows += [f"| {markdown_cell(each.where)} | – | {markdown_cell(_without_place(each))} |" for each in audit.unchecked]
    table = ["| where | rule | what |", "|---|---|---|", *rows, ""] if rows else []
    return "\n".join([*table, markdown_cell(summary(audit)), ""])


def _without_place(unchecked: UncheckedFigures) -> str:
    return open_question(unchecked).removeprefix(f"{unchecked.where}: ")


def as_json(audit: Audit) -> str:
    return safe_text.as_json(audit)


FORMATS: dict[str, Callable[[Audit], str]] = {"text": text, "markdown": markdown, "json": as_json}
