"""The worker half runs on the oldest Python of any framework, with the standard library, NumPy and itself."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import paceline_worker

OLDEST = (3, 8)
ROOT = Path(paceline_worker.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
NEUTRAL = [
    path for path in FILES if path.parent.parent.name != "frameworks" and path.parent.name not in ("keras3", "mxnet1")
]  # in their folders, frameworks are at home


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported(path: Path) -> set[str]:
    """Every top-level package that a file imports, wherever it does."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in plain | froms}


def test_both_kinds_of_files_are_found() -> None:
    names = {name_of(path) for path in FILES}
    assert {"loop.py", "frameworks/torch/backend.py", "frameworks/jax/backend.py"} <= names
    assert "loop.py" in map(name_of, NEUTRAL)
    assert "frameworks/torch/backend.py" not in map(name_of, NEUTRAL)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_file_is_in_the_syntax_of_the_oldest_python(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=OLDEST)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_annotations_are_not_evaluated(path: Path) -> None:
    """Otherwise `tuple[float, float]` or `X | None` in a signature would fail where these are not yet known."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    code = [node for node in tree.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    futures = [node for node in code if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert not code or [alias.name for node in futures for alias in node.names] == ["annotations"]


@pytest.mark.parametrize("path", NEUTRAL, ids=name_of)
def test_neutral_file_imports_the_standard_library_numpy_and_its_own(path: Path) -> None:
    assert imported(path) - set(sys.stdlib_module_names) <= {"numpy", "paceline_worker"}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_file_imports_the_orchestrator(path: Path) -> None:
    assert "paceline" not in imported(path)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_module_is_newer_than_the_oldest_python(path: Path) -> None:
    assert imported(path).isdisjoint({"tomllib", "zoneinfo", "graphlib"})
