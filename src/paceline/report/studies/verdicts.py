"""Verdicts as lines for people, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline.report.escaping import markdown_cell
from paceline.store.records.verdict import Divergence, Verdict
from paceline.studies.equivalence import dropout
from paceline.studies.equivalence.tolerances import QUANTITIES
from paceline.system.text import safe_text
from paceline.system.text.safe_text import plainly

MEANINGS = {**{quantity.name: quantity.meaning for quantity in QUANTITIES}, **dropout.MEANINGS}


def sentence(verdict: Verdict) -> str:
    """Equal and how nearly, or the first layer that diverges and by how much."""
    if verdict.failure:
        return f"could not be seen: {verdict.failure}"
    wrong = next((finding for finding in verdict.findings if finding.diverges_at), None)
    if wrong:
        by = "no number" if wrong.by is None else f"{wrong.by:.1e}"
        where = f"diverge first at {wrong.diverges_at}, by {by} (allowed {wrong.tolerance:.0e})"
        return f"DIFFERS: {MEANINGS[wrong.quantity]} {where}"
    return "equal: " + ", ".join(largest(finding) for finding in verdict.findings)


def largest(finding: Divergence) -> str:
    place = f" ({finding.where})" if finding.where != finding.quantity else ""
    return f"{finding.quantity} {finding.largest or 0.0:.0e}{place}"  # equal ones have a number


def name(verdict: Verdict) -> str:
    return f"{verdict.workload} {verdict.framework} {verdict.version} {verdict.setting}"


@plainly
def text(verdicts: Sequence[Verdict]) -> str:
    return "".join(f"{name(verdict)}: {sentence(verdict)}\n" for verdict in verdicts)


@plainly
def markdown(verdicts: Sequence[Verdict]) -> str:
    rows = [
        f"| {verdict.workload} | {verdict.framework} {verdict.version} | {verdict.setting} | "
        + markdown_cell(sentence(verdict))
        + " |"
        for verdict in verdicts
    ]
    return "\n".join(["| workload | framework | devices | against the reference |", "|---|---|---|---|", *rows, ""])


def as_json(verdicts: Sequence[Verdict]) -> str:
    return safe_text.as_json(verdicts)


FORMATS: dict[str, Callable[[Sequence[Verdict]], str]] = {"text": text, "markdown": markdown, "json": as_json}
