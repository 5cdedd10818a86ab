"""Certificates as lines for people, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline.report.escaping import markdown_cell
from paceline.store.records.certificate import Certificate, Divergence
from paceline.studies.equivalence import dropout
from paceline.studies.equivalence.tolerances import QUANTITIES
from paceline.system.text import safe_text
from paceline.system.text.safe_text import plainly

MEANINGS = {**{quantity.name: quantity.meaning for quantity in QUANTITIES}, **dropout.MEANINGS}


def sentence(certificate: Certificate) -> str:
    """Equal and how nearly, or the first layer that diverges and by how much."""
    if certificate.failure:
        return f"could not be seen: {certificate.failure}"
    wrong = next((finding for finding in certificate.findings if finding.diverges_at), None)
    if wrong:
        by = "no number" if wrong.by is None else f"{wrong.by:.1e}"
        where = f"diverge first at {wrong.diverges_at}, by {by} (allowed {wrong.tolerance:.0e})"
        return f"DIFFERS: {MEANINGS[wrong.quantity]} {where}"
    return "equal: " + ", ".join(largest(finding) for finding in certificate.findings)


def largest(finding: Divergence) -> str:
    place = f" ({finding.where})" if finding.where != finding.quantity else ""
    return f"{finding.quantity} {finding.largest or 0.0:.0e}{place}"  # equal ones have a number


def name(certificate: Certificate) -> str:
    return f"{certificate.workload} {certificate.framework} {certificate.version} {certificate.setting}"


@plainly
def text(certificates: Sequence[Certificate]) -> str:
    return "".join(f"{name(certificate)}: {sentence(certificate)}\n" for certificate in certificates)


@plainly
def markdown(certificates: Sequence[Certificate]) -> str:
    rows = [
        f"| {certificate.workload} | {certificate.framework} {certificate.version} | {certificate.setting} | "
        + markdown_cell(sentence(certificate))
        + " |"
        for certificate in certificates
    ]
    return "\n".join(["| workload | framework | devices | against the reference |", "|---|---|---|---|", *rows, ""])


def as_json(certificates: Sequence[Certificate]) -> str:
    return safe_text.as_json(certificates)


FORMATS: dict[str, Callable[[Sequence[Certificate]], str]] = {"text": text, "markdown": markdown, "json": as_json}
