"""Whatever a stranger has put into a store, or a disk has made of it: one line that says so, at once."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline import cli
from paceline.store.index.file import COMPANIONS
from paceline.store.records.runs import FOLDERS, RUN_FOLDER
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.files.regular_files import NoPlainFileError, open_plain, read_plain
from tests.bundles.made import pack
from tests.factories.pages import Pages
from tests.factories.runs import CELL, FAILED, cell, record, save_plan, save_run, trained

INDEX = "index.sqlite"
GOOD, BAD = "20250101-000001-aaaaaa", "20250101-000002-bbbbbb"
WORDS = "nobody may read this"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = Store(tmp_path_factory.mktemp("made") / "results")
    save_plan(store, {CELL: ["good"], cell(framework="fake+fail"): ["bad"]})
    good = save_run(store, record(GOOD, "good"), [trained(100, 1.0)])
    save_run(store, record(BAD, "bad", cell(framework="fake+fail")), [trained(100, 1.0)], FAILED)
    (good / "log.txt").write_text("it went well\n")
    (good / "lease").write_text("")
    return store.folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "results")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(WORDS)
    return path


Told = tuple[int, str, str]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Told]:
    """A command as it is typed: its exit code, what it prints, and what it complains of."""

    def typed(*words: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["paceline", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return typed


def refused(told: Told, *parts: str) -> None:
    """One line."""
    code, _, err = told
    assert (code, err.count("\n"), err[:10]) == (1, 1, "paceline: "), err
    for part in parts:
        assert part in err
    assert len(err) < 600


def link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def pipe(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def folder_(path: Path, secret: Path) -> None:
    path.mkdir()


ODDITIES = pytest.mark.parametrize(
    ("put", "what"), [(link, "a link"), (pipe, "a pipe"), (folder_, "a folder")], ids=["link", "pipe", "folder"]
)


@ODDITIES
def test_only_plain_files_are_opened(
    tmp_path: Path, secret: Path, put: Callable[[Path, Path], None], what: str
) -> None:
    put(tmp_path / "odd", secret)
    with pytest.raises(NoPlainFileError, match=f"odd is {what}, not a plain file"):
        open_plain(tmp_path / "odd")


def test_device_is_not_opened() -> None:
    with pytest.raises(NoPlainFileError, match="zero is a device, not a plain file"):
        read_plain("/dev/zero")


def test_record_that_seems_huge_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(NoPlainFileError, match="hole has 1,099,511,627,776 bytes, more than"):
        read_plain(tmp_path / "hole")


@ODDITIES
def test_log_that_is_none_is_not_served(
    folder: Path,
    secret: Path,
    run: Callable[..., Told],
    put: Callable[[Path, Path], None],
    what: str,
) -> None:
    log = folder / RUN_FOLDER / GOOD / "log.txt"
    log.unlink()
    put(log, secret)
    answers = [Pages(folder).get(path) for path in (f"/runs/{GOOD}", f"/runs/{GOOD}/log", "/results?so_far=1")]
    assert [status for status, _ in answers] == [200, 400, 200]
    for _, text in answers[:2]:
        assert f"log.txt is {what}, not a plain file" in text
    assert WORDS not in "".join(text for _, text in answers)
    refused(run("log", GOOD, "--store", str(folder)), f"log.txt is {what}")


@ODDITIES
@pytest.mark.parametrize("file", ["run.json", "outcome.json", "events-0.jsonl", "monitor.jsonl"])
def test_file_of_a_run_that_is_none_is_named(
    folder: Path,
    secret: Path,
    run: Callable[..., Told],
    file: str,
    put: Callable[[Path, Path], None],
    what: str,
) -> None:
    (folder / RUN_FOLDER / GOOD / file).unlink(missing_ok=True)
    put(folder / RUN_FOLDER / GOOD / file, secret)
    refused(run("index", "--store", str(folder)), f"{GOOD} is damaged: {file} is {what}, not a plain file")
    assert Pages(folder).get(f"/runs/{GOOD}")[0] in (200, 404)
    assert Pages(folder).get("/results?so_far=1")[0] == 200
    run("export", "--all", "--output", str(folder.parent / "out.zip"), "--store", str(folder))


@ODDITIES
@pytest.mark.parametrize("place", ["plans", "verified", "imported"])
def test_record_of_a_store_that_is_none_is_named(
    folder: Path, secret: Path, run: Callable[..., Told], place: str, put: Callable[[Path, Path], None], what: str
) -> None:
    (folder / place).mkdir(exist_ok=True)
    put(folder / place / "20250101-000000-abcdef.json", secret)
    if place == "imported":
        assert f"is {what}, not a plain file" in Pages(folder).get("/")[1]
    else:
        refused(run("index" if place == "plans" else "show", "--store", str(folder)), f"is {what}, not a plain file")


@ODDITIES
def test_index_that_is_no_file_is_refused_at_once(
    folder: Path, secret: Path, run: Callable[..., Told], put: Callable[[Path, Path], None], what: str
) -> None:
    (folder / INDEX).unlink()
    put(folder / INDEX, secret)
    for words in (("show",), ("report", "--output", str(folder.parent / "out.html")), ("serve", "--port", "0")):
        refused(run(*words, "--store", str(folder)), f"{INDEX} is {what}, not a plain file")
    if what == "a folder":
        refused(run("index", "--store", str(folder)), "move it out of the store")
    else:
        assert run("index", "--store", str(folder))[0] == 0
        assert run("show", "--store", str(folder))[0] == 0
    assert secret.read_text() == WORDS


@ODDITIES
@pytest.mark.parametrize("companion", COMPANIONS)
def test_index_beside_what_is_no_file_is_refused_at_once(
    folder: Path,
    secret: Path,
    run: Callable[..., Told],
    companion: str,
    put: Callable[[Path, Path], None],
    what: str,
) -> None:
    """SQLite would open these, too, and wait for who writes into a pipe."""
    put(folder / f"{INDEX}{companion}", secret)
    with subprocess.Popen([sys.executable, "-m", "paceline", "show", "--store", str(folder)], stderr=-1) as child:
        try:
            assert f"{companion} is {what}, not a plain file" in child.communicate(timeout=60)[1].decode()
        finally:
            child.kill()
    told = f"{INDEX}{companion} is {what}, not a plain file"
    refused(run("report", "--output", str(folder.parent / "out.html"), "--store", str(folder)), told)
    assert Pages(folder).get("/")[0] == 400
    if what == "a folder":
        refused(run("index", "--store", str(folder)), told, "move it out of the store")
    else:
        assert run("index", "--store", str(folder))[0] == 0
        assert run("show", "--store", str(folder))[0] == 0
    assert secret.read_text() == WORDS


def test_pipe_in_the_place_of_a_lease_keeps_no_page_waiting(folder: Path) -> None:
    (folder / RUN_FOLDER / GOOD / "outcome.json").unlink()
    (folder / RUN_FOLDER / GOOD / "lease").unlink()
    os.mkfifo(folder / RUN_FOLDER / GOOD / "lease")
    assert Pages(folder).get(f"/runs/{GOOD}")[0] == 200


def test_log_that_seems_endless_is_not_sent(folder: Path, run: Callable[..., Told]) -> None:
    with (folder / RUN_FOLDER / GOOD / "log.txt").open("ab") as log:
        log.truncate(2**40)
    for address in (f"/runs/{GOOD}", f"/runs/{GOOD}/log"):
        assert "log.txt has 1,099,511,627,776 bytes" in Pages(folder).get(address)[1]
    refused(run("log", GOOD, "--store", str(folder)), "log.txt has 1,099,511,627,776 bytes")


def test_linked_run_folder_is_refused(folder: Path, run: Callable[..., Told]) -> None:
    shutil.move(folder / RUN_FOLDER / GOOD, folder.parent / "elsewhere")
    (folder / RUN_FOLDER / GOOD).symlink_to(folder.parent / "elsewhere")
    for words in (("index",), ("log", GOOD)):
        refused(run(*words, "--store", str(folder)), f"{GOOD} is a link, not a folder of this store")


@pytest.mark.parametrize("place", FOLDERS)
def test_linked_folder_of_a_store_is_refused(folder: Path, run: Callable[..., Told], place: str) -> None:
    """Its files would be those of somebody else, whom nobody asked."""
    elsewhere = folder.parent / "elsewhere"
    if (folder / place).exists():
        shutil.move(folder / place, elsewhere)
    else:
        elsewhere.mkdir()
    before = sorted(elsewhere.rglob("*"))
    bundle = pack({"verified/x.json": b"{}"}, folder.parent / "bundle.zip")
    (folder / place).symlink_to(elsewhere)
    told = f"{folder / place} is a link, not a folder of this store"
    for words in (("index",), ("show",), ("log", GOOD), ("serve", "--port", "0"), ("import", str(bundle))):
        refused(run(*words, "--store", str(folder)), told)
    for address in ("/", "/runs", f"/runs/{GOOD}", f"/runs/{GOOD}/log", "/results?so_far=1"):
        status, text = Pages(folder).get(address)
        assert status == 400
        assert told in text.replace("&#39;", "'")
    refused(run("verify", "--framework", "fake", "--store", str(folder)), told)
    with pytest.raises(UserError, match="is a link, not a folder of this store"):
        save_run(Store(folder), record("20250101-000003-cccccc", "new"), [trained(100, 1.0)])
    assert sorted(elsewhere.rglob("*")) == before


def test_file_in_the_place_of_a_folder_is_refused(folder: Path, run: Callable[..., Told]) -> None:
    (folder / "plans").rename(folder / "kept")
    (folder / "plans").touch()
    refused(run("show", "--store", str(folder)), f"{folder / 'plans'} is a file, not a folder of this store")


def test_store_itself_may_be_a_link(folder: Path, run: Callable[..., Told]) -> None:
    (folder.parent / "linked").symlink_to(folder)
    assert run("index", "--store", str(folder.parent / "linked"))[1].startswith("2 runs in ")
    assert run("log", GOOD, "--store", str(folder.parent / "linked"))[1] == "it went well\n"


COMMANDS = pytest.mark.parametrize(
    "words",
    [("index",), ("show",), ("serve", "--port", "0"), ("log", "aa"), ("report",), ("plan", "mnist-mlp"), ("export",)],
    ids=lambda words: words[0],
)


@COMMANDS
def test_store_that_is_a_file_is_refused(secret: Path, run: Callable[..., Told], words: tuple[str, ...]) -> None:
    refused(run(*words, "--store", str(secret)), "Cannot use the store", "it is no folder")


@COMMANDS
def test_store_without_a_name_is_refused(run: Callable[..., Told], words: tuple[str, ...]) -> None:
    refused(run(*words, "--store", ""), "--store is empty")


@COMMANDS
def test_store_with_a_name_too_long_is_refused(
    tmp_path: Path, run: Callable[..., Told], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    refused(run(*words, "--store", "x" * 300), "Cannot use the store xxx", "File name too long")
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / ("x" * 300)))
    refused(run(*words), "File name too long")


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000])
def test_results_with_a_name_too_long_are_refused(folder: Path, run: Callable[..., Told], name: str) -> None:
    for words in (("compare", name, "plan:2"), ("audit", name), ("import", name, "--store", str(folder))):
        refused(run(*words), "File name too long")


@pytest.mark.parametrize(
    ("change", "commands"),
    [
        ("UPDATE plan_cell SET cell = '{\"workload\": 3}'", ("show", "report", "chart speed")),
        ("UPDATE plan_cell SET cell = 'rubbish'", ("show", "report", "chart speed")),
        ("UPDATE run SET cell = 'rubbish'", ("report",)),
        ("UPDATE run SET cell = '{}'", ("report",)),
        ("UPDATE run SET started = 'yesterday'", ("report",)),
        ("UPDATE run SET cell = CAST(x'ff00ff' AS TEXT)", ("report",)),
        ("UPDATE run SET message = CAST(x'ff00ff' AS TEXT)", ("show", "report")),
        ("UPDATE plan SET interval_target = 'wide'", ("show", "report")),
    ],
)
def test_index_with_wrong_rows_is_told_with_its_cure(
    folder: Path, run: Callable[..., Told], change: str, commands: tuple[str, ...]
) -> None:
    with sqlite3.connect(folder / INDEX) as index:
        index.execute(change)
    index.close()
    out = ["--output", str(folder.parent / "out.svg")]
    for command in commands:
        given = [] if command == "show" else out
        refused(run(*command.split(), *given, "--store", str(folder)), INDEX, "`paceline index` makes it anew")
    told = [Pages(folder).get(path)[0] for path in ("/results?so_far=1", "/", "/runs", "/compare")]
    assert set(told) <= {200, 400}
    assert run("index", "--store", str(folder))[0] == 0
    assert run("show", "--store", str(folder))[0] == 0


def test_mistake_of_ours_is_not_blamed_on_the_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from paceline.store.index_damage import blaming_the_index

    with pytest.raises(ZeroDivisionError), blaming_the_index(Store(folder)):
        raise ZeroDivisionError


def damaged_indexes(whole: bytes) -> Iterator[bytes]:
    """A few bytes are changed, a piece is missing, or a piece is there twice."""
    chance = random.Random(18)  # noqa: S311
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 3, 30))):
            content[chance.randrange(len(content))] = chance.randrange(256)
        cut = chance.randrange(len(content))
        yield bytes(
            chance.choice((content, content, content[:cut], content[cut:], content[:cut] + content[cut // 2 :]))
        )


@pytest.mark.slow
def test_index_with_changed_bytes_never_ends_in_a_traceback(folder: Path, run: Callable[..., Told]) -> None:
    whole = (folder / INDEX).read_bytes()
    for content in damaged_indexes(whole):
        (folder / INDEX).write_bytes(content)
        for words in (("show",), ("show", "--format", "json"), ("compare", "plan:2", "machine:x")):
            code, _, err = run(*words, "--store", str(folder))
            assert code == 0 or err.count("\n") == 1, err
        for path in ("/", "/runs", f"/runs/{GOOD}"):
            assert Pages(folder).get(path)[0] in (200, 400, 404)
    assert run("index", "--store", str(folder))[0] == 0


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("outcome.json", b"\xff\xfe", "is damaged"),
        ("outcome.json", b"[" * 100_000, "is damaged"),
        ("outcome.json", b'{"status": "ok", "phase": "x", "seconds": 1e999}', "is damaged"),
        ("run.json", b"{}", "is damaged: Object missing required field"),
        ("events-0.jsonl", b'{"event":"block","time":0,"phase":"train","steps":0,"images":1,"seconds":1,'
         b'"processor_seconds":1,"losses":[]}\n', "is damaged: ZeroDivisionError"),
        ("events-0.jsonl", b'{"event":"block","time":0,"phase":"train","steps":1,"images":' + b"9" * 400
         + b',"seconds":1,"processor_seconds":1,"losses":[1]}\n', "runs"),
        ("monitor.jsonl", b"{}\n", "is damaged: Object missing required field"),
        ("monitor.jsonl", b"0" * 2**24, "is damaged: a line is longer than"),
    ],
)  # fmt: skip
def test_damaged_record_is_named(
    folder: Path, run: Callable[..., Told], file: str, content: bytes, reason: str
) -> None:
    (folder / RUN_FOLDER / GOOD / file).write_bytes(content)
    told = run("index", "--store", str(folder))
    if told[0]:
        refused(told, reason)


def test_damaged_record_is_named_to_who_replays_it(folder: Path, run: Callable[..., Told]) -> None:
    (folder / RUN_FOLDER / GOOD / "run.json").write_text('{"format": 1, "id": []}')
    (folder / INDEX).unlink()  # else it would be blamed, and name the record
    refused(run("replay", GOOD, "--store", str(folder)), f"{GOOD} is damaged: ")


def test_number_beyond_the_index_is_damage(folder: Path, run: Callable[..., Told]) -> None:
    path = folder / RUN_FOLDER / GOOD / "run.json"
    path.write_text(path.read_text().replace('"repeat": 0', f'"repeat": {10**30}'))
    refused(run("index", "--store", str(folder)), f"{GOOD} is damaged: ")


def test_events_without_an_end_are_read_to_an_end(folder: Path) -> None:
    """A line that never ends, and millions of lines that are no events."""
    from paceline.store.records.events import MOST_RUBBISH, RUBBISH_BYTES, EventFile

    path = folder / "events-0.jsonl"
    with path.open("wb") as file:
        file.truncate(2**28)
    endless = EventFile(path)
    assert endless.read_on() == []
    assert endless.rubbish == [bytes(RUBBISH_BYTES)]
    path.write_bytes(b"\n" * 20_000_000)
    blank = EventFile(path)
    assert blank.read_on() == []
    assert blank.rubbish_count == MOST_RUBBISH


def test_file_that_is_no_rank_is_left_alone(folder: Path) -> None:
    (folder / RUN_FOLDER / GOOD / "events-of-mine.jsonl").write_text("mine\n")
    assert Store(folder).rebuild() == 2


def test_plan_that_could_not_be_read_again_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.store.store.RECORD_BYTES", 100)
    with pytest.raises(UserError, match="A plan of 1 cells is too large"):
        save_plan(Store(folder), {CELL: ["more"]})
