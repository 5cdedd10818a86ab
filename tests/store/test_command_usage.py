"""What a command has used, from what was seen while it ran."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.plan.external.command import ExternalCommand
from paceline.store.records.runs import RUN_FOLDER
from paceline.store.records.samples import FILE as MONITOR_FILE
from paceline.store.store import Store
from tests.bundles.made import timed


@pytest.mark.parametrize(
    ("moments", "known"), [((1.0, 2.0), True), ((1.0,), False), ((1.0, 1.0), False), ((2.0, 1.0), False)]
)
def test_noise_needs_time_between_two_samples(tmp_path: Path, moments: tuple[float, ...], known: bool) -> None:
    """A clock may have been set back meanwhile."""
    store = Store(tmp_path / "store")
    timed(store, ExternalCommand(arguments=("train.py",), folder="/"))
    (path,) = (store.folder / RUN_FOLDER).glob(f"*/{MONITOR_FILE}")
    sample = json.loads(path.read_text().splitlines()[0])
    path.write_text("".join(json.dumps({**sample, "time": moment}) + "\n" for moment in moments))
    store.rebuild()
    assert len(store.query("SELECT * FROM value WHERE name = 'stolen'")) == known
