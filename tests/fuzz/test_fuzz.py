"""What strangers may give: no traceback, no endless wait, not more than 500 MB, and nothing half written.

`python -m tests.fuzz` gives more of it, and one input again: `--kinds stores --only 13`.
"""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from paceline.bundles.archive import unpack
from paceline.bundles.manifest import BundleError
from tests.fuzz import nasty, requests
from tests.fuzz.__main__ import EVERY
from tests.fuzz.children import Input, judged, run
from tests.fuzz.kinds import bundles
from tests.fuzz.material import material

INPUTS = {"requests": 300}  # of a kind
TAKEN = {"requests": "status 200", **dict.fromkeys(("bundles", "stores", "logs"), "exit code 0")}


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
    assert TAKEN.get(kind, "") in ended.stdout  # else all of it was stopped at the door


def test_forged_bundles_get_past_the_list_of_checksums(tmp_path: Path) -> None:
    """Else what checks the records is given nothing that is wrong."""
    good = material(tmp_path)
    past, tries = 0, 60
    for number in range(tries):
        made = bundles(random.Random(number), good)  # noqa: S311 - a test, no secret
        bundle = Path(made.words[1])
        if bundle.is_file():
            with contextlib.suppress(BundleError):
                unpack(bundle, Path(tempfile.mkdtemp(dir=tmp_path)))
                past += bundle.read_bytes() != good.bundle.read_bytes()
    assert past > tries / 3


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
        ("while True: pass", "took more than 1 s"),
        ("import time; time.sleep(60)", "took more than 1 s"),
        ("print('fine')", ""),
    ],
)
def test_fault_is_seen(program: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of each kind, in a program of its own."""
    folder = tmp_path / "folder"
    (folder / "kept").mkdir(parents=True)
    (folder / "kept" / "x").write_text("as it was")
    if "took" in fault:
        monkeypatch.setattr("tests.fuzz.children.MOST_SECONDS", 1)
    monkeypatch.setattr("tests.fuzz.children._main", lambda words: exec(words[0], {}))  # noqa: S102 - our own
    _, found = run(Input("test", (program,), folder, (folder / "kept",)))
    assert bool(found) == bool(fault)
    assert any(fault in each for each in found) or not fault


@pytest.mark.slow
@pytest.mark.parametrize("hangs", [1, 2])
def test_busy_moment_is_no_fault_and_a_hang_is(hangs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = iter([0.2] * hangs + [600])

    def make() -> Input:
        monkeypatch.setattr("tests.fuzz.children.MOST_SECONDS", limit := next(limits))
        return Input("test", ("import time; time.sleep(60)" if limit < 1 else "pass",), tmp_path, ())

    monkeypatch.setattr("tests.fuzz.children._main", lambda words: exec(words[0], {}))  # noqa: S102 - our own
    way, faults = judged(make)
    assert way == ("exit code 0 at a second try" if hangs == 1 else "exit code -9 at a second try")
    assert ("took more than 0.2 s" in faults) == (hangs == 2)


def test_request_without_an_answer_is_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.children.MOST_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert requests.judged(silent.getsockname()[1], b"GET / HTTP/1.1\r\n\r\n") is None
        silent.settimeout(60)
        for _ in range(2):
            silent.accept()[0].close()
    answers: list[bytes | None] = [None, b"HTTP/1.1 200 OK"]
    monkeypatch.setattr("tests.fuzz.requests._answer", lambda *_: answers.pop(0))
    assert requests.judged(0, b"") == b"HTTP/1.1 200 OK"
