"""A copy of the worker half with one framework, for its interpreter: it must see nothing else of ours."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import paceline_worker
from paceline.catalog.frameworks import FOLDER, folders
from paceline.environments.source_normalization import without_comments
from paceline.system.paths import home

SOURCE = Path(paceline_worker.__file__).parent


@cache
def deploy(framework: str) -> Path:
    """The folder to put on PYTHONPATH; its name is the hash of all bytes in it: what runs is what the sources say."""
    target = home() / "worker" / hash_of(contents(framework))
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            whole = Path(scratch) / "whole"
            for place, content in contents(framework).items():
                (whole / place).parent.mkdir(parents=True, exist_ok=True)
                (whole / place).write_bytes(content)
            try:
                whole.rename(target)
            except OSError:  # another process was faster; it copied the same
                if not target.exists():
                    raise
    return target


@cache
def code_hash(framework: str) -> str:
    """Names the code that measures: the worker half and this framework's folder, and no other one's.

    Comments and docstrings are not part of it: to explain code better must not orphan what it has measured. Nor is any
    file but Python: what a worker is started with is in a run's key by itself.
    """
    python = {place: content for place, content in contents(framework).items() if place.endswith(".py")}
    return hash_of({place: without_comments(content) for place, content in python.items()})


def hash_of(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for place, content in sorted(files.items()):
        digest.update(place.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:12]


@cache
def contents(framework: str) -> dict[str, bytes]:
    """Read once: a file that is edited before its copy is made must not come under the name of the old one."""
    return {place: path.read_bytes() for place, path in _files(framework).items()}


def _files(framework: str) -> dict[str, Path]:
    """Each file and its place in the copy. A plug-in's folder goes to where the built-in ones are."""
    neutral = {str(path.relative_to(SOURCE.parent)): path for path in _sources(SOURCE) if FOLDER not in path.parents}
    start = FOLDER / "__init__.py"
    own = folders()[framework]
    package = FOLDER.relative_to(SOURCE.parent) / framework.replace("-", "_")
    return {
        **neutral,
        str(start.relative_to(SOURCE.parent)): start,
        **{str(package / path.relative_to(own)): path for path in _sources(own)},
    }


def _sources(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in (".py", ".toml", ".txt")]
