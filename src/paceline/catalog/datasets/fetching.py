"""Brings a data set onto this machine: fetch, check, prepare next to its place, move it there in one step."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from paceline.catalog.datasets.archives import read
from paceline.catalog.datasets.known import known
from paceline.catalog.datasets.prepared import PreparedDataset, check, data_folder, folder_of, intact, write
from paceline.catalog.datasets.spec import ArchiveSource, Array, DatasetSpec, Say
from paceline.system.errors import UserError
from paceline.system.locks import exclusive

Fetched = tuple[dict[str, Array], str]  # the arrays, and where they are from


def ensure(name: str, say: Say) -> PreparedDataset:
    """The data set, fetched if it is not there or has changed: what is measured will claim its checksum."""
    return intact(name) or get(name, say)


def get(name: str, say: Say, given: Path | None = None) -> PreparedDataset:
    """Fetch a data set, or take it from a file or folder of the user's; what is there and right is never touched."""
    spec = known(name)
    with _alone(spec, say), _scratch(spec) as scratch:
        present = intact(name)
        if present and not given:
            say(f"{name} is there already, and its checksum is right.")
            return present
        if not present and folder_of(spec).exists():
            say(f"{name} in {folder_of(spec)} is damaged and will be replaced.")
        arrays, source = _from_path(spec, given) if given else _from_sources(spec, scratch, say)
        if present:
            say(f"{name} is there already, and {given} holds the same.")
            return present
        return _put_in_place(spec, arrays, source, scratch)


def _from_path(spec: DatasetSpec, given: Path) -> Fetched:
    try:
        return _checked(spec, given), str(given.absolute())
    except UserError as error:
        forms = ", ".join(form.title for form in spec.forms)
        raise UserError(
            f"Cannot take {spec.name} from {given}: {error}. Give {forms}, or a folder of either."
        ) from None


def _from_sources(spec: DatasetSpec, scratch: Path, say: Say) -> Fetched:
    """What the first source gives that gives the right data; when none does, what was wrong with each."""
    failures = []
    for source in spec.sources:
        say(f"Fetching {spec.name} from {source.title}")
        try:
            return _from_source(spec, source, scratch), source.title
        except UserError as error:
            failures.append(f"{source.title}: {error}")
    raise UserError(
        f"Cannot get {spec.name}: {'; '.join(failures)}. Check the network and proxy settings, or bring an archive: "
        f"`paceline data get {spec.name} --from PATH`."
    )


def _from_source(spec: DatasetSpec, source: ArchiveSource, scratch: Path) -> dict[str, Array]:
    with tempfile.TemporaryDirectory(dir=scratch) as downloads:
        return _checked(spec, source.fetch(Path(downloads)))


def _checked(spec: DatasetSpec, path: Path) -> dict[str, Array]:
    arrays = read(spec, path)
    check(spec, arrays)
    return arrays


def _put_in_place(spec: DatasetSpec, arrays: dict[str, Array], source: str, scratch: Path) -> PreparedDataset:
    """A folder cannot replace another in one step; only one that is damaged is ever moved away."""
    made, folder = scratch / "new", folder_of(spec)
    made.mkdir()
    dataset = write(spec, arrays, source, made)
    with contextlib.suppress(FileNotFoundError):
        folder.rename(scratch / "old")
    made.rename(folder)
    return msgspec.structs.replace(dataset, folder=folder)


@contextlib.contextmanager
def _scratch(spec: DatasetSpec) -> Iterator[Path]:
    """A folder next to the data set's place, gone afterwards; one that a killed process left goes first."""
    folder = data_folder() / f"{spec.name}.scratch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _alone(spec: DatasetSpec, say: Say) -> AbstractContextManager[None]:
    """Two that get one data set must not meet: the second waits."""
    waiting = f"Another process is getting {spec.name}; waiting for it."
    return exclusive(data_folder() / f"{spec.name}.lock", lambda: say(waiting))
