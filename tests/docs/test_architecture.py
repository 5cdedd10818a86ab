"""The map of the code is that of the code: rooms, picture, cycles, and the walk along one number."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

import paceline
from tests.docs import rooms
from tests.docs.documented import ROOT

SOURCE = Path(paceline.__file__).parent
MAP = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MOST_LINES = 300  # of a source file
LONGER = {"paceline_worker/graph.py": 310}  # all of a network; what measures is not moved about, since keys hash it
MOST_MODULES = 14  # in a room, before it wants rooms of its own
SUBJECTS = {"bundles": {"secrets", "there_and_back"}}  # of tests about a room as a whole
# How the second sentence says what lives elsewhere, or nowhere.
BOUNDARY = re.compile(r"\b(no|not|never|nothing|neither|only|belongs?|business|up to)\b", re.IGNORECASE)


def test_top_of_the_source_holds_rooms_and_nothing_else() -> None:
    files = {path.name for path in SOURCE.iterdir() if path.is_file()}
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert files == {"__init__.py", "__main__.py", "py.typed"}
    assert folders == set(rooms.rooms())


def test_picture_is_that_of_the_imports() -> None:
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.picture(), "make docs draws docs/rooms.svg again"


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("paceline")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # refuses a circle and names its modules


@pytest.mark.parametrize("package", sorted(path.parent for path in SOURCE.rglob("__init__.py")), ids=lambda p: p.name)
def test_every_room_says_what_lives_there_and_what_must_not(package: Path) -> None:
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    lives, _, limits = said.partition("\n\n")
    assert lives
    assert BOUNDARY.search(limits.partition("\n\n")[0]), "its second paragraph should say what must not live there"
    assert len([path for path in package.glob("*.py") if path.name != "__init__.py"]) <= MOST_MODULES


@pytest.mark.parametrize("room", rooms.rooms())
def test_file_of_tests_is_called_after_what_it_tests(room: str) -> None:
    """After a module or a folder of its room, with more words where there are several files about it."""
    names = {path.stem for path in (SOURCE / room).rglob("*")} | SUBJECTS.get(room, set())
    tests = [path.stem.removeprefix("test_") for path in (ROOT / "tests" / room).glob("test_*.py")]
    assert [test for test in tests if not any(f"{test}_".startswith(f"{name}_") for name in names)] == []


def test_source_files_are_short() -> None:
    sizes = {path.relative_to(SOURCE.parent).as_posix(): path for path in SOURCE.parent.glob("paceline*/**/*.py")}
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in sizes.items()}
    assert {name: count for name, count in lines.items() if count > LONGER.get(name, MOST_LINES)} == {}


def test_map_names_every_room_and_each_stop_of_the_walk_exists() -> None:
    assert {f"`{room}/`" for room in rooms.rooms()} <= set(re.findall(r"`\w+/`", MAP))
    walk = MAP.partition("## Along one number")[2].partition("\n## ")[0]
    stops = re.findall(r"\[`(\w+)`\]\(\.\./(src/[\w/.]+)\)", walk)
    assert len(stops) >= 5
    for name, path in stops:
        declared = rf"^\s*((def|class|CREATE (VIEW|TABLE)) {name}\b|{name} = )"
        assert re.search(declared, (ROOT / path).read_text(), re.MULTILINE), name
