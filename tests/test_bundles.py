"""Bundles: whole on the other side, the same bytes for the same results, and refused if anything is wrong."""

from __future__ import annotations

import json
import re
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline import certificates
from paceline.bundles import archive, reading
from paceline.bundles.manifest import FILE_BYTES, MANIFEST_FILE
from paceline.bundles.reading import came_from_elsewhere, import_bundle
from paceline.bundles.selecting import Choice
from paceline.bundles.writing import export_bundle
from paceline.commands import pending
from paceline.errors import UserError
from paceline.machine import this_machine
from paceline.metrics import table_rows
from paceline.plan import make_plan, run_key
from paceline.records import RunRecord
from paceline.report.render import text
from paceline.store import Store
from paceline.suite import Suite
from paceline.timing.command import ExternalCommand, Metric
from paceline.timing.usage import CommandUsage
from tests.command_line import CommandLine
from tests.made_bundles import (
    BROKEN,
    FIRST,
    SECOND,
    Files,
    edited,
    elsewhere,
    filled,
    of_machine,
    pack,
    read,
    save,
    tree,
    verdict,
    with_true_list,
)
from tests.made_machines import machine
from tests.made_runs import CELL, OK, save_plan

ALL = Choice(everything=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stores, one with a result of its own, and a bundle of the other; each test has copies."""
    folder = tmp_path_factory.mktemp("made")
    export_bundle(filled(folder / "source"), ALL, folder / "bundle.zip")
    store = Store(folder / "target")
    save_plan(store, {CELL: ["local"]}, suite="local")
    save(store, of_machine("20250102-000001-dddddd", "local", machine()))
    return folder


@pytest.fixture
def source(made: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(made / "source", tmp_path / "source"))


@pytest.fixture
def target(made: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(made / "target", tmp_path / "target"))


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made / "bundle.zip", tmp_path))


def plan_name(files: Files) -> str:
    return next(name for name in files if name.startswith("plans/"))


# There and back


def test_everything_is_the_same_in_an_empty_store(source: Store, bundle: Path, tmp_path: Path) -> None:
    empty = Store(tmp_path / "new" / "store")
    taken = import_bundle(bundle, empty)
    assert (taken.runs, taken.plans, taken.certificates, taken.runs_before) == (3, 1, 1, 0)
    assert text(table_rows(empty, {}), 100) == text(table_rows(source, {}), 100)
    here, there = (
        {name: value for name, value in tree(store.folder).items() if "/" in name} for store in (source, empty)
    )
    kept = {name: value for name, value in here.items() if "lease" not in name and "verified" not in name}
    assert {name: value for name, value in there.items() if "verified" not in name and "imported" not in name} == kept
    assert certificates.load(empty.folder) == certificates.load(source.folder)
    assert not list(empty.folder.glob("importing-*"))


def test_commands_move_real_runs(paceline: CommandLine, tmp_path: Path) -> None:
    flags = ("--framework", "fake,fake+fail", "--precision", "float32,bfloat16", "--steps", "20", "--warmup", "2")
    assert paceline("run", "cifar10-conv", *flags, "--repeats", "2").returncode == 2
    bundle, other = tmp_path / "bundle.zip", CommandLine(tmp_path / "other")
    exported = paceline("export", "-o", str(bundle))
    assert exported.returncode == 0, exported.stderr
    assert exported.stdout.startswith(f"{bundle}: 4 runs, 1 plan, ")
    imported = other("import", str(bundle))
    assert imported.returncode == 0, imported.stderr
    assert imported.stdout.splitlines()[1].startswith(
        f"measured on {this_machine().host} (machine {this_machine().id})"
    )
    shown = other("show").stdout
    assert shown == paceline("show").stdout
    assert "fake has no bfloat16" in shown
    assert other("index").stdout.startswith("4 runs")
    assert other("show").stdout == shown


def test_equal_results_make_equal_bytes(source: Store, bundle: Path, tmp_path: Path) -> None:
    copied = Store(tmp_path / "copy")
    shutil.copytree(source.folder, copied.folder)
    written = [export_bundle(copied, ALL, tmp_path / name) for name in ("again.zip", "once-more.zip")]
    assert written[0].digest == written[1].digest
    assert bundle.read_bytes() == (tmp_path / "again.zip").read_bytes() == (tmp_path / "once-more.zip").read_bytes()


def test_imported_again_nothing_happens(bundle: Path, target: Store) -> None:
    import_bundle(bundle, target)
    before = tree(target.folder)
    taken = import_bundle(bundle, target)
    assert (taken.runs, taken.plans, taken.certificates, taken.runs_before) == (0, 0, 0, 3)
    assert tree(target.folder) == before


def test_back_where_it_came_from_it_is_known(source: Store, bundle: Path) -> None:
    before = tree(source.folder)
    assert import_bundle(bundle, source).runs_before == 3
    assert tree(source.folder) == before


def test_one_run_brings_a_plan_of_its_own_cell_alone(source: Store, tmp_path: Path) -> None:
    written = export_bundle(source, Choice(runs=["bbbbbb"]), tmp_path / "one.zip")
    assert (written.runs, written.plans) == (1, 1)
    export_bundle(source, Choice(), tmp_path / "whole.zip")
    target = Store(tmp_path / "target")
    import_bundle(tmp_path / "one.zip", target)
    (row,) = table_rows(target, {})
    assert (row.status, row.runs, row.verified) == ("ok", (SECOND,), True)
    assert import_bundle(tmp_path / "whole.zip", target).runs_before == 1  # the whole plan is not taken for the cut one
    assert len(target.query("SELECT * FROM plan")) == 2
    assert text(table_rows(target, {"suite": "made"}), 100).count("skipped") > 0


def test_newest_plan_is_the_default_and_others_are_named(source: Store, tmp_path: Path) -> None:
    save_plan(source, {CELL: ["four"]}, suite="nightly")
    save(source, of_machine("20250103-000001-eeeeee", "four", elsewhere()))
    out = tmp_path / "part.zip"
    counts = [export_bundle(source, choice, out).runs for choice in (Choice(), Choice(suite="made"), ALL)]
    assert counts == [1, 3, 4]
    (plan,) = source.query("SELECT id FROM plan WHERE suite = 'made'")
    assert export_bundle(source, Choice(plan=plan["id"][-6:]), out).runs == 3


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(runs=["zzz"]), "No run is named 'zzz'; the newest are"),
        (Choice(plan="zzz"), "No plan is named 'zzz'; the newest are"),
        (Choice(suite="zzz"), "There is no plan of suite 'zzz'; suites with results: made."),
        (Choice(suite="made", everything=True), "Give runs, --suite, --plan or --all, not several of them."),
    ],
)
def test_what_is_not_there_is_not_exported(source: Store, tmp_path: Path, choice: Choice, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        export_bundle(source, choice, tmp_path / "bundle.zip")
    assert not list(tmp_path.glob("bundle*"))


def test_places_that_cannot_be_written_are_one_line(source: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder; name a file in it"):
        export_bundle(source, ALL, tmp_path)
    with pytest.raises(UserError, match=r"There is no folder .*nowhere; make it first"):
        export_bundle(source, ALL, tmp_path / "nowhere" / "bundle.zip")
    with pytest.raises(UserError, match="There are no results at"):
        export_bundle(Store(tmp_path / "empty"), ALL, tmp_path / "bundle.zip")
    with pytest.raises(UserError, match=r"There is no file .*missing.zip; `paceline export` writes one"):
        import_bundle(tmp_path / "missing.zip", source)


def test_damaged_run_is_refused_where_it_can_be_repaired(source: Store, tmp_path: Path) -> None:
    (source.folder / "runs" / FIRST / "events-0.jsonl").write_text("rubbish\n")
    with pytest.raises(UserError, match=f"Cannot export this: {FIRST}/events-0.jsonl has a line that is no event"):
        export_bundle(source, ALL, tmp_path / "bundle.zip")
    assert not list(tmp_path.glob("bundle*"))


# What others must not see


def test_variable_that_may_be_a_secret_stops_the_export(source: Store, tmp_path: Path) -> None:
    secret = msgspec.structs.replace(
        of_machine("20250103-000001-eeeeee", "four", machine()), environment={"TF_TOKEN_x": "s"}
    )
    save(source, secret)
    with pytest.raises(UserError, match="has kept the variable TF_TOKEN_x, which may be a secret"):
        export_bundle(source, ALL, tmp_path / "bundle.zip")
    assert export_bundle(source, Choice(runs=[FIRST]), tmp_path / "bundle.zip").runs == 1


def timed(store: Store, command: ExternalCommand, on: Any = None) -> RunRecord:
    """A run of `paceline time` that took a second."""
    cell = msgspec.structs.replace(CELL, workload="command", framework="train.py", batch_size=0, command=command)
    measured = of_machine("20250104-000001-ffffff", "timed", on or elsewhere(), cell)
    save_plan(store, {cell: ["timed"]}, suite="time")
    folder = store.create_run(measured)
    (folder / "log.txt").write_text("Speed: 100\n")
    sample = {"time": 1.0, "load": 0.0, "ranks": {}, "gpus": [], "cores": [[1.0, 0.0]] * 4}
    (folder / "monitor.jsonl").write_text("".join(json.dumps({**sample, "time": at}) + "\n" for at in (1.0, 2.0)))
    usage = CommandUsage(
        seconds=1.0,
        user_seconds=0.5,
        system_seconds=0.1,
        times_sampled=False,
        largest_process_bytes=2**20,
        left_behind=0,
        found=((100.0,),) * len(command.metrics),
    )
    (folder / "usage.json").write_bytes(msgspec.json.encode(usage))
    store.finish_run(folder, OK)
    return measured


def test_measured_command_moves_with_what_it_printed(tmp_path: Path) -> None:
    source, target = Store(tmp_path / "source"), Store(tmp_path / "target")
    speed = Metric(name="images/s", pattern="Speed: ([0-9]+)", take="median")
    timed(source, ExternalCommand(arguments=("train.py", "--wandb-token=abc"), folder="/home/me", metrics=(speed,)))
    assert export_bundle(source, Choice(), tmp_path / "bundle.zip").doubtful == ("--wandb-token",)
    import_bundle(tmp_path / "bundle.zip", target)
    assert text(table_rows(target, {}), 100) == text(table_rows(source, {}), 100)
    assert target.query("SELECT value FROM reading")[0]["value"] == 100.0


# Next to what is here


def test_results_of_two_machines_stand_side_by_side(bundle: Path, target: Store) -> None:
    import_bundle(bundle, target)
    rows = [row for row in table_rows(target, {"framework": "fake"}) if row.repeats]
    assert {row.machine for row in rows} == {machine().id, elsewhere().id}
    assert came_from_elsewhere(target, FIRST)
    assert not came_from_elsewhere(target, "20250102-000001-dddddd")


def test_results_of_another_machine_are_not_taken_for_done_here(tmp_path: Path) -> None:
    plan = make_plan(Suite(workload=("cifar10-conv",), framework=("fake",), steps=20, repeats=2), this_machine())
    source, target = Store(tmp_path / "source"), Store(tmp_path / "target")
    keys = [run_key(run.cell, run.repeat, elsewhere()) for run in plan.runs]
    save_plan(source, {plan.cells[0]: keys})
    for number, (run, key) in enumerate(zip(plan.runs, keys, strict=True)):
        save(source, of_machine(f"20250101-00000{number}-aaaaaa", key, elsewhere(), run.cell, run.repeat))
    export_bundle(source, ALL, tmp_path / "bundle.zip")
    assert import_bundle(tmp_path / "bundle.zip", target).runs == 2
    assert len(pending(plan, target, "all")) == 2
    assert table_rows(target, {})[0].repeats == 2


def test_proof_from_elsewhere_does_not_replace_the_one_of_this_machine(bundle: Path, target: Store) -> None:
    certificates.save(target.folder, verdict(on=machine(), equal=False))
    import_bundle(bundle, target)
    assert {(proof.machine, proof.equal) for proof in certificates.load(target.folder)} == {
        (machine().id, False),
        (elsewhere().id, True),
    }


def test_run_that_is_here_and_differs_is_refused(source: Store, bundle: Path, target: Store) -> None:
    save(target, of_machine(FIRST, "one", elsewhere()), log="another log\n")
    before = tree(target.folder)
    with pytest.raises(
        UserError, match=f"is refused: run {FIRST} is here already, with another log.txt; nothing of it"
    ):
        import_bundle(bundle, target)
    assert tree(target.folder) == before


def test_run_does_not_come_into_the_place_of_a_local_one(bundle: Path, target: Store) -> None:
    save(target, of_machine("20250105-000001-abcdef", "one", machine()))
    with pytest.raises(UserError, match=f"run {FIRST} has the key of run 20250105-000001-abcdef here, but measured"):
        import_bundle(bundle, target)


# Whole or not at all


def test_import_that_was_broken_off_is_finished_by_another(
    source: Store, bundle: Path, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(reading, "_index", interrupted)
        import_bundle(bundle, target)
    assert [row.machine for row in table_rows(target, {}, everything=True)] == [machine().id]
    assert import_bundle(bundle, target).runs_before == 3
    assert text(table_rows(target, {"suite": "made"}), 100) == text(table_rows(source, {}), 100)


def test_what_cannot_be_moved_to_its_place_leaves_nothing(bundle: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "target")
    store.folder.mkdir()
    (store.folder / "plans").write_text("somebody's file")
    before = tree(store.folder)
    with pytest.raises(UserError, match=r"Cannot take .* nothing of it was taken"):
        import_bundle(bundle, store)
    assert tree(store.folder) == before


def test_rest_of_a_killed_import_is_swept_away(bundle: Path, target: Store) -> None:
    left = target.folder / "importing-killed"
    (left / "runs").mkdir(parents=True)
    (left / "lock").write_text("")
    import_bundle(bundle, target)
    assert not left.exists()


# Tampering


def changed_log(files: Files) -> Files:
    return {**files, f"runs/{FIRST}/log.txt": b"it went very well\n"}


def changed_speed(files: Files) -> Files:
    name = f"runs/{FIRST}/events-0.jsonl"
    return {**files, name: files[name].replace(b'"seconds":2.0', b'"seconds":1.0')}


def without(name: str) -> Callable[[Files], Files]:
    return lambda files: {other: content for other, content in files.items() if other != name}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed_log, f"runs/{FIRST}/log.txt has 18 bytes, not 13 as its list says"),
        (changed_speed, f"runs/{FIRST}/events-0.jsonl has been changed: its checksum is not the one on its list"),
        (without(f"runs/{FIRST}/log.txt"), f"'runs/{FIRST}/log.txt' is on its list, but not in it"),
        (lambda files: {**files, f"runs/{FIRST}/usage.json": b"{}"}, f"'runs/{FIRST}/usage.json' is not on its list"),
        (without(MANIFEST_FILE), "it has no manifest.json, so it was not written by `paceline export`"),
        (lambda files: {**files, MANIFEST_FILE: b"{"}, "manifest.json: Input data was truncated"),
        (
            edited(MANIFEST_FILE, lambda found: found.update(format=2)),
            "manifest.json has format 2, this Paceline reads 1",
        ),
        (
            edited(MANIFEST_FILE, lambda found: found["files"].append(found["files"][0])),
            "manifest.json lists a file twice",
        ),
    ],
)
def test_bundle_that_was_changed_is_refused(
    bundle: Path, target: Store, change: Callable[[Files], Files], reason: str
) -> None:
    refused(pack(change(read(bundle)), bundle), target, reason)


def refused(bundle: Path, target: Store, reason: str) -> None:
    """In one line with the reason, and the store stays as it was."""
    before, shown = tree(target.folder), text(table_rows(target, {}, everything=True), 100)
    with pytest.raises(UserError, match=re.escape(reason)) as error:
        import_bundle(bundle, target)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{bundle} is refused: ")
    assert tree(target.folder) == before
    assert text(table_rows(target, {}, everything=True), 100) == shown


def of_run(file: str, change: Callable[[Any], None]) -> Callable[[Files], Files]:
    return edited(f"runs/{FIRST}/{file}", change)


def of_plan(change: Callable[[Any], None]) -> Callable[[Files], Files]:
    return lambda files: edited(plan_name(files), change)(files)


def added_event(line: bytes) -> Callable[[Files], Files]:
    name = f"runs/{FIRST}/events-0.jsonl"
    return lambda files: {**files, name: files[name] + line + b"\n"}


def of_certificate(**changes: Any) -> Callable[[Files], Files]:
    def apply(files: Files) -> Files:
        name = next(name for name in files if name.startswith("verified/"))
        return edited(name, lambda found: found.update(changes))(files)

    return apply


EMPTY_BLOCK = (
    b'{"event":"block","time":0,"phase":"train","steps":0,"images":1,"seconds":1,"processor_seconds":1,"losses":[]}'
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (of_run("run.json", lambda run: run.update(format=2)), f"{FIRST}/run.json has format 2, this Paceline reads 1"),
        (of_run("run.json", lambda run: run.update(id=SECOND)), f"run {FIRST} has another id inside than its folder"),
        (of_run("run.json", lambda run: run.update(key="../one")), f"run {FIRST} has a key that is none"),
        (of_run("run.json", lambda run: run.update(started=1e300)), "began at no moment that there is"),
        (of_run("run.json", lambda run: run.pop("machine")), "Object missing required field machine"),
        (of_run("run.json", lambda run: run["cell"].update(devices="many")), "Unknown devices 'many'"),
        (of_run("run.json", lambda run: run["cell"].update(cores=[])), "1xcpu has cores for 0 devices"),
        (
            of_run("run.json", lambda run: run["machine"].update(host="a\x1b[2Jb")),
            "has control characters in 'a\\x1b[2Jb'",
        ),
        (of_run("run.json", lambda run: run.update(python_version="3" * 70000)), "has a text of 70,000 letters"),
        (
            of_run("run.json", lambda run: run["cell"].update(steps=99)),
            f"run {FIRST} had another job than its cell says",
        ),
        (of_run("run.json", lambda run: run.update(key="two")), "have one key, but measured different things"),
        (of_run("outcome.json", lambda outcome: outcome.update(status="great")), "is neither ok nor failed"),
        (of_run("outcome.json", lambda outcome: outcome.update(message="\x9b2J")), "has control characters"),
        (of_run("job.json", lambda job: job.update(seed="x")), f"{FIRST}/job.json: Expected int, got str"),
        (without(f"runs/{FIRST}/outcome.json"), f"run {FIRST} has no outcome.json"),
        (without(f"runs/{FIRST}/events-0.jsonl"), f"run {FIRST} is ok, but has no events"),
        (added_event(b"__import__('os')"), "events-0.jsonl has a line that is no event: b\"__import__('os')\""),
        (added_event(EMPTY_BLOCK), "its results cannot be shown: ZeroDivisionError"),
        (lambda files: {**files, f"runs/{FIRST}/monitor.jsonl": b"{}\n"}, f"{FIRST}/monitor.jsonl: Object missing"),
        (of_plan(lambda plan: plan["reasons"].pop()), "has 3 cells, 2 reasons and 3 keys"),
        (of_plan(lambda plan: plan.update(id=FIRST)), "has another id inside"),
        (of_plan(lambda plan: plan["keys"].reverse()), "in the place of another cell"),
        (
            of_plan(lambda plan: plan["settings"].update(interval_target="wide")),
            "its results cannot be shown: TypeError",
        ),
        (of_plan(lambda plan: plan.update(suite="\x1b]0;owned\x07")), "has control characters"),
        (of_certificate(fingerprint="beef"), "is about none of its runs"),
        (of_certificate(worker_code="beef"), "is about something else than its name says"),
    ],
)
def test_bundle_with_wrong_records_is_refused_even_if_its_list_is_right(
    bundle: Path, target: Store, change: Callable[[Files], Files], reason: str
) -> None:
    refused(pack(with_true_list(change(read(bundle))), bundle), target, reason)


def test_refused_bundle_makes_no_store(bundle: Path, tmp_path: Path) -> None:
    pack(changed_speed(read(bundle)), bundle)
    with pytest.raises(UserError, match="has been changed"):
        import_bundle(bundle, Store(tmp_path / "some" / "store"))
    assert not (tmp_path / "some").exists()


# Zips that are no bundles


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


def test_huge_file_is_refused_before_it_is_unpacked(bundle: Path, target: Store) -> None:
    with (
        zipfile.ZipFile(bundle, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        packed.open(f"runs/{FIRST}/waiter.json", "w") as file,
    ):
        for _ in range(FILE_BYTES // 2**20 + 1):
            file.write(bytes(2**20))
    assert bundle.stat().st_size < 2**22
    refused(bundle, target, f"'runs/{FIRST}/waiter.json' has more than 268,435,456 bytes")


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


def test_member_that_lies_about_its_size_is_refused(bundle: Path, target: Store) -> None:
    """The list and the zip's own list agree on fewer bytes than there are."""
    files = read(bundle)
    name, short = f"runs/{FIRST}/log.txt", files[f"runs/{FIRST}/log.txt"][:-1]
    true = with_true_list({**files, name: short})
    pack({**true, name: files[name]}, bundle)
    content = bundle.read_bytes()
    place = content.rindex(name.encode())  # in the list at the end; the size stands 22 bytes before the name
    assert content[place - 22 : place - 18] == len(files[name]).to_bytes(4, "little")
    bundle.write_bytes(content[: place - 22] + len(short).to_bytes(4, "little") + content[place - 18 :])
    refused(bundle, target, "it is damaged or no zip: Bad CRC-32")


@pytest.mark.parametrize("keep", [0, 10, 1000, -1])
def test_what_is_no_zip_or_half_of_one_is_refused(bundle: Path, target: Store, keep: int) -> None:
    bundle.write_bytes(bundle.read_bytes()[:keep])
    refused(bundle, target, "it is damaged or no zip")


def test_words_behind_the_end_are_refused(bundle: Path, target: Store) -> None:
    with zipfile.ZipFile(bundle, "a") as packed:
        packed.comment = b"a comment"
    refused(bundle, target, "it does not end as one")


def test_failed_run_keeps_its_cause_on_the_other_side(bundle: Path, target: Store) -> None:
    import_bundle(bundle, target)
    rows = [row for row in table_rows(target, {"suite": "made"}) if row.status == "failed"]
    assert [(row.failed_run, row.reason) for row in rows] == [(BROKEN, "crash in train: killed by SIGSEGV")]
