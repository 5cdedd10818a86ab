"""The copy of the worker half that a framework's interpreter sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.worker_code import code_hash, deploy


def test_code_that_is_edited_once_it_has_a_name_is_not_copied_under_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan names the code of all its runs; a framework's first run may come hours later."""
    folder = tmp_path / "edited"
    folder.mkdir()
    (folder / "backend.py").write_text("made = 'planned'\n")
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("paceline.worker_code.folders", lambda: {"edited": folder})
    code_hash("edited")
    (folder / "backend.py").write_text("made = 'edited'\n")
    copy = deploy("edited")
    assert (copy / "paceline_worker" / "frameworks" / "edited" / "backend.py").read_text() == "made = 'planned'\n"
