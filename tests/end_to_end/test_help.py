"""Asking for help loads nothing but the command line itself, so it answers at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    *("msgspec", "difflib"),  # needed where something goes wrong or is written, not for help
    *("numpy", "PIL", "psutil", "pynvml", "jinja2", "starlette", "uvicorn", "anyio", "vl_convert", "sqlite3"),
    *("platformdirs", "paceline_worker", "rich.progress", "rich.live", "paceline.cli.actions", "paceline.store.store"),
}  # of rich, cyclopts itself loads what it writes help with
SETTINGS = "paceline.plan.settings"
PROGRAM = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from paceline.cli import main
sys.argv[0] = "paceline"
main()
"""


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["--version"]], ids=" ".join)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True)
    loaded = set(json.loads(ended.stderr))
    assert ended.stdout
    assert "paceline.cli.reading" in loaded
    assert loaded & HEAVY == set()
    ours = {name for name in loaded if name.startswith("paceline.")}
    # What a command does is loaded when it does it; of the rooms between, help needs the declared settings alone.
    assert {name for name in ours if name.split(".")[1] not in ("cli", "system")} == {"paceline.plan", SETTINGS}
