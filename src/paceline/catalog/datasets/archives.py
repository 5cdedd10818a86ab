"""Reads published files from a folder or an archive: only the expected names with the expected sizes, into memory."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from paceline.catalog.datasets.spec import Array, DatasetSpec
from paceline.system.errors import UserError
from paceline.system.files.user_files import open_file

SPARE_BYTES = 16 * 2**20  # for headers and for files that are not wanted, such as a read-me
# What the standard library raises for archives that are damaged, or made to do harm.
DAMAGE = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, RecursionError)


def read(spec: DatasetSpec, path: Path) -> dict[str, Array]:
    """The arrays that a folder or an archive holds, in whichever of the forms they are; not yet checked."""
    try:
        files = _from_folder(spec, path) if path.is_dir() else _from_archive(spec, path)
    except UserError:  # of which some are errors of the system, too
        raise
    except OSError as error:
        raise UserError(f"cannot read {error.filename or path}: {error.strerror or error}") from None
    form = max(spec.forms, key=lambda form: len(files.keys() & form.sizes.keys()))
    missing = [name for name in form.sizes if name not in files]
    if len(missing) == len(form.sizes):
        raise UserError(f"it holds none of the files of {' or '.join(form.title for form in spec.forms)}")
    if missing:
        raise UserError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return form.arrays(files)


def _from_folder(spec: DatasetSpec, folder: Path) -> dict[str, bytes]:
    """Files in the folder itself, or below it as an archive has them."""
    places = {
        name: (place / name, size)
        for form in spec.forms
        for place in (folder / form.folder, folder)
        for name, size in form.sizes.items()
        if (place / name).is_file()
    }
    for path, size in places.values():
        _expect(path.name, path.stat().st_size, size)
    return {name: path.read_bytes() for name, (path, _) in places.items()}


def _from_archive(spec: DatasetSpec, path: Path) -> dict[str, bytes]:
    wanted = {f"{form.folder}/{name}": size for form in spec.forms for name, size in form.sizes.items()}
    limit = max(sum(form.sizes.values()) for form in spec.forms) + SPARE_BYTES
    return {name.rpartition("/")[2]: content for name, content in members(path, wanted, limit)}


def members(path: Path, wanted: Mapping[str, int], limit_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Wanted members of a .tar.gz, each once and a regular file of its size; others are passed over, none written."""
    seen = set()
    try:
        with (
            open_file(path) as file,
            gzip.open(file) as stream,
            tarfile.open(fileobj=_Limited(stream, limit_bytes), mode="r|") as archive,
        ):
            for member in archive:
                if member.name not in wanted:
                    continue
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                    raise UserError(f"{member.name} in the archive is no regular file")
                if member.name in seen:
                    raise UserError(f"{member.name} is in the archive twice")
                _expect(member.name, member.size, wanted[member.name])
                seen.add(member.name)
                with archive.extractfile(member) or io.BytesIO() as content:
                    yield member.name, content.read()  # an end that comes too soon is an error of tarfile
    except DAMAGE as error:
        raise UserError(f"it is damaged or no .tar.gz: {error}") from None


def _expect(name: str, size_bytes: int, expected_bytes: int) -> None:
    if size_bytes != expected_bytes:
        raise UserError(f"{name} has {size_bytes:,} bytes instead of {expected_bytes:,}")


class _Limited(io.RawIOBase):
    """A stream that refuses to give more than so many bytes: a small archive cannot fill memory or run for ever."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile, limit_bytes: int) -> None:
        self._stream = stream
        self._left = self._limit = limit_bytes

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(content)
        if self._left < 0:
            raise UserError(f"it unpacks to more than {self._limit:,} bytes")
        return content
