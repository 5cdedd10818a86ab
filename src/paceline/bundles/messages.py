"""The lines that `export` and `import` print."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from paceline.bundles.exporting import ExportSummary
from paceline.bundles.importing import ImportSummary
from paceline.report.escaping import few
from paceline.system.machine.hardware import Machine
from paceline.system.text.safe_text import printable
from paceline.system.text.secret_names import warning

MOST_VARIABLES = 8  # that are named


def written(found: ExportSummary, path: Path) -> str:
    return "\n".join(map(printable, _about_written(found, path)))


def _about_written(found: ExportSummary, path: Path) -> Iterator[str]:
    what = _listed(("run", found.runs), ("plan", found.plans), ("certificate", found.certificates))
    yield f"{path}: {what}, {found.bytes:,} bytes, content {found.digest}"
    yield from _machines(found.machines)
    if found.doubtful:
        yield warning(found.doubtful, "bundle")
    if found.variables:
        variables = few(found.variables, MOST_VARIABLES, ", ")
        yield f"Its runs have kept the variables {variables}: whoever gets the bundle can read their values."


def taken(found: ImportSummary, path: Path) -> str:
    return "\n".join(map(printable, _about_taken(found, path)))


def _about_taken(found: ImportSummary, path: Path) -> Iterator[str]:
    what = _listed(("run", found.runs), ("plan", found.plans), ("certificate", found.certificates))
    before = f", and {_listed(('run', found.runs_before))} here already, the same" if found.runs_before else ""
    yield f"{path}: {what} new{before}; content {found.digest}"
    yield from _machines(found.machines)
    # Somebody else chose the name, and the line is there to be copied into a shell.
    yield from (f"paceline show --suite {shlex.quote(printable(suite))}" for suite in found.suites)


def _listed(*counted: tuple[str, int]) -> str:
    """`12 runs, 1 plan`; the first also if there is none."""
    first, *others = counted
    shown = [first, *(pair for pair in others if pair[1])]
    return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in shown)


def _machines(machines: Iterable[Machine]) -> Iterator[str]:
    yield from (f"measured on {one.host} (machine {one.id}): {one.description}" for one in machines)
