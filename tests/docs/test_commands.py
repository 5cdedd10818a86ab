"""Every command of README and docs is run for real, in a folder of its own with a small store.

What would take long is made small, and nothing else is changed: `rewritten` has the rules. As it is written, with its
own frameworks and sizes, every command is parsed and planned in test_docs.py.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from paceline.catalog import datasets
from paceline.cli import app, main
from tests.docs.documented import COMMANDS, ROOT, all_commands, flags_of

EXCEPTIONS = {  # what is not run, and why
    "make demo": "sets up two frameworks and measures for minutes",
    "make test": "is what runs this test",
    ". .venv/bin/activate": "changes the shell and nothing else",
    "paceline run imagenet-resnet50 --gpus 0,1 --batch-per-device 64": "needs two GPUs",
    ".venv/bin/pytest tests/frameworks/test_frameworks_agree.py -k myframework": "tests one that does not exist",
    "pip install ./examples/paceline-chainer": "would change this environment; test_plugins.py loads it from a folder",
    "paceline verify cifar10-tiny cifar10-conv --framework chainer": "needs the plug-in; test_plugins.py runs it",
    "paceline run cifar10-tiny --framework chainer,torch": "needs the plug-in; test_plugins.py runs it",
    "curl 'http://127.0.0.1:8640/runs/RUN/log?tail=2000'": "needs a server; test_server.py asks one for this",
    "curl 'http://127.0.0.1:8640/plans/PLAN/table.md'": "likewise",
    "curl 'http://127.0.0.1:8640/plans/PLAN/table.csv?layout=rows'": "likewise",
    "curl 'http://127.0.0.1:8640/runs/table.csv?status=failed'": "likewise",
    "curl -N http://127.0.0.1:8640/plans/PLAN/events": "needs a server, and has no end; test_server.py follows one",
}
SMALL = {  # what flags of commands that measure get in place of their value
    "--framework": "fake",  # sleeps instead of training, and knows every update, device set and data source
    "--steps": "4",
    "--epochs": "0.05",
    "--warmup": "1",
    "--repeats": "1",
    "--rounds": "2",
    "--budget": "1",
}
MEASURING = {  # commands that measure, and the flags that they get if they have none
    "run": ("--framework", "--steps", "--warmup", "--repeats"),
    "explain": ("--framework", "--steps", "--warmup", "--rounds"),
    "time": ("--repeats",),
}
FAKE_VERSION = version("numpy")  # which the fake framework's interpreter is registered with: this one
WORDS = {  # words of the docs that stand for the reader's own: what there is here
    r"myframework|neon": "fake",
    r"/path/to/python": sys.executable,
    r"date:\S+": f"date:{datetime.now(UTC):%Y-%m}",
    r"version:\S+": f"version:fake={FAKE_VERSION}",
    r"NAME": "after",
}
EXIT_CODES = {"paceline audit published": 2}  # it does find errors; all others end with 0
PYTHON = "print('Speed: 120.5 samples/sec')\n"
PROGRAMS = {"train.py": PYTHON, "train_cifar10.py": PYTHON, "train.sh": "#!/bin/sh\necho 120.5 img/s\n"}
SUITE = """
workload = "cifar10-conv"
framework = "fake"
data = "cifar10"
batch-size = 32
cores-per-device = 1
epochs = 0.02
warmup = 1
repeats = 2
[[part]]
devices = ["1xcpu", "2xcpu"]
[[part]]
batch-size = 64
[[part]]
data = "fake:python"
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, cifar10: datasets.PreparedDataset) -> Path:
    """A folder as a reader might have it: programs, suites, a store with results of each, and a bundle."""
    folder = tmp_path_factory.mktemp("prepared")
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "README.md", folder)
    paceline(folder, "time", "--repeats", "1", "--", sys.executable, "train.py")
    for name in ("before", "after"):
        (folder / f"{name}.toml").write_text(SUITE)
        paceline(folder, "run", f"{name}.toml")
    paceline(folder, "export")
    for name in ("base-results", "new-results"):
        (folder / name).symlink_to("results")
    return folder


