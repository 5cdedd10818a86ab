"""The worker half runs on the oldest Python of any framework, with the standard library, NumPy and itself."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import paceline_worker

OLDEST = (3, 8)
ROOT = Path(paceline_worker.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
NEUTRAL = [
    path for path in FILES if path.parent.parent.name != "frameworks" and path.parent.name not in ("keras3", "mxnet1")
]  # in their folders, frameworks are at home


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> frozenset[str]:
    """Every top-level package that a file imports, wherever it does."""
    nodes = list(ast.walk(tree(path)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    return frozenset(name.split(".")[0] for name in plain | froms)


def evaluates_annotations(path: Path) -> bool:
    code = [
        node for node in tree(path).body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    futures = [node for node in code if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return bool(code) and [alias.name for node in futures for alias in node.names] != ["annotations"]


def newer_syntax(path: Path) -> str:
    """What the oldest Python would say of the file; nothing if it can read it."""
    try:
        ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=OLDEST)
    except SyntaxError as error:
        return str(error)
    return ""


def test_both_kinds_of_files_are_found() -> None:
    names = {name_of(path) for path in FILES}
    assert {"loop.py", "frameworks/torch/backend.py", "frameworks/jax/backend.py"} <= names
    assert "loop.py" in map(name_of, NEUTRAL)
    assert "frameworks/torch/backend.py" not in map(name_of, NEUTRAL)


def test_files_are_in_the_syntax_of_the_oldest_python() -> None:
    assert {name_of(path): said for path in FILES if (said := newer_syntax(path))} == {}


def test_annotations_are_not_evaluated() -> None:
    """Otherwise `tuple[float, float]` or `X | None` in a signature would fail where these are not yet known."""
    assert [name_of(path) for path in FILES if evaluates_annotations(path)] == []


def test_neutral_files_import_the_standard_library_numpy_and_their_own() -> None:
    allowed = {"numpy", "paceline_worker", *sys.stdlib_module_names}
    assert {name_of(path): foreign for path in NEUTRAL if (foreign := imported(path) - allowed)} == {}


def test_no_file_imports_the_orchestrator() -> None:
    assert [name_of(path) for path in FILES if "paceline" in imported(path)] == []


def test_no_module_is_newer_than_the_oldest_python() -> None:
    newer = {"tomllib", "zoneinfo", "graphlib"}
    assert {name_of(path): found for path in FILES if (found := imported(path) & newer)} == {}
