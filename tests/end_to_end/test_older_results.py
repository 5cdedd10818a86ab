"""Results, bundles and certificates of an older version open, with the rows and marks that it printed itself."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.factories.command_line import CommandLine

OLDER = Path(__file__).parent / "older_results"
SHOWN = {"training_rows.json": ("--workload", "cifar10-conv"), "command_rows.json": ("--suite", "time")}


@pytest.fixture(params=["folder", "bundle"])
def older(request: pytest.FixtureRequest, tmp_path: Path) -> CommandLine:
    """The results as they were, or imported from the bundle into a new folder."""
    if request.param == "folder":
        with tarfile.open(OLDER / "results.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        return CommandLine(tmp_path / "results")
    imported = CommandLine(tmp_path / "imported")
    done = imported("import", str(OLDER / "bundle.zip"))
    assert done.returncode == 0, done.stderr
    return imported


@pytest.mark.parametrize("name", SHOWN)
def test_older_results_have_the_rows_and_marks_that_their_own_version_printed(older: CommandLine, name: str) -> None:
    before = [withdrawn(row) for row in json.loads((OLDER / name).read_text(encoding="utf-8"))]
    now = older.rows(*SHOWN[name])
    assert [older_part(row, was) for row, was in zip(now, before, strict=True)] == before
    assert [name for name in now[0] if name in before[0]] == list(before[0])


def test_older_results_are_compared(older: CommandLine) -> None:
    ended = older("compare", str(older.store), str(older.store), "--metric", "seconds", "--format", "json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["conclusion"], found["nothing_else_differs"]) == ("inconclusive", True)
    assert len([one for one in found["cells"] if one["verdict"] == "cannot tell"]) > 3


@pytest.mark.real
def test_older_run_replays(older: CommandLine) -> None:
    ended = older("replay", "20261118-214745-510524-0d7f78", "--format", "json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["new_failures"] == []
    assert found["cell"] == "cifar10-conv jax 1xcpu fake:device batch 64"
    assert found["losses_equal"] or "differ from step" in found["losses"]  # other processors round otherwise


def withdrawn(row: dict[str, Any]) -> dict[str, Any]:
    """Only this differs on purpose: certificates on equal shares no longer vouch for unequal ones."""
    return {**row, "verified": row["verified"] and len(set(row["shares"])) == 1} if "verified" in row else row


def older_part(row: dict[str, Any], was: dict[str, Any]) -> dict[str, Any]:
    """The fields that the older version knew; those that came later are left out."""
    return {name: older_part(row[name], value) if isinstance(value, dict) else row[name] for name, value in was.items()}
