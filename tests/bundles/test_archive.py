"""Zips that are no bundles: refused before anything of them is unpacked, at no more cost than a bundle's."""

from __future__ import annotations

import stat
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from paceline.bundles import archive, manifest
from paceline.bundles.exporting import export_bundle
from paceline.bundles.manifest import MANIFEST_FILE
from paceline.bundles.selection import BundleRequest
from paceline.store.store import Store
from paceline.system.errors import UserError
from tests.bundles.made import BROKEN, FIRST, pack, read, refused, with_true_list

MIB = 2**20
LOG = f"runs/{FIRST}/log.txt"


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/evil",
        f"runs/{FIRST}/../../../evil",
        f"runs/{FIRST}/evil.py",
        f"runs/{FIRST}/deeper/run.json",
        f"runs/{FIRST}/events-00.jsonl",
        f"runs\\{FIRST}\\run.json",
        "runs/../run.json",
        "runs/evil/run.json",
        f"runs/{FIRST}/",
        f"runs/{FIRST}/log.txt\n",
        "verified/../../evil.json",
        "verified/..json",
        "index.sqlite",
    ],
)
def test_member_with_a_name_that_bundles_do_not_have_is_refused(bundle: Path, target: Store, name: str) -> None:
    with zipfile.ZipFile(bundle, "a") as packed:
        packed.writestr(name, b"evil")
    refused(bundle, target, "is no file of a bundle")
    assert not list(bundle.parent.rglob("*evil*"))


def test_link_is_refused(bundle: Path, target: Store) -> None:
    link = zipfile.ZipInfo(f"runs/{FIRST}/waiter.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(bundle, "a") as packed:
        packed.writestr(link, "/etc/passwd")
    refused(bundle, target, "is a link or a device, not a file")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_name_that_is_there_twice_is_refused(bundle: Path, target: Store) -> None:
    with zipfile.ZipFile(bundle, "a") as packed:
        packed.writestr(f"runs/{FIRST}/log.txt", b"another")
    refused(bundle, target, "two of its files have the same name")


def test_unusual_packing_is_refused(bundle: Path, target: Store) -> None:
    with zipfile.ZipFile(bundle, "a") as packed:
        packed.writestr(f"runs/{FIRST}/waiter.json", b"{}", zipfile.ZIP_LZMA)
    refused(bundle, target, "is packed in a way that bundles are not")


@pytest.mark.parametrize(
    ("name", "most"),
    [
        (f"runs/{FIRST}/waiter.json", 4 * MIB),
        (f"runs/{FIRST}/events-7.jsonl", 64 * MIB),
        (f"runs/{FIRST}/monitor.jsonl", 64 * MIB),
        (f"runs/{BROKEN}/log.txt", 256 * MIB),
    ],
)
def test_huge_file_is_refused_before_it_is_unpacked(bundle: Path, target: Store, name: str, most: int) -> None:
    pack({other: content for other, content in read(bundle).items() if other != name}, bundle)
    with (
        zipfile.ZipFile(bundle, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        packed.open(name, "w") as file,
    ):
        for _ in range(most // MIB):
            file.write(b"\n" * MIB)
        file.write(b"\n")
    assert bundle.stat().st_size < 4 * MIB
    refused(bundle, target, f"{name!r} has more than {most:,} bytes")


def test_file_that_import_would_refuse_is_not_exported(source: Store, tmp_path: Path) -> None:
    with (source.folder / "runs" / BROKEN / "events-0.jsonl").open("ab") as file:
        file.write(b" " * (64 * MIB) + b"\n")
    with pytest.raises(UserError, match="more than the 67,108,864 that a bundle takes of such a file"):
        export_bundle(source, BundleRequest(everything=True), tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("FILES", 5, "files, more than the 5 of a bundle"),
        ("TOTAL_BYTES", 10000, "10,000"),
        ("MANIFEST_BYTES", 10, "more than the 10 of a bundle"),
        ("DIRECTORY_BYTES", 10, "its list of members has"),
    ],
)
def test_bundle_beyond_a_limit_is_refused(
    bundle: Path, target: Store, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, reason: str
) -> None:
    monkeypatch.setattr(archive, limit, value)
    refused(bundle, target, reason)


def test_run_with_more_events_than_can_be_read_is_neither_taken_nor_exported(
    bundle: Path, source: Store, target: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "EVENTS_BYTES", 10)
    refused(bundle, target, "bytes of events, more than the 10 of a bundle")
    with pytest.raises(UserError, match="bytes of events, more than the 10"):
        export_bundle(source, BundleRequest(everything=True), tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()


def understate(bundle: Path, name: str, by: int) -> None:
    """Write a smaller size into the zip's own list, where it stands 22 bytes before the name."""
    content = bundle.read_bytes()
    place = content.rindex(name.encode()) - 22
    size = int.from_bytes(content[place : place + 4], "little") - by
    bundle.write_bytes(content[:place] + size.to_bytes(4, "little") + content[place + 4 :])


@pytest.mark.parametrize("name", [LOG, MANIFEST_FILE])
def test_member_that_lies_about_its_size_is_refused(bundle: Path, target: Store, name: str) -> None:
    """The list and the zip's own list agree on fewer bytes of the log than there are; or the list itself is cut."""
    files = read(bundle)
    listed = with_true_list({**files, LOG: files[LOG][:-1]})
    pack({**listed, LOG: files[LOG]}, bundle)
    understate(bundle, name, 1)
    refused(bundle, target, "it is damaged or no zip: Bad CRC-32")


def test_list_that_lies_about_its_size_is_not_inflated(bundle: Path, target: Store) -> None:
    files = read(bundle)
    pack({**files, MANIFEST_FILE: files[MANIFEST_FILE] + bytes(64 * MIB)}, bundle)
    understate(bundle, MANIFEST_FILE, 64 * MIB)
    tracemalloc.start()
    try:
        refused(bundle, target, "it is damaged or no zip: Bad CRC-32")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 16 * MIB


@pytest.mark.parametrize("keep", [0, 10, 1000, -1])
def test_what_is_no_zip_or_half_of_one_is_refused(bundle: Path, target: Store, keep: int) -> None:
    bundle.write_bytes(bundle.read_bytes()[:keep])
    refused(bundle, target, "it is damaged or no zip")


def test_words_behind_the_end_are_refused(bundle: Path, target: Store) -> None:
    with zipfile.ZipFile(bundle, "a") as packed:
        packed.comment = b"a comment"
    refused(bundle, target, "it does not end as one")
