"""What a timed command ran: the hashes of its files and the commit of their folder; and commands known by name."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from paceline.analysis.comparison.compare import Comparison, compare
from paceline.analysis.comparison.selections import choose
from paceline.analysis.quantities.known import comparable
from paceline.plan.external.command import CommandCode, ExternalCommand
from paceline.report.page.run_details import of_runs
from paceline.report.server.run_page import one_run
from paceline.run.external.script_identity import LARGEST_BYTES, code_of
from paceline.store.records.runs import RunRecord
from paceline.store.store import Store
from paceline.system.errors import UserError
from tests.factories.command_line import CommandLine
from tests.factories.runs import cell, record, save_plan, save_run, trained
from tests.factories.server import serving

TRAIN = b"print('at 5')\n"
HASH = hashlib.sha256(TRAIN).hexdigest()[:16]


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "init.defaultBranch=main")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ended = subprocess.run(
        ["git", *settings, "-C", str(folder), *words], capture_output=True, text=True, check=True, env=environment
    )
    return ended.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A git repository with a script."""
    (tmp_path / "train.py").write_bytes(TRAIN)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def code(folder: Path, *arguments: str) -> CommandCode:
    return code_of(ExternalCommand(arguments=arguments, folder=str(folder)))


def test_script_is_hashed_and_the_commit_of_its_folder_is_kept(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    commit = git(folder, "rev-parse", "HEAD")
    assert code(folder, "python", "train.py", "--lr", "1") == CommandCode(files={"train.py": HASH}, commit=commit)
    from_elsewhere = code(tmp_path_factory.mktemp("other"), "python", str(folder / "train.py"))
    assert (from_elsewhere.commit, from_elsewhere.dirty) == (commit, False)


def test_edited_script_has_another_hash_and_a_dirty_commit(folder: Path) -> None:
    (folder / "train.py").write_text("print('at 6')\n")
    found = code(folder, "python", "train.py")
    assert (found.files["train.py"] != HASH, found.dirty) == (True, True)
    assert found.commit == git(folder, "rev-parse", "HEAD")


def test_file_that_git_does_not_know_does_not_make_it_dirty(folder: Path) -> None:
    (folder / "result.txt").write_text("1")
    assert not code(folder, "python", "train.py").dirty


def test_folder_in_no_repository_has_no_commit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(TRAIN)
    assert code(tmp_path, "python", "train.py") == CommandCode(files={"train.py": HASH})


def test_repository_without_a_commit_has_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert code(tmp_path, "true") == CommandCode()


@pytest.mark.parametrize("ended", [FileNotFoundError(), subprocess.TimeoutExpired("git", 1.0)])
def test_git_that_is_not_there_or_does_not_end_is_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ended: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ended

    monkeypatch.setattr(subprocess, "run", fail)
    assert code(folder, "python", "train.py") == CommandCode(files={"train.py": HASH})


def test_repository_that_the_environment_names_is_not_that_of_the_script(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(folder, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("other")))
    assert code(folder, "python", "train.py").commit == commit


def test_files_that_are_code_are_those_that_are_hashed(tmp_path: Path) -> None:
    """An output is another one each time, and to read the data would warm the disk's cache."""
    for name in ("run", "train", "train.py", "big.yaml", "data.bin", "result.txt", "pack/train.py", "odd/__main__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(TRAIN)
    (tmp_path / "link.py").symlink_to("train.py")
    os.mkfifo(tmp_path / "pipe.py")
    with (tmp_path / "large.py").open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)

    def names(*arguments: str) -> list[str]:
        return list(code(tmp_path, *arguments).files)

    assert names("./run", "data.bin") == ["./run"]
    assert names("run") == []  # it is looked up in PATH
    assert names("bash", "train", "result.txt") == ["train"]
    assert names("env", "A=1", "python3", "-u", "train.py", "--settings=big.yaml", "--out", "result.txt") == [
        "train.py",
        "big.yaml",
    ]
    assert names("python", "-m", "pack.train", "big.yaml") == ["pack/train.py", "big.yaml"]
    assert names("python", "-m", "odd") == ["odd/__main__.py"]
    assert names("python", "link.py", "pipe.py", "large.py", "pack", "none.py", "\0.py") == ["link.py"]


def test_run_keeps_its_code_and_its_pages_show_it(folder: Path) -> None:
    paceline = CommandLine(folder / "store")
    words = [*paceline.arguments("time"), "--repeats", "1", "--name", "mine", "--", "python3", "train.py"]
    subprocess.run(words, check=True, capture_output=True, cwd=folder)
    (path,) = paceline.store.glob("runs/*/run.json")
    kept = msgspec.json.decode(path.read_bytes(), type=RunRecord)
    commit = git(folder, "rev-parse", "HEAD")
    assert kept.code == CommandCode(files={"train.py": HASH}, commit=commit)
    store = Store(paceline.store)
    shown = one_run(store, kept.id)
    assert shown is not None
    assert {("hash of train.py", HASH), ("commit", commit)} <= set(shown.facts)
    (setup,) = of_runs(store, [kept.id]).setups
    assert setup.code == f"train.py {HASH}, commit {commit}"


# Commands by name

FIVE = (100.0, 101.0, 102.0, 103.0, 104.0)


def command(name: str, *arguments: str) -> ExternalCommand:
    return ExternalCommand(arguments=(name, *arguments), folder="/work")


def fill(store: Store, name: str, of: ExternalCommand, code: CommandCode | None = None, cores: int = 1) -> None:
    """A plan that measured a command."""
    measured = cell(workload="command", framework=name, command=of, cores=(tuple(range(cores)),), update="", data="")
    keys = [f"{len(list(store.folder.glob('runs/*')))}-{place}" for place in range(len(FIVE))]
    for key, speed in zip(keys, FIVE, strict=True):
        kept = msgspec.structs.replace(record(f"run-{key}", key, measured), code=code)
        folder = save_run(store, kept, [trained(100, 1.0)])
        usage = {"seconds": speed, "user_seconds": 1.0, "system_seconds": 1.0, "times_sampled": False}
        (folder / "usage.json").write_text(
            json.dumps({**usage, "largest_process_bytes": 1, "left_behind": 0, "found": []})
        )
        (folder / "monitor.jsonl").write_text('{"time":0,"load":0,"ranks":{},"gpus":[],"cores":[]}\n')
    save_plan(store, {measured: keys}, suite="time")
    (store.folder / "index.sqlite").unlink()


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Store, Store]:
    return Store(tmp_path / "old"), Store(tmp_path / "new")


