"""A bundle as a zip file: every member is checked before the first one is unpacked."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from paceline.bundles.manifest import (
    DIRECTORY_BYTES,
    FILES,
    MANIFEST_BYTES,
    MANIFEST_FILE,
    NAME,
    TOTAL_BYTES,
    BundleError,
    Manifest,
    ManifestEntry,
    check_events,
    decode_versioned,
    most_bytes,
)
from paceline.system.format_versions import BUNDLE
from paceline.system.text.safe_text import printable

CHUNK_BYTES = 2**20
MOMENT = (1980, 1, 1, 0, 0, 0)  # the same for all: equal content makes equal bytes
DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, ValueError)
END, END_64, LOCATOR_64 = b"PK\5\6", b"PK\6\6", b"PK\6\7"  # what a zip's list of members ends with
ENCRYPTED = 1  # of a member's flags
ENTRY_BYTES = 1000  # of the list for each file: a name, a size, a checksum, and what stands between them
Members = dict[str, zipfile.ZipInfo]


def add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """A plain file that says nothing about when or by whom it was packed."""
    member = zipfile.ZipInfo(name, MOMENT)
    member.create_system = 3  # Unix, on whatever system it is written
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    archive.writestr(member, content, zipfile.ZIP_DEFLATED, compresslevel=6)


def unpack(path: Path, into: Path) -> tuple[Manifest, bytes]:
    """All files of a bundle below `into`, each as its list says; the list, and as it is written."""
    with _opened(path) as archive:
        members = _members(archive)
        content = _list(archive, members)
        manifest = decode_versioned(content, Manifest, BUNDLE, MANIFEST_FILE)
        _check_list(manifest, members)
        _check_room(manifest, into)
        for entry in manifest.files:
            _extract(archive, members[entry.name], entry, into / entry.name)
    return manifest, content


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Whatever is wrong with the zip itself is one kind of refusal."""
    try:
        size = path.stat().st_size
        if size > TOTAL_BYTES:
            raise BundleError(f"it has {size:,} bytes, more than the {TOTAL_BYTES:,} of a bundle")
        _check_end(path, size)
        with zipfile.ZipFile(path) as archive:
            yield archive
    except DAMAGE as error:
        raise BundleError(f"it is damaged or no zip: {printable(str(error))}") from None


def _check_end(path: Path, size: int) -> None:
    """The list of members must be of a size that can be read; a bundle has no comment behind it."""
    length = 56 + 20 + 22  # the end, and before it what a zip with many members has in addition
    with path.open("rb") as file:
        file.seek(max(0, size - length))
        tail = file.read(length).rjust(length, b"\0")
    if tail[76:80] != END or tail[96:] != b"\0\0":
        raise BundleError("it is damaged or no zip: it does not end as one")
    (listed,) = struct.unpack("<L", tail[88:92])
    if tail[56:60] == LOCATOR_64 and tail[:4] == END_64:
        (listed,) = struct.unpack("<Q", tail[40:48])
    if listed > DIRECTORY_BYTES:
        raise BundleError(f"its list of members has {listed:,} bytes, more than the {DIRECTORY_BYTES:,} of a bundle")


def _members(archive: zipfile.ZipFile) -> Members:
    """By name, all of the shape that a bundle has."""
    found = archive.infolist()
    if len(found) > FILES:
        raise BundleError(f"it has {len(found):,} files, more than the {FILES:,} of a bundle")
    for member in found:
        for reason in (reason for reason, is_so in WRONG.items() if is_so(member)):
            raise BundleError(f"{printable(member.orig_filename[:100])!r} {reason}")
        if member.filename != MANIFEST_FILE and member.file_size > most_bytes(member.filename):
            raise BundleError(f"{member.filename!r} has more than {most_bytes(member.filename):,} bytes")
    members = {member.filename: member for member in found}
    if len({name.casefold() for name in members}) < len(found):
        raise BundleError("two of its files have the same name")
    return members


def _kind(member: zipfile.ZipInfo) -> int:
    return stat.S_IFMT(member.external_attr >> 16)


WRONG: dict[str, Callable[[zipfile.ZipInfo], bool]] = {
    "is no file of a bundle": lambda member: (
        member.filename != member.orig_filename  # zipfile has cut it off, or turned backslashes
        or not (member.filename == MANIFEST_FILE or NAME.fullmatch(member.filename))
    ),
    "is a link or a device, not a file": lambda member: _kind(member) not in (0, stat.S_IFREG),
    "is encrypted": lambda member: bool(member.flag_bits & ENCRYPTED),
    "is packed in a way that bundles are not": lambda member: (
        member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    ),
}


def _list(archive: zipfile.ZipFile, members: Members) -> bytes:
    if MANIFEST_FILE not in members:
        raise BundleError(f"it has no {MANIFEST_FILE}, so it was not written by `paceline export`")
    size, most = members[MANIFEST_FILE].file_size, min(MANIFEST_BYTES, ENTRY_BYTES * (len(members) + 1))
    if size > most:
        raise BundleError(f"its {MANIFEST_FILE} has {size:,} bytes, more than the {most:,} of a bundle")
    with archive.open(members[MANIFEST_FILE]) as source:
        content = source.read(size + 1)  # a bare read() inflates all that is packed before it looks at the size
    if len(content) != size:
        raise BundleError(f"its {MANIFEST_FILE} has not the {size:,} bytes that the zip says")
    return content


def _check_list(manifest: Manifest, members: Members) -> None:
    """The list and the zip have the same files of the same sizes."""
    listed = {entry.name: entry.bytes for entry in manifest.files}
    packed = {name: member.file_size for name, member in members.items() if name != MANIFEST_FILE}
    if len(listed) < len(manifest.files):
        raise BundleError(f"its {MANIFEST_FILE} lists a file twice")
    if listed.keys() != packed.keys():
        name = min(listed.keys() ^ packed.keys())
        what = "is not on its list" if name in packed else "is on its list, but not in it"
        raise BundleError(f"{printable(name[:100])!r} {what}")
    for name, size in listed.items():
        if size != packed[name]:
            raise BundleError(f"{name} has {packed[name]:,} bytes, not {size:,} as its list says")
    if sum(listed.values()) > TOTAL_BYTES:
        raise BundleError(f"its files have more than {TOTAL_BYTES:,} bytes together")
    check_events(listed)


def _check_room(manifest: Manifest, into: Path) -> None:
    needed, free = sum(entry.bytes for entry in manifest.files), shutil.disk_usage(into).free
    if needed > free:
        raise BundleError(f"its files have {needed:,} bytes, and {into} has room for {free:,}")


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, entry: ManifestEntry, target: Path) -> None:
    """No more bytes than the list says, whatever the member holds."""
    found, left = hashlib.sha256(), entry.bytes
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, target.open("xb") as file:
        while chunk := source.read(min(CHUNK_BYTES, left + 1)):
            left -= len(chunk)
            if left < 0:
                break
            found.update(chunk)
            file.write(chunk)
    if left or found.hexdigest() != entry.sha256:
        raise BundleError(f"{entry.name} has been changed: its checksum is not the one on its list")
