"""A copy of the worker half alone, for the frameworks' interpreters: they must see nothing else of ours."""

from __future__ import annotations

import functools
import hashlib
import shutil
import tempfile
from pathlib import Path

import paceline_worker
from paceline.home import home

SOURCE = Path(paceline_worker.__file__).parent


@functools.cache
def deploy() -> Path:
    """The folder to put on PYTHONPATH; its name is the hash of the code in it."""
    target = home() / "worker" / code_hash()
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            whole = Path(scratch) / "whole"
            shutil.copytree(SOURCE, whole / SOURCE.name, ignore=shutil.ignore_patterns("__pycache__"))
            try:
                whole.rename(target)
            except OSError:  # another process was faster; it copied the same
                if not target.exists():
                    raise
    return target


@functools.cache
def code_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix in (".py", ".toml", ".txt"):
            digest.update(str(path.relative_to(SOURCE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
