"""Verdicts that are kept: a cell is marked verified when its network was, on this machine with these versions."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from paceline.errors import UserError
from paceline.verify import Verdict
from paceline.whole_files import write_json

FOLDER = "verified"


def save(store: Path, verdict: Verdict) -> None:
    """The newest verdict of a framework on a workload and a device set replaces the one before."""
    name = re.sub(r"[^\w.+-]", "_", f"{verdict.workload}@{verdict.framework}@{verdict.devices}")
    path = store / FOLDER / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, verdict)


def load(store: Path) -> list[Verdict]:
    paths = sorted((store / FOLDER).glob("*.json"))
    try:
        return [msgspec.json.decode(path.read_bytes(), type=Verdict) for path in paths]
    except msgspec.DecodeError as error:
        raise UserError(f"A file in {store / FOLDER} is damaged: {error}; `paceline verify` writes it anew.") from None
