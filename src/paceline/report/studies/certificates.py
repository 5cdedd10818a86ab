"""Certificates: a line for each in a terminal, a table in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.report.document import Document, listing
from paceline.report.formats import formats
from paceline.store.records.certificate import Certificate, Divergence
from paceline.studies.equivalence import dropout
from paceline.studies.equivalence.tolerances import QUANTITIES
from paceline.system.text.safe_text import plainly

HEADINGS = ("workload", "framework", "devices", "against the reference")
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


def document(certificates: Sequence[Certificate]) -> Document:
    lines = [(each.workload, f"{each.framework} {each.version}", each.setting, sentence(each)) for each in certificates]
    return [listing(HEADINGS, lines)]


FORMATS = {**formats(document), "text": text}
