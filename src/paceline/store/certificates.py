"""Verdicts that are kept, and which of them speak of a run: those on what it was, by the versions and code it had."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from paceline.environments.older_code_hashes import same_code
from paceline.plan.cell import Cell
from paceline.plan.devices import parse_devices
from paceline.plan.shares import EQUAL, proportions
from paceline.store.records.runs import UNREADABLE, VERDICT_FOLDER
from paceline.store.records.verdict import Verdict
from paceline.store.run_results import RunResult
from paceline.system.errors import UserError
from paceline.system.files.atomic_files import write_json
from paceline.system.files.regular_files import read_plain

FOLDER = VERDICT_FOLDER


def save(store: Path, verdict: Verdict) -> None:
    """The newest verdict of a framework on a workload and a setting replaces the one before."""
    name = re.sub(r"[^\w.+-]", "_", f"{verdict.workload}@{verdict.framework}@{verdict.setting}")
    path = store / FOLDER / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, verdict)


def load(store: Path) -> list[Verdict]:
    return [_read(path) for path in sorted((store / FOLDER).glob("*.json"))]


def _read(path: Path) -> Verdict:
    try:
        found = msgspec.json.decode(read_plain(path), type=Verdict)
        scope(found)
    except (UserError, *UNREADABLE) as error:
        raise UserError(f"{path} is damaged: {error}; delete it and run `paceline verify` again.") from None
    return found


Proofs = dict[tuple[str, ...], list[Verdict]]  # by what they are about, but for the code


def proofs(store: Path) -> Proofs:
    found: Proofs = {}
    for verdict in load(store):
        about = (*scope(verdict), verdict.fingerprint, verdict.machine)
        found.setdefault(about, []).append(verdict)
    return found


def proven(found: Proofs, cell: Cell, run: RunResult) -> bool:
    """Whether what a run trained was found equal, and never unequal, on exactly such devices in exactly this way."""
    about, code = (*scope(cell), run.fingerprint, run.machine), run.worker_code
    verdicts = [one for one in found.get(about, ()) if same_code(cell.framework, one.worker_code, code)]
    return bool(verdicts) and all(verdict.equal for verdict in verdicts)


def scope(one: Cell | Verdict) -> tuple[str, ...]:
    """All that a verdict counts for, in a row and in the verdict itself; certificates of old name their devices, too.

    How devices agree and divide a batch says something only where there are several, or one that is wrapped. Which GPUs
    of the machine they are does not matter.
    """
    devices = parse_devices(one.devices)
    several = devices.count > 1
    place = one.parameter_device or "cpu" if one.update == "parameter_server" else ""
    way = (one.update, place, "wrapped" if one.wrapped else "") if several or one.wrapped else ("", "", "")
    shares = proportions(one.shares) if several else EQUAL
    return (one.workload, one.framework, one.precision, devices.kind, str(devices.count), *way, shares)
