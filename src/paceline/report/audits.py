"""What an audit found, as text, Markdown or JSON: the arithmetic in one sentence for each."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from paceline import letters
from paceline.auditing import Audit
from paceline.auditing.rows import Finding
from paceline.letters import plainly
from paceline.report.words import markdown_cell

WIDTH = 80


def summary(audit: Audit) -> str:
    """How much was checked: silence about nothing is no praise."""
    if not audit.checked:
        return f"{audit.source}: cannot tell: no two figures of it say the same thing."
    found = len(audit.findings)
    wrong = "nothing contradicts" if not found else f"{found} contradiction{'s' if found > 1 else ''}"
    return f"{audit.source}: {audit.checked} check{'s' if audit.checked > 1 else ''}, {wrong}."


def sentence(finding: Finding) -> str:
    return f"{finding.where}: {'' if finding.counts else 'note: '}{finding.text}"


@plainly
def text(audit: Audit) -> str:
    """Readable on 80 columns."""
    listed = [
        textwrap.fill(f"* {sentence(finding)}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        for finding in (*audit.findings, *audit.notes)
    ]
    return "\n".join([*listed, *([""] if listed else []), summary(audit), ""])


@plainly
def markdown(audit: Audit) -> str:
    rows = [
        f"| {markdown_cell(each.where)} | {each.rule} | {'' if each.counts else 'note: '}{markdown_cell(each.text)} |"
        for each in (*audit.findings, *audit.notes)
    ]
    table = ["| where | rule | what |", "|---|---|---|", *rows, ""] if rows else []
    return "\n".join([*table, markdown_cell(summary(audit)), ""])


def as_json(audit: Audit) -> str:
    return letters.as_json(audit)


FORMATS: dict[str, Callable[[Audit], str]] = {"text": text, "markdown": markdown, "json": as_json}
