"""A new op in the graph without a layer in some builder fails here, without any framework installed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from paceline.catalog.frameworks import FOLDER
from paceline_worker.graph import OPS

BUILDERS = sorted(path for path in FOLDER.glob("*/builder.py") if path.parent.name != "fake")
SHARED = {"paceline_worker.keras3": FOLDER.parent / "keras3" / "builder.py"}


def mapped_ops(path: Path) -> set[str]:
    """Names of the ops that are keys of a table in this file, or in the shared one that it takes its table from."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    keys = [key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys if key]
    names = {key.id for key in keys if isinstance(key, ast.Name)}
    names |= {key.attr for key in keys if isinstance(key, ast.Attribute)}
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return names.union(*(mapped_ops(SHARED[name]) for name in SHARED if name in modules))


@pytest.mark.parametrize("path", BUILDERS, ids=lambda path: path.parent.name)
def test_builder_has_a_layer_for_every_op(path: Path) -> None:
    assert set(OPS) - mapped_ops(path) == set()
