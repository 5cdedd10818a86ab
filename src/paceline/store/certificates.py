"""The certificates of a store, and which of them speak of a run: those on what it was, with its versions and code."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from paceline.environments.older_code_hashes import same_code
from paceline.plan.cell import Cell
from paceline.plan.devices import parse_devices
from paceline.plan.shares import EQUAL, proportions
from paceline.store.records.certificate import Certificate
from paceline.store.records.runs import CERTIFICATE_FOLDER, UNREADABLE
from paceline.store.run_results import RunResult
from paceline.system.errors import UserError
from paceline.system.files.atomic_files import write_json
from paceline.system.files.regular_files import read_plain

FOLDER = CERTIFICATE_FOLDER


def save(store: Path, certificate: Certificate) -> None:
    """The newest certificate of a framework on a workload and a setting replaces the one before."""
    name = re.sub(r"[^\w.+-]", "_", f"{certificate.workload}@{certificate.framework}@{certificate.setting}")
    path = store / FOLDER / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, certificate)


def load(store: Path) -> list[Certificate]:
    return [_read(path) for path in sorted((store / FOLDER).glob("*.json"))]


def _read(path: Path) -> Certificate:
    try:
        found = msgspec.json.decode(read_plain(path), type=Certificate)
        scope(found)
    except (UserError, *UNREADABLE) as error:
        raise UserError(f"{path} is damaged: {error}; delete it and run `paceline verify` again.") from None
    return found


BySubject = dict[tuple[str, ...], list[Certificate]]  # by what they are about, but for the code


def by_subject(store: Path) -> BySubject:
    found: BySubject = {}
    for certificate in load(store):
        about = (*scope(certificate), certificate.fingerprint, certificate.machine)
        found.setdefault(about, []).append(certificate)
    return found


def proven(found: BySubject, cell: Cell, run: RunResult) -> bool:
    """Whether what a run trained was found equal, and never unequal, on exactly such devices in exactly this way."""
    about, code = (*scope(cell), run.fingerprint, run.machine), run.worker_code
    known = [one for one in found.get(about, ()) if same_code(cell.framework, one.worker_code, code)]
    return bool(known) and all(one.equal for one in known)


def scope(one: Cell | Certificate) -> tuple[str, ...]:
    """All that a certificate counts for, of a row and by itself; older certificates name their devices, too.

    How devices agree and divide a batch says something only where there are several, or one that is wrapped. Which GPUs
    of the machine they are does not matter.
    """
    devices = parse_devices(one.devices)
    several = devices.count > 1
    place = one.parameter_device or "cpu" if one.update == "parameter_server" else ""
    way = (one.update, place, "wrapped" if one.wrapped else "") if several or one.wrapped else ("", "", "")
    shares = proportions(one.shares) if several else EQUAL
    return (one.workload, one.framework, one.precision, devices.kind, str(devices.count), *way, shares)
