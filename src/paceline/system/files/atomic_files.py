"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paceline.system.errors import UserError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place to write to; what stands there in the end becomes `path`, and after an error nothing is left."""
    scratch = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.new")  # two may write the same file
    try:
        yield scratch
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    with replacing(path) as scratch:
        scratch.write_bytes(content)


def write_json(path: Path, value: msgspec.Struct) -> None:
    write_bytes(path, msgspec.json.format(msgspec.json.encode(value)))


def check_place(path: Path, example: str) -> None:
    """That a user's file can be written, before anything is computed for it."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it, such as {path / example}.")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file that could be replaced; name another one, such as {example}.")
    if not path.parent.is_dir():
        raise UserError(f"There is no folder {path.parent}; make it first, or name another file.")
