"""What changes the hash of measuring code: whatever may change what it does, and neither comments nor docstrings."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.environments import source_normalization
from paceline.environments.source_normalization import requirement_lines, without_comments

PLAIN = "def one(first):\n    return first + 1\n"
# All that versions of Python are known to cut into tokens differently, or might.
ODD = '''# a comment
def one(first, /, *, second: int = 3):
    """What it is for."""
    'another' "string that does nothing"
    é = "ü"; word = "ä" f"é{first!r:>{10}} {{}}" rf"""lines
   {first["k"] + f'{é}'} é
end""" + f"{first:%Y}"
    return word, \\
        é  # the end
class Two: "on one line"
async def three():
    f"not a docstring"
    b"nor this"
    return [0x_ff, 1_000.0e-3j,
            ...]
@(lambda made: made)
def four() -> None: ...
if (number := 3): print(number)
\x0clast = 2'''
HASH_OF_ODD = "0e75983dd23823f8"


def other_pythons() -> list[str]:
    """One of each version that the orchestrator runs on, as far as they are on this machine."""
    found = {}
    for minor in (11, 12, 13, 14):
        name = f"python3.{minor}"
        installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*/bin/{name}"))
        folders = [*(str(one.parent) for one in installed), "/usr/local/bin", "/usr/bin"]
        found[minor] = shutil.which(name, path=os.pathsep.join(folders))
    return [path for minor, path in found.items() if path and minor != sys.version_info.minor]


OTHER_PYTHONS = other_pythons()


@pytest.mark.parametrize(
    "same",
    [
        "def one(first):  # adds\n    # one\n    return first + 1\n",
        '"""Of the module."""\n\ndef one(first):\n    """Add one.\n\n    To it.\n    """\n\n    return first + 1\n',
        "def one( first ) :\n  return (first + 1)\n".replace("(first + 1)", "first \\\n   + 1"),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.rstrip("\n"),
    ],
)
def test_comments_docstrings_and_spaces_do_not_count(same: str) -> None:
    assert without_comments(same.encode()) == without_comments(PLAIN.encode())


@pytest.mark.parametrize(
    "other",
    [
        PLAIN.replace("1", "2"),
        PLAIN.replace("first", "second"),
        PLAIN.replace("return ", ""),
        "def one(first):\n    first\n    return + 1\n",
        "def one(first):\n    if first:\n        pass\n    return first + 1\n",
        PLAIN + "told = '# no comment'\n",
        PLAIN + "told = 'no comment'\n",
        PLAIN + "f'{one(1)}'\n",
        PLAIN + "one.__doc__ = 'given'\n",
    ],
)
def test_everything_else_counts(other: str) -> None:
    assert without_comments(other.encode()) != without_comments(PLAIN.encode())


def test_how_deep_a_statement_stands_counts() -> None:
    inside = "if a:\n    b()\n    c()\n"
    assert without_comments(inside.encode()) != without_comments(b"if a:\n    b()\nc()\n")
    assert without_comments(inside.encode()) == without_comments(b"if a:\n  b()\n  c()\n")


def test_requirements_are_what_pip_reads_of_them() -> None:
    pins = "numpy==2.4.6\nmade @ https://example.org/made.zip#sha256=00\n"
    assert requirement_lines(pins) == requirement_lines("# pins\n\nnumpy==2.4.6  # the array\n" + pins.splitlines()[1])
    assert requirement_lines(pins) != requirement_lines(pins.replace("=00", "=01"))


def test_source_is_normalized_alike_in_every_version_of_python() -> None:
    """A constant, so that it is compared between whatever versions these tests run on."""
    assert hashlib.sha256(without_comments(ODD.encode())).hexdigest()[:16] == HASH_OF_ODD


@pytest.mark.parametrize("python", OTHER_PYTHONS)
def test_all_of_our_code_means_the_same_to_other_pythons(python: str, tmp_path: Path) -> None:
    """The module needs the standard library alone, so any interpreter can load it by its path."""
    program = tmp_path / "program.py"
    program.write_text(
        "import hashlib, importlib.util, pathlib, sys\n"
        "spec = importlib.util.spec_from_file_location('source_normalization', sys.argv[1])\n"
        "found = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(found)\n"
        "digest = hashlib.sha256(found.without_comments(pathlib.Path(sys.argv[2]).read_bytes()))\n"
        "for path in sorted(pathlib.Path(sys.argv[3]).rglob('*.py')):\n"
        "    digest.update(found.without_comments(path.read_bytes()))\n"
        "print(digest.hexdigest())\n"
    )
    (tmp_path / "odd.py").write_text(ODD, encoding="utf-8")
    module = source_normalization.__file__
    words = [str(program), module, str(tmp_path / "odd.py"), str(Path(module).parents[1])]
    ours, theirs = (printed([one, *words]) for one in (sys.executable, python))
    assert ours == theirs


def printed(command: list[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
