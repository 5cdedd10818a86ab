"""What runs ran with is read from folders in which anybody may have written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.analysis.comparison.selections import choose
from paceline.analysis.quantities.known import SPEED
from paceline.store.records.runs import RUN_FOLDER
from paceline_worker.protocol import JOB_FILE
from tests.bundles.made import FIRST, filled


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("block_steps", None),
        ("block_steps", [1]),
        ("epoch_images", "many"),
        ("epoch_images", 1.5),
        ("recipe", {"learning_rate": 0.1, "decayed": ["\ud800"]}),  # which no file of UTF-8 can hold
    ],
)
def test_job_of_wrong_types_is_as_if_it_were_gone(tmp_path: Path, name: str, value: object) -> None:
    """Else the index has facts that nothing can read back."""
    store = filled(tmp_path / "store")
    path = store.folder / RUN_FOLDER / FIRST / JOB_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    store.rebuild()
    setups = choose("suite:made", store.folder, SPEED).setups.values()
    assert sum(setup.job is None for setup in setups) == 1
