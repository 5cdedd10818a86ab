"""The copy of the worker half that a framework's interpreter sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.environments.worker_code import code_hash, contents, deploy


def test_code_that_is_edited_once_it_has_a_name_is_not_copied_under_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan names the code of all its runs; a framework's first run may come hours later."""
    folder = tmp_path / "edited"
    folder.mkdir()
    (folder / "backend.py").write_text("made = 'planned'\n")
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("paceline.environments.worker_code.folders", lambda: {"edited": folder})
    code_hash("edited")
    (folder / "backend.py").write_text("made = 'edited'\n")
    copy = deploy("edited")
    assert (copy / "paceline_worker" / "frameworks" / "edited" / "backend.py").read_text() == "made = 'planned'\n"


def test_only_what_a_worker_runs_is_measuring_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, told = "made = 1\n", 'title = "Made"\n'
    hashes = []
    for name, content in (("plain", code), ("explained", f"# why\n{code}"), ("other", "made = 2\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "backend.py").write_text(content)
        (tmp_path / name / "framework.toml").write_text(f'{told}name = "{name}"\n')
        monkeypatch.setattr("paceline.environments.worker_code.folders", lambda name=name: {"made": tmp_path / name})
        code_hash.cache_clear()
        contents.cache_clear()
        hashes.append(code_hash("made"))
    code_hash.cache_clear()
    contents.cache_clear()
    assert hashes[0] == hashes[1] != hashes[2]
