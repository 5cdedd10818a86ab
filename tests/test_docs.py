"""What README and docs say can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from paceline.cli import app
from paceline.commands import read_suite
from paceline.frameworks import FOLDER

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = [
    (page.name, line.split("#")[0].strip())
    for page in PAGES
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
    if line.startswith("paceline ") and "myframework" not in line
]


def test_there_are_commands_to_check() -> None:
    assert len(COMMANDS) > 5


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_command_is_understood(page: str, command: str) -> None:
    function, bound, _ = app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)
    words = shlex.split(command)[1:]
    assert function.__name__ in (words[0].replace("list", "list_"), words[1])
    if "choices" in bound.arguments:
        read_suite(bound.arguments["what"], bound.arguments["choices"].settings())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_named_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / link).exists(), link
    for name in re.findall(r"`((?:src|docs|tests|benchmarks|suites)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("folder", [path for path in sorted(FOLDER.iterdir()) if (path / "framework.toml").exists()])
def test_every_framework_has_the_same_four_files(folder: Path) -> None:
    files = {path.name for path in folder.iterdir() if path.is_file()}
    assert files >= {"__init__.py", "framework.toml", "requirements.txt", "builder.py", "backend.py"}


def test_suites_are_read() -> None:
    for path in (ROOT / "suites").glob("*.toml"):
        suite = read_suite([str(path)], {})
        assert suite == read_suite([path.stem], {})  # by its name, too
        assert all(part.workload for part in suite.parts or (suite,))
