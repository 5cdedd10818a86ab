"""Bundles: whole on the other side, the same bytes for the same results, and nothing that is here is touched."""

from __future__ import annotations

import errno
import re
import shutil
from pathlib import Path

import msgspec
import pytest

from paceline.analysis.rows.table_rows import table_rows
from paceline.bundles import importing, messages
from paceline.bundles.exporting import export_bundle
from paceline.bundles.importing import import_bundle
from paceline.bundles.selection import BundleRequest
from paceline.plan.planning import make_plan
from paceline.plan.run_keys import run_key
from paceline.plan.settings import Suite
from paceline.report.tables.render import text
from paceline.run.plan_runner import pending
from paceline.store import certificates
from paceline.store.import_notes import came_from_elsewhere
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.machine.hardware import this_machine
from tests.bundles.made import ALL, BROKEN, FIRST, SECOND, certificate, elsewhere, of_machine, save, tree
from tests.factories.command_line import CommandLine
from tests.factories.machines import machine
from tests.factories.runs import CELL, save_plan

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


def test_both_ends_count_runs_plans_and_certificates(source: Store, target: Store, tmp_path: Path) -> None:
    path = tmp_path / "there.zip"
    assert f"{path}: 3 runs, 1 plan, 1 certificate, " in messages.written(export_bundle(source, ALL, path), path)
    assert f"{path}: 3 runs, 1 plan, 1 certificate new; " in messages.taken(import_bundle(path, target), path)


@pytest.mark.slow
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
    written = export_bundle(source, BundleRequest(runs=["bbbbbb"]), tmp_path / "one.zip")
    assert (written.runs, written.plans) == (1, 1)
    export_bundle(source, BundleRequest(), tmp_path / "whole.zip")
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
    counts = [export_bundle(source, choice, out).runs for choice in (BundleRequest(), BundleRequest(suite="made"), ALL)]
    assert counts == [1, 3, 4]
    (plan,) = source.query("SELECT id FROM plan WHERE suite = 'made'")
    assert export_bundle(source, BundleRequest(plan=plan["id"][-6:]), out).runs == 3


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (BundleRequest(runs=["zzz"]), "No run is named 'zzz'; the newest are"),
        (BundleRequest(plan="zzz"), "No plan is named 'zzz'; the newest are"),
        (BundleRequest(suite="zzz"), "There is no plan of suite 'zzz'; suites with results: made."),
        (BundleRequest(suite="made", everything=True), "Give runs, --suite, --plan or --all, not several of them."),
    ],
)
def test_what_is_not_there_is_not_exported(source: Store, tmp_path: Path, choice: BundleRequest, message: str) -> None:
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


def test_failed_run_keeps_its_cause_on_the_other_side(bundle: Path, target: Store) -> None:
    import_bundle(bundle, target)
    rows = [row for row in table_rows(target, {"suite": "made"}) if row.status == "failed"]
    assert [(row.failed_run, row.reason) for row in rows] == [(BROKEN, "crash in train: killed by SIGSEGV")]


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


def test_certificate_from_elsewhere_does_not_replace_the_one_of_this_machine(bundle: Path, target: Store) -> None:
    certificates.save(target.folder, certificate(on=machine(), equal=False))
    import_bundle(bundle, target)
    assert {(one.machine, one.equal) for one in certificates.load(target.folder)} == {
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


@pytest.mark.parametrize("changes", [{}, {"identity": ""}], ids=["now", "before there were identities"])
def test_run_of_this_machine_does_not_come_beside_the_one_that_is_here(tmp_path: Path, changes: dict[str, str]) -> None:
    """Whoever knows a key could else put a faster run of ours before the one that we measured."""
    here, forged = Store(tmp_path / "here"), Store(tmp_path / "forged")
    for store, run_id in ((here, FIRST), (forged, SECOND)):
        save_plan(store, {CELL: ["one"]})
        save(store, of_machine(run_id, "one", msgspec.structs.replace(this_machine(), **changes)))
    export_bundle(forged, ALL, tmp_path / "bundle.zip")
    with pytest.raises(UserError, match=f"run {SECOND} says that this machine measured what it has as run {FIRST}"):
        import_bundle(tmp_path / "bundle.zip", here)
    assert import_bundle(tmp_path / "bundle.zip", Store(tmp_path / "empty")).runs == 1


# Whole or not at all


def test_import_that_was_broken_off_is_finished_by_another(
    source: Store, bundle: Path, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(importing, "_index", interrupted)
        import_bundle(bundle, target)
    assert [row.machine for row in table_rows(target, {}, everything=True)] == [machine().id]
    assert import_bundle(bundle, target).runs_before == 3
    assert text(table_rows(target, {"suite": "made"}), 100) == text(table_rows(source, {}), 100)


def test_what_cannot_be_moved_to_its_place_leaves_nothing(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "target")
    store.folder.mkdir()
    rename = Path.rename

    def without_room_for_plans(source: Path, target: Path) -> Path:
        if target.parent.name == "plans":
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", without_room_for_plans)
    before = tree(store.folder)
    with pytest.raises(UserError, match=r"Cannot take .*: No space left on device; nothing of it was taken"):
        import_bundle(bundle, store)
    assert tree(store.folder) == before


def test_rest_of_a_killed_import_is_swept_away(bundle: Path, target: Store) -> None:
    left = target.folder / "importing-killed"
    (left / "runs").mkdir(parents=True)
    (left / "lock").write_text("")
    import_bundle(bundle, target)
    assert not left.exists()