def by_name(stores: Sequence[Store]) -> Comparison:
    old, new = (choose(str(store.folder), store.folder, comparable("seconds"), by_name=True) for store in stores)
    return compare(old, new, 0.05)


def test_commands_are_compared_by_name_whatever_their_arguments(stores: tuple[Store, Store]) -> None:
    """On as many devices of a machine that has another number of cores."""
    old, new = stores
    fill(old, "mine", command("python", "train.py"), CommandCode(files={"train.py": "a"}, commit="1" * 40))
    fill(
        new,
        "mine",
        command("python", "train.py", "--fast"),
        CommandCode(files={"train.py": "b"}, commit="2" * 40, dirty=True),
        2,
    )
    found = by_name(stores)
    assert [one.verdict for one in found.cells] == ["cannot tell"]
    assert found.differences == (
        "cores: 0 → 0–1",
        "mine command: python train.py → python train.py --fast",
        "mine file: train.py a → b",
        "mine commit: 111111111111 → 222222222222 (dirty)",
    )


def test_without_names_other_arguments_are_another_command_and_a_cure_is_named(stores: tuple[Store, Store]) -> None:
    for store, argument in zip(stores, ("a", "b"), strict=True):
        fill(store, "mine", command("train", argument))
    old, new = (choose(str(store.folder), store.folder, comparable("seconds")) for store in stores)
    with pytest.raises(UserError, match=r"no cell in common: command is train a against train b; --by-name compares"):
        compare(old, new, 0.05)


def test_edited_script_is_a_difference_of_the_same_command(stores: tuple[Store, Store]) -> None:
    for store, told in zip(stores, ("a", "b"), strict=True):
        fill(store, "mine", command("train.py"), CommandCode(files={"train.py": told}))
    old, new = (choose(str(store.folder), store.folder, comparable("seconds")) for store in stores)
    assert compare(old, new, 0.05).differences == ("mine file: train.py a → b",)


def test_run_from_before_its_code_was_kept_is_compared(stores: tuple[Store, Store]) -> None:
    fill(stores[0], "mine", command("train.py"))
    for path in stores[0].folder.glob("runs/*/run.json"):
        known = json.loads(path.read_bytes())
        path.write_text(json.dumps({name: value for name, value in known.items() if name != "code"}))
    fill(stores[1], "mine", command("train.py"), CommandCode(files={"train.py": "b"}, commit="2" * 40))
    assert by_name(stores).differences == (
        "mine file: train.py unknown → b",
        "mine commit: unknown → 222222222222",
    )


def test_name_of_several_commands_is_one_line(stores: tuple[Store, Store]) -> None:
    old, new = stores
    for store, argument in ((old, "a"), (old, "b"), (new, "a")):
        fill(store, "mine", command("train", argument))
    ended = CommandLine(old.folder)("compare", str(old.folder), str(new.folder), "--by-name", "--metric", "seconds")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert f"2 commands of {old.folder} are named 'mine', such as train a; train b; choose one plan" in ended.stderr


@pytest.mark.slow
def test_page_compares_by_name_if_it_is_asked_to(stores: tuple[Store, Store]) -> None:
    store, _ = stores
    for argument in ("a", "b"):
        fill(store, "mine", command("train", argument))
    old, new = (row["id"] for row in store.query("SELECT id FROM plan ORDER BY id"))
    query = f"/compare?old=plan:{old}&new=plan:{new}&metric=seconds"
    with serving(store.folder) as served:
        assert "--by-name compares commands by their names" in served.ask(query).text
        shown = served.ask(f"{query}&by_name=1").text
    assert "differs: mine command: train a → train b" in shown
    assert 'name="by_name" value="1" checked' in shown


def test_names_that_are_missing_are_one_line(stores: tuple[Store, Store]) -> None:
    old, new = stores
    fill(old, "mine", command("train"))
    fill(new, "yours", command("train"))
    none = Store(old.folder.parent / "none")
    save_plan(none, {cell(): ["one"]})
    save_run(none, record("run", "one"), [trained(100, 1.0)])
    with pytest.raises(
        UserError, match=r"of the same name on the same devices: mine \(1xcpu\) against yours \(1xcpu\)"
    ):
        by_name(stores)
    with pytest.raises(UserError, match=r"--by-name compares commands that `paceline time` measured; .*none has none"):
        by_name((old, none))
