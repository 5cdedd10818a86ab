"""A framework that the user brought, as far as a plan can see: the record of an interpreter with nothing behind it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from paceline.environments.virtual_environments import RECORD, Environment


def bring(framework: str, environments: Path) -> None:
    record = Environment(
        framework=framework,
        python=sys.executable,
        python_version="3.11",
        requirements="",
        packages={},
        sites=(str(environments / "nothing"),),
    )
    (environments / framework).mkdir()
    (environments / framework / RECORD).write_bytes(msgspec.json.encode(record))
