"""README's picture of speeds has the cells of the command under it, and only reasons that frameworks still give."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from paceline.cli import app
from paceline.plan.planning import make_plan
from paceline.plan.requested_suites import read_suite
from tests.docs.documented import ROOT, inline_commands
from tests.factories.brought import bring
from tests.factories.machines import machine

README = (ROOT / "README.md").read_text(encoding="utf-8")
IN_WORDS = {9: "nine", 10: "ten", 11: "eleven", 12: "twelve"}


def drawn() -> dict[str, str]:
    """What stands beside the name of each cell: its number, or why it has none."""
    picture = ElementTree.fromstring((ROOT / "docs" / "speed.svg").read_text(encoding="utf-8"))  # noqa: S314 - our own
    texts = list(picture.iter("{http://www.w3.org/2000/svg}text"))
    names = {text.get("y"): text.text or "" for text in texts if text.get("x") == "-9"}
    return {names[text.get("y")]: text.text or "" for text in texts if text.get("dx")}


def test_picture_has_every_cell_and_no_reason_of_yesterday(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With all frameworks there, neon among them."""
    monkeypatch.setenv("PACELINE_ENVIRONMENTS", str(tmp_path))
    bring("neon", tmp_path)
    (words,) = [words for words in inline_commands(README) if words[0] == "run" and "all" in words]
    _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    plan = make_plan(read_suite(bound.arguments["what"], bound.arguments["choices"].settings()), machine(cores=2))
    found = drawn()
    assert found.keys() == {f"{cell.framework} {cell.devices}" for cell in plan.cells}
    assert {name: text for name, text in found.items() if not text[0].isdigit()} == {
        f"{skip.cell.framework} {skip.cell.devices}": f"× skipped: {skip.reason}" for skip in plan.skips
    }
    assert f"of {IN_WORDS[len({cell.framework for cell in plan.cells})]} frameworks" in README