@pytest.fixture(scope="module")
def shared(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where commands measure: what one has done, the next need not do again."""
    return shutil.copytree(prepared, tmp_path_factory.mktemp("shared") / "here", symlinks=True)


def paceline(folder: Path, command: str, *words: str) -> None:
    line = [sys.executable, "-m", "paceline", command, "--store", "results", *words]
    made = subprocess.run(line, cwd=folder, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr + made.stdout


def rewritten(words: Sequence[str], folder: Path) -> list[str]:
    """The same command on what is here, and small; what stands behind `--` belongs to another program."""
    commands = all_commands(app)
    command = next(name for name in commands if list(words[: len(name.split())]) == name.split())
    end = words.index("--") if "--" in words else len(words)
    own = _filled_in(words[:end], folder)
    if command == "verify":  # the reference against itself, on the smallest network: larger ones take it minutes
        flags = own[next((place for place, word in enumerate(own) if word.startswith("--")), len(own)) :]
        own = ["verify", "mnist-mlp", *_with(flags, {"--framework": "reference"}, ("--framework",))]
    elif command in MEASURING:
        own = _with(own, SMALL, MEASURING[command])
    elif command != "plan":
        own = _with(own, {"--framework": "fake"})
    known = flags_of(commands[command])
    own += ["--store", "results"] if "--store" in known and "--store" not in own else []
    own += ["--port", "0"] if "--port" in known else []
    return [*own, *words[end:]]


def _filled_in(words: Sequence[str], folder: Path) -> list[str]:
    """With ids of the store: each RUN is another one."""
    runs = sorted((path.parent.name for path in folder.glob("results/runs/*/outcome.json")), reverse=True)
    ids = {"RUN": iter(runs), "ID": iter(path.stem for path in folder.glob("results/plans/*.json"))}
    known = [next(ids[word]) if word in ids else word for word in words]
    return [next((here for word, here in WORDS.items() if re.fullmatch(word, each)), each) for each in known]


def _with(words: Sequence[str], values: dict[str, str], wanted: Sequence[str] = ()) -> list[str]:
    """Flags with these values in place of their own, and those added that are wanted; --epochs replaces --steps."""
    changed = [values.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    missing = [flag for flag in wanted if flag not in words and not (flag == "--steps" and "--epochs" in words)]
    return changed + [part for flag in missing for part in (flag, values[flag])]


def test_every_exception_is_still_there() -> None:
    assert EXCEPTIONS.keys() | EXIT_CODES.keys() <= set(COMMANDS)


@pytest.fixture
def folder(line: str, prepared: Path, shared: Path, tmp_path: Path) -> Path:
    """Only who measures sees what others have left: a table of the last run must not depend on the order of tests."""
    return shared if line.split()[1] in MEASURING else shutil.copytree(prepared, tmp_path / "here", symlinks=True)


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if line not in EXCEPTIONS])
def test_command_works(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    program, *words = shlex.split(line)
    if program == "paceline":
        code = ended(rewritten(words, folder), monkeypatch)
    else:
        code = subprocess.run(["sh", "-c", line], check=False).returncode
    assert code == EXIT_CODES.get(line, 0), capfd.readouterr().err


def ended(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """With which exit code; in this process where that is possible, which saves the start of another."""
    if words[0] == "serve":
        return served(words)
    if "--python" in words:  # registers an interpreter, which must not be done in the home of this machine
        monkeypatch.setenv("PACELINE_HOME", str(Path("home").absolute()))
        return subprocess.run([sys.executable, "-m", "paceline", *words], check=False).returncode
    monkeypatch.setattr(sys, "argv", ["paceline", *words])
    with pytest.raises(SystemExit) as end, pytest.warns(UserWarning, match="without tokens"):  # cyclopts sees pytest
        main()
    return int(end.value.code or 0)


def served(words: list[str]) -> int:
    """A server has no end: it says where it is, and then is told to stop."""
    server = subprocess.Popen([sys.executable, "-m", "paceline", *words], stdout=subprocess.PIPE, text=True)
    assert server.stdout
    with server, server.stdout:
        try:
            assert "http://" in server.stdout.readline()
            server.send_signal(signal.SIGINT)
            return server.wait(timeout=30)
        finally:
            server.kill()  # else one that does not stop would hold up all tests
