"""What a bundle is: a zip of records, and a list of them with the size and checksum of each."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TypeVar

import msgspec

from paceline.system.errors import UserError
from paceline.system.format_versions import BUNDLE, VERSIONS, NewerError, Versioned, check_version

MANIFEST_FILE = "manifest.json"

# Limits keep a hostile bundle from filling memory or disk. `export` keeps to them as well.
# A file's limit goes by how its name ends: what is decoded takes many times its size in memory, a log takes none.
FILE_BYTES = {
    ".txt": 2**28,  # a log of 256 MiB is a progress bar that ran for days
    ".jsonl": 2**26,  # 64 MiB are the samples of two days on four cores, or of six hours on 64
    ".json": 2**22,  # the largest job has 30 kB, a plan about 1 kB for each cell
}
EVENTS_BYTES = 2**27  # of all ranks of a run, which are read together: 16 of them with 400,000 steps each
TOTAL_BYTES = 2**32  # 5,000 runs have about 100 MB, and logs may be long
FILES = 200_000  # 5,000 runs of 16 ranks have 110,000
MANIFEST_BYTES = 2**26  # so many entries of 150 bytes each, twice over
DIRECTORY_BYTES = 2**26  # likewise for the zip's own list, which is read as a whole before anything can be checked

ID = r"\d{8}-\d{6}(?:-[0-9a-f]{6}){1,2}"  # of a run or plan; the first ones had no random part
EVENT_FILES = r"events-(?:0|[1-9]\d{0,3})\.jsonl"
RUN_FILES = rf"(?:run|outcome|job|usage|waiter)\.json|(?:log|internal-error)\.txt|monitor\.jsonl|{EVENT_FILES}"
NAME = re.compile(
    rf"runs/(?P<run>{ID})/(?:{RUN_FILES})|plans/{ID}\.json|verified/[\w+-][\w.+-]{{0,150}}\.json", re.ASCII
)

Record = TypeVar("Record", bound=msgspec.Struct)


class BundleError(UserError):
    """Why a bundle is not taken."""


class ManifestEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything in a bundle except this list itself."""

    format: int = VERSIONS[BUNDLE]
    paceline_version: str
    files: tuple[ManifestEntry, ...]


def most_bytes(name: str) -> int:
    """How large a file of this name may be."""
    return FILE_BYTES[PurePosixPath(name).suffix]


def check_events(sizes: Mapping[str, int]) -> None:
    """That no run has more events than can be read, by the names of all files and their sizes."""
    of_runs: Counter[str] = Counter()
    for name, size in sizes.items():
        folder, _, file = name.rpartition("/")
        of_runs[folder] += size if file.startswith("events-") else 0
    for folder, size in of_runs.items():
        if size > EVENTS_BYTES:
            raise BundleError(f"{folder} has {size:,} bytes of events, more than the {EVENTS_BYTES:,} of a bundle")


def entry(name: str, content: bytes) -> ManifestEntry:
    return ManifestEntry(name=name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def digest(manifest: bytes) -> str:
    """Names the whole content, since the list has the checksum of everything."""
    return hashlib.sha256(manifest).hexdigest()[:16]


def decode(content: bytes, kind: type[Record], where: str) -> Record:
    """A record of this kind, or why it is none."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError(f"{where}: {str(error).replace('`', '')}") from None


def decode_versioned(content: bytes, as_type: type[Record], kind: str, where: str) -> Record:
    """A record of this kind in a version that this Paceline reads."""
    try:
        check_version(kind, decode(content, Versioned, where).format, where)
    except NewerError as reason:
        raise BundleError(str(reason).rstrip(".")) from None
    return decode(content, as_type, where)
