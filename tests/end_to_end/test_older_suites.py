"""Suite files of an older version are read, and plan the cells that it planned itself, in its order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.plan.planning import make_plan
from paceline.plan.suite import load_suite
from tests.factories.machines import machine

OLDER = Path(__file__).parent / "older_suites"
PLANNED: dict[str, Any] = json.loads((OLDER / "cells.json").read_text(encoding="utf-8"))


def planned_before(name: str) -> list[dict[str, Any]]:
    """What all cells of a file have in common is written once."""
    before = PLANNED[name]
    return [{**before["same"], **dict(zip(before["columns"], cell, strict=True))} for cell in before["cells"]]


@pytest.mark.parametrize("name", PLANNED)
def test_suite_of_an_older_version_plans_the_cells_that_it_did(name: str) -> None:
    stem, _, quick = name.partition(" --")
    suite = load_suite(OLDER / f"{stem}.toml", {"quick": True} if quick else {})
    settings = PLANNED[name]["suite"]
    assert {key: getattr(suite, key) for key in settings} == settings

    before = planned_before(name)
    cells = json.loads(msgspec.json.encode(make_plan(suite, machine(gpus=("Card",) * 8)).cells))
    assert [{key: cell[key] for key in before[0]} for cell in cells] == before
