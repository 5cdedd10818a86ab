"""What a newer Paceline wrote is refused in one line, and costs nothing else; what an older one wrote is read."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from paceline.store.index.file import INDEX_FILE
from paceline.store.store import Store
from paceline.system.format_versions import BUNDLE, IMPORT, INDEX, JOB, PLAN, RUN_RECORD, VERSIONS
from paceline.system.machine.hardware import this_machine
from paceline_worker.protocol import JOB_FORMAT, Job
from tests.bundles.made import FIRST, SECOND, edited, of_machine, pack, read, save, with_true_list
from tests.factories.command_line import CommandLine
from tests.factories.jobs import JOB as MADE_JOB
from tests.factories.runs import CELL, save_plan


@pytest.fixture
def shown(paceline: CommandLine) -> CommandLine:
    """A store with a plan and its two runs."""
    store = Store(paceline.store)
    save_plan(store, {CELL: ["one", "two"]})
    save(store, of_machine(FIRST, "one", this_machine()))
    save(store, of_machine(SECOND, "two", this_machine(), repeat=1))
    return paceline


def newer(kind: str) -> str:
    version = VERSIONS[kind]
    return f"was written by a newer Paceline ({kind} version {version + 1}; this one reads up to {version}): upgrade Pa"


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    told = json.loads(path.read_text())
    edit(told)
    path.write_text(json.dumps(told))


def raise_version(path: Path, kind: str) -> None:
    change(path, lambda told: told.update(format=VERSIONS[kind] + 1, unheard_of=[1]))


def refused(ended: Any) -> str:
    """The one line that a command said before it ended with 1."""
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    return str(line)


@pytest.mark.slow
def test_run_of_a_newer_version_is_named_and_left_out_of_the_tables(shown: CommandLine, tmp_path: Path) -> None:
    raise_version(shown.store / "runs" / SECOND / "run.json", RUN_RECORD)
    (shown.store / INDEX_FILE).unlink()
    said = f"paceline: Run {SECOND} {newer(RUN_RECORD)}celine. It is left out.\n"
    page = str(tmp_path / "page.html")
    for words in (("show", "--format", "json"), ("report", "-o", page), ("index",)):
        ended = shown(*words)
        assert (ended.returncode, ended.stderr) == (0, said), words
    (row,) = shown.rows()
    assert row["runs"] == [FIRST]
    compared = shown("compare", str(shown.store), str(shown.store))
    assert (compared.returncode, compared.stderr) == (0, said)


def test_newer_runs_are_counted_rather_than_listed(shown: CommandLine) -> None:
    for name in (FIRST, SECOND):
        raise_version(shown.store / "runs" / name / "run.json", RUN_RECORD)
    counted = shown("index")
    assert counted.stdout == f"0 runs in {shown.store}\n"
    assert counted.stderr.endswith("It is left out, as is one more.\n")


def test_newer_run_that_is_asked_for_is_refused(shown: CommandLine, tmp_path: Path) -> None:
    raise_version(shown.store / "runs" / SECOND / "run.json", RUN_RECORD)
    bundle = str(tmp_path / "bundle.zip")
    for words in (("replay", SECOND), ("export", SECOND, "-o", bundle), ("export", "--all", "-o", bundle)):
        assert newer(RUN_RECORD) in refused(shown(*words)), words


def test_newer_plan_is_named_and_left_out(shown: CommandLine) -> None:
    (plan,) = shown.store.glob("plans/*.json")
    raise_version(plan, PLAN)
    ended = shown("index")
    assert ended.stderr == f"paceline: Plan {plan.stem} {newer(PLAN)}celine. It is left out.\n"
    assert ended.returncode == 0


def test_newer_job_is_not_replayed(shown: CommandLine) -> None:
    """Made from its cell instead, it would be another one without a word."""
    raise_version(shown.store / "runs" / FIRST / "job.json", JOB)
    assert f"The job of run {FIRST} {newer(JOB)}" in refused(shown("replay", FIRST, "--trust"))


def test_worker_refuses_a_newer_job() -> None:
    with pytest.raises(ValueError, match=f"has format {JOB_FORMAT + 1}, and Paceline here reads up to {JOB_FORMAT}"):
        Job.from_json({**MADE_JOB.to_json(), "format": JOB_FORMAT + 1})


@pytest.mark.slow
def test_newer_index_is_refused_and_left_alone_until_it_is_rebuilt_on_purpose(shown: CommandLine) -> None:
    path = shown.store / INDEX_FILE
    with closing(sqlite3.connect(path)) as index:
        index.execute(f"PRAGMA user_version = {VERSIONS[INDEX] + 1}")
    before = path.read_bytes()
    for words in (("show",), ("report",), ("export", "--all"), ("compare", str(shown.store), str(shown.store))):
        line = refused(shown(*words))
        assert f"{path} {newer(INDEX)}" in line
        assert line.endswith("or let `paceline index` make one for this version.")
    assert path.read_bytes() == before
    assert shown("index").stdout == f"2 runs in {shown.store}\n"
    assert shown.rows()[0]["runs"] == [FIRST, SECOND]


@pytest.mark.parametrize("older", [0, 1, 2**16, 2**31 - 1])  # the large ones are checksums of a schema
def test_older_index_is_rebuilt(shown: CommandLine, older: int) -> None:
    with closing(sqlite3.connect(shown.store / INDEX_FILE)) as index:
        index.execute(f"PRAGMA user_version = {older}")
    assert len(Store(shown.store).query("SELECT id FROM run")) == 2
    with closing(sqlite3.connect(shown.store / INDEX_FILE)) as index:
        assert index.execute("PRAGMA user_version").fetchone() == (VERSIONS[INDEX],)


def test_newer_note_of_an_import_is_refused(shown: CommandLine) -> None:
    note = shown.store / "imported" / "20250101-000003-cccccc.json"
    note.parent.mkdir()
    note.write_text(json.dumps({"format": VERSIONS[IMPORT] + 1}))
    assert newer(IMPORT) in refused(shown("replay", FIRST))


PARTS = {BUNDLE: "manifest.json", RUN_RECORD: f"runs/{FIRST}/run.json", JOB: f"runs/{FIRST}/job.json"}


@pytest.mark.parametrize("kind", PARTS)
def test_newer_part_of_a_bundle_is_refused(shown: CommandLine, tmp_path: Path, kind: str) -> None:
    path, into = tmp_path / "bundle.zip", CommandLine(tmp_path / "elsewhere")
    assert shown("export", FIRST, "-o", str(path)).returncode == 0
    rewrite(path, PARTS[kind], lambda told: told.update(format=VERSIONS[kind] + 1))
    line = refused(into("import", str(path)))
    assert newer(kind) in line
    assert line.endswith("upgrade Paceline; nothing of it was taken.")
    assert not into.store.exists()


@pytest.mark.slow
def test_records_that_name_no_version_are_of_the_first(shown: CommandLine, tmp_path: Path) -> None:
    paths = [path for kind in ("plans/*", "runs/*/run", "runs/*/job") for path in shown.store.glob(f"{kind}.json")]
    before = shown.rows()
    for path in paths:
        change(path, lambda told: told.pop("format"))
    assert len(paths) == 5
    assert shown("index").stderr == ""
    assert shown.rows() == before
    bundle, into = tmp_path / "bundle.zip", CommandLine(tmp_path / "elsewhere")
    assert shown("export", "--all", "-o", str(bundle)).returncode == 0
    rewrite(bundle, "manifest.json", lambda told: told.pop("format"))
    taken = into("import", str(bundle))
    assert taken.returncode == 0, taken.stderr
    assert [row["runs"] for row in into.rows()] == [row["runs"] for row in before]


def rewrite(bundle: Path, name: str, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change one file of a bundle, and its list to agree with it; the list itself as it is to be."""
    changed = edited(name, edit)(read(bundle))
    pack(with_true_list(changed), bundle)


def test_index_has_another_version_whenever_anything_that_it_is_made_from_has() -> None:
    """Change this only together with the version of the index: else what was made by another rule stays in use."""
    statements = re.sub(r"--.*|\s+", " ", (files("paceline.store.index") / "schema.sql").read_text(encoding="utf-8"))
    schema = hashlib.sha256(" ".join(statements.split()).encode()).hexdigest()[:12]
    assert (VERSIONS[INDEX], schema, VERSIONS[RUN_RECORD], VERSIONS[PLAN]) == (3, "3fd179eafbd0", 1, 1)
