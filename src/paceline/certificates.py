"""Verdicts that are kept, and which of them speak of a run: same machine, versions, code and kind of devices."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from paceline.cell import Cell
from paceline.devices import parse_devices
from paceline.errors import UserError
from paceline.plain_files import read_plain
from paceline.records import UNREADABLE
from paceline.run_facts import Facts
from paceline.verify import Verdict
from paceline.whole_files import write_json

FOLDER = "verified"


def save(store: Path, verdict: Verdict) -> None:
    """The newest verdict of a framework on a workload, a device set and an update replaces the one before."""
    name = re.sub(r"[^\w.+-]", "_", f"{verdict.workload}@{verdict.framework}@{verdict.setting}")
    path = store / FOLDER / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, verdict)


def load(store: Path) -> list[Verdict]:
    paths = sorted((store / FOLDER).glob("*.json"))
    try:
        return [msgspec.json.decode(read_plain(path), type=Verdict) for path in paths]
    except UNREADABLE as error:
        raise UserError(f"A file in {store / FOLDER} is damaged: {error}; `paceline verify` writes it anew.") from None


Proofs = dict[tuple[str, ...], list[Verdict]]  # by what they are about, whatever the devices


def proofs(store: Path) -> Proofs:
    found: Proofs = {}
    for verdict in load(store):
        what = (verdict.workload, verdict.framework, verdict.precision)
        found.setdefault((*what, verdict.fingerprint, verdict.worker_code, verdict.machine), []).append(verdict)
    return found


def proven(found: Proofs, cell: Cell, run: Facts) -> bool:
    """Whether a run's training was equal on one device, and not unequal where devices agree as they do in it."""
    what = (cell.workload, cell.framework, cell.precision)
    verdicts = found.get((*what, run["fingerprint"], run["worker_code"], run["machine"]), [])
    alone = [verdict for verdict in verdicts if not _several(verdict.devices)]
    agreeing = [verdict for verdict in verdicts if _several(verdict.devices) and verdict.update == cell.update]
    needed = [*alone, *agreeing] if cell.wrapped or _several(cell.devices) else alone
    return bool(alone) and all(verdict.equal for verdict in needed)


def _several(devices: str) -> bool:
    return parse_devices(devices).count > 1
