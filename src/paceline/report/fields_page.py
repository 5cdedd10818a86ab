"""The table of docs/fields.md about what is measured, made from the quantities themselves, those of plug-ins included.

`python -m paceline.report.fields_page docs/fields.md` puts it between the two marks of the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

from paceline.analysis.quantities.definition import ESTIMATE, MEDIAN, OF_EACH, OF_RUNS, Quantity
from paceline.analysis.quantities.known import all_quantities
from paceline.report.document import listing
from paceline.report.formats import as_markdown

BEGIN, END = "<!-- quantities -->", "<!-- end of quantities -->"
FORMS = {ESTIMATE: "estimate", MEDIAN: "median", OF_RUNS: "of each run that ended well", OF_EACH: "for each device"}


def table() -> str:
    lines = [_line(quantity) for quantity in all_quantities() if quantity.forms]
    return as_markdown([listing(("field", "what it is", "which rows have none"), lines)])


def _line(quantity: Quantity) -> tuple[str, ...]:
    fields = ", ".join(f"`{name}`" for name in quantity.forms)
    forms = ", ".join(FORMS[form] for form in quantity.forms.values())
    unit = f", in {quantity.unit}" if quantity.unit else ""
    return fields, f"{forms}{unit}: {quantity.meaning}", quantity.absent


def with_table(page: str) -> str:
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
