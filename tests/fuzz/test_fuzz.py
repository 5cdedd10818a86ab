"""What strangers may give: no traceback, no endless wait, not more than 500 MB, and nothing half written.

`python -m tests.fuzz` gives more of it, and one input again: `--kinds stores --only 13`.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import nasty
from tests.fuzz.__main__ import EVERY
from tests.fuzz.children import Input, run

INPUTS = {"requests": 300}  # of a kind


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY)
def test_what_no_one_should_give_is_refused_or_taken(kind: str) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz",
        "--kinds",
        kind,
        "--inputs",
        str(INPUTS.get(kind, 50)),
        "--seed",
        "ci",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    assert ", 0 faults, " in ended.stdout


def test_same_seed_makes_the_same_harm() -> None:
    def harms(seed: int) -> list[object]:
        draw = random.Random(seed)  # noqa: S311 - a test, no secret
        text = [nasty.changed_text("a = 1\nb = 'x'\n", draw) for _ in range(20)]
        return [*text, nasty.changed_bytes(b"abc", draw), nasty.changed_json(b'{"a": [1, {"b": 2}]}', draw)]

    assert harms(1) == harms(1)
    assert harms(1) != harms(2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "fault"),
    [
        ("raise ValueError('no')", "a traceback: ValueError: no"),
        ("import sys; sys.exit(7)", "ended with 7"),
        ("import sys; sys.exit('two\\nlines')", "no short line"),
        ("import sys; sys.stderr.write('paceline: no\\x1b\\n'); sys.exit(1)", "complained with '\\x1b'"),
        ("print('\\u202e')", "printed '\\u202e'"),
        ("open('kept/x', 'w').write('other')", "changed kept"),
        ("open('left', 'w')", "left left"),
        ("x = bytearray(600 << 20)", "MiB"),  # with what the tests themselves have in memory
        ("while True: pass", "s of a processor"),
        ("print('fine')", ""),
    ],
)
def test_fault_is_seen(program: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of each kind, in a program of its own."""
    folder = tmp_path / "folder"
    (folder / "kept").mkdir(parents=True)
    (folder / "kept" / "x").write_text("as it was")
    monkeypatch.setattr("tests.fuzz.children.MOST_SECONDS", 1)
    monkeypatch.setattr("tests.fuzz.children._main", lambda words: exec(words[0], {}))  # noqa: S102 - our own
    found = run(Input("test", (program,), folder, (folder / "kept",)))
    assert bool(found) == bool(fault)
    assert any(fault in each for each in found) or not fault
