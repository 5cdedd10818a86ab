"""Takes a bundle into a store: checked to the last line, then moved into place, all of it or nothing."""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from paceline.bundles.archive import unpack
from paceline.bundles.manifest import BundleError, digest
from paceline.bundles.record_checks import (
    check_agreement,
    check_certificate,
    check_plan,
    check_run,
    refusing_unfit,
    rehearse,
)
from paceline.bundles.selection import certificate_name, subject
from paceline.store import certificates
from paceline.store.import_notes import ImportRecord
from paceline.store.index.rows import insert_plan, insert_run
from paceline.store.records.certificate import Certificate
from paceline.store.records.runs import IMPORT_FOLDER, PLAN_FOLDER, RUN_FOLDER, PlanRecord, RunRecord, cell_id
from paceline.store.store import Store, new_id
from paceline.system.errors import UserError
from paceline.system.files.regular_files import is_own_folder, is_plain, open_plain
from paceline.system.machine.hardware import Machine, this_machine
from paceline.system.text.safe_text import one_line

SCRATCH = "importing-"
LOCK_FILE = "lock"
BEGINNING_SECONDS = 60.0  # after which a place without a lock is abandoned: it is locked at once
RUNS_AT_ONCE = 50  # are indexed: a measurement that ends meanwhile must not wait long to be stored
SAME_KEYS = "SELECT id, key, machine, cell, repeat FROM run WHERE key IN (SELECT value FROM json_each(?))"
Move = tuple[Path, Path]


@dataclass(frozen=True)
class Bundle:
    """The unpacked content, found to be right in itself."""

    digest: str
    runs: Sequence[RunRecord]
    plans: Sequence[PlanRecord]
    certificates: Sequence[Certificate]


@dataclass(frozen=True)
class ImportSummary:
    """What came of an import."""

    digest: str
    runs: int  # that are new here, as are the plans and certificates
    plans: int
    certificates: int
    runs_before: int  # that were here already, exactly the same
    machines: tuple[Machine, ...]
    suites: tuple[str, ...]


def import_bundle(path: Path, store: Store) -> ImportSummary:
    """Nothing of a bundle is seen before all of it is checked; what is broken off is finished by doing it again."""
    if not path.is_file():
        raise UserError(f"There is no file {path}; `paceline export` writes one.")
    try:
        store.check_place()
        with _scratch(store.folder) as scratch:
            bundle = _checked(path, scratch)
            runs = [run for run in bundle.runs if not _has_run(store, scratch, run.id)]
            plans = [plan for plan in bundle.plans if not _has_plan(store, scratch, plan.id)]
            proven = list(_new_certificates(store, bundle.certificates))
            _check_keys(store, runs)
            _put_in_place(_moves(store, scratch, _keep(bundle, runs, scratch), (runs, plans, proven)))
            _index(store, bundle)
    except BundleError as reason:
        raise UserError(f"{path} is refused: {one_line(str(reason))}; nothing of it was taken.") from None
    except OSError as error:
        raise UserError(f"Cannot take {path} into {store.folder}: {error.strerror}; nothing of it was taken.") from None
    return ImportSummary(
        digest=bundle.digest,
        runs=len(runs),
        plans=len(plans),
        certificates=len(proven),
        runs_before=len(bundle.runs) - len(runs),
        machines=tuple({run.machine.id: run.machine for run in bundle.runs}.values()),
        suites=tuple(dict.fromkeys(plan.suite for plan in bundle.plans if plan.suite)),
    )


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A place in the store, from where renaming is enough; gone in the end, as is a store that stayed empty."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder))
    except OSError as error:
        raise UserError(f"Cannot write {folder}: {error.strerror}; --store names another place.") from None
    try:
        with (scratch / LOCK_FILE).open("x") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for place in missing:
            with contextlib.suppress(OSError):  # it is not empty
                place.rmdir()


def _sweep(folder: Path) -> None:
    """Remove what an import left behind that was killed; one that goes on holds its lock."""
    for left in filter(is_own_folder, folder.glob(f"{SCRATCH}*")):
        with contextlib.suppress(OSError):
            if os.path.lexists(left / LOCK_FILE):
                with open_plain(left / LOCK_FILE) as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(left, ignore_errors=True)
            elif time.time() - left.stat().st_mtime > BEGINNING_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _checked(path: Path, scratch: Path) -> Bundle:
    _, listed = unpack(path, scratch)
    with refusing_unfit("its records cannot be read"):
        return _checked_records(scratch, digest(listed))


def _checked_records(scratch: Path, name: str) -> Bundle:
    runs = [check_run(folder) for folder in sorted((scratch / RUN_FOLDER).glob("*"))]
    plans = [check_plan(file.read_bytes(), file.stem) for file in sorted((scratch / PLAN_FOLDER).glob("*"))]
    check_agreement(plans, runs)
    proven = []
    for file in sorted((scratch / certificates.FOLDER).glob("*")):
        certificate = check_certificate(file.read_bytes(), f"{certificates.FOLDER}/{file.name}", runs)
        if file.stem != certificate_name(certificate):
            raise BundleError(f"{certificates.FOLDER}/{file.name} is about something else than its name says")
        proven.append(certificate)
    rehearse(scratch)
    return Bundle(name, runs, plans, proven)


def _has_run(store: Store, scratch: Path, run_id: str) -> bool:
    """Whether the very same run is here; another one under its name is a contradiction."""
    here, given = (place / RUN_FOLDER / run_id for place in (store.folder, scratch))
    if not here.exists():
        return False
    for file in sorted(given.iterdir()):
        _check_same(here / file.name, file, f"run {run_id}")
    return True


def _has_plan(store: Store, scratch: Path, plan_id: str) -> bool:
    here, given = (place / PLAN_FOLDER / f"{plan_id}.json" for place in (store.folder, scratch))
    if not here.exists():
        return False
    _check_same(here, given, f"plan {plan_id}")
    return True


def _check_same(here: Path, given: Path, what: str) -> None:
    if not is_plain(here) or not filecmp.cmp(here, given, shallow=False):
        raise BundleError(f"{what} is here already, with another {given.name}")


def _new_certificates(store: Store, given: Sequence[Certificate]) -> Iterator[Certificate]:
    """Of two tries that came to the same, the one that is here stays."""
    known = {subject(one): one for one in certificates.load(store.folder)}
    for certificate in given:
        here = known.get(subject(certificate))
        if here is None:
            yield certificate
        elif here.equal != certificate.equal:
            what = f"{certificate.framework} on {certificate.workload}, {certificate.setting}"
            raise BundleError(f"its certificate about {what} contradicts the one that is here")


def _check_keys(store: Store, runs: Sequence[RunRecord]) -> None:
    """A run must not come into the place of what was measured here, be it something else or the same."""
    given, own = {run.key: run for run in runs}, this_machine().ids
    for row in store.query(SAME_KEYS, json.dumps(list(given))):
        run = given[row["key"]]
        if (row["machine"], row["cell"], row["repeat"]) != (run.machine.id, cell_id(run.cell), run.repeat):
            raise BundleError(f"run {run.id} has the key of run {row['id']} here, but measured something else")
        if run.machine.id in own:
            raise BundleError(f"run {run.id} says that this machine measured what it has as run {row['id']} already")


def _keep(bundle: Bundle, runs: Sequence[RunRecord], scratch: Path) -> Path | None:
    """A note of what comes from elsewhere, if anything is new."""
    if not runs:
        return None
    note = ImportRecord(bundle=bundle.digest, time=time.time(), runs=tuple(run.id for run in runs))
    path = scratch / f"{new_id()}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(note)))
    return path


def _moves(
    store: Store,
    scratch: Path,
    note: Path | None,
    new: tuple[Sequence[RunRecord], Sequence[PlanRecord], Sequence[Certificate]],
) -> list[Move]:
    """From where to where, in the order in which a break would do no harm: plans, which make tables, come last."""
    runs, plans, proven = new
    names = [f"{RUN_FOLDER}/{run.id}" for run in runs]
    names += [f"{certificates.FOLDER}/{certificate_name(one)}.json" for one in proven]
    names += [f"{PLAN_FOLDER}/{plan.id}.json" for plan in plans]
    noted = [(note, store.folder / IMPORT_FOLDER / note.name)] if note else []
    return noted + [(scratch / name, store.folder / name) for name in names]


def _put_in_place(moves: Sequence[Move]) -> None:
    """All of them, or none if one cannot be made."""
    made: list[Move] = []
    folders = [target.parent for _, target in moves if not target.parent.exists()]
    try:
        for source, target in moves:
            target.parent.mkdir(exist_ok=True)
            source.rename(target)
            made.append((source, target))
    except BaseException:  # an interruption, too
        for source, target in reversed(made):
            target.rename(source)
        for folder in folders:
            with contextlib.suppress(OSError):  # it was not made, or is gone
                folder.rmdir()
        raise


def _index(store: Store, bundle: Bundle) -> None:
    """Also what was here already: an import may have been broken off before this."""
    folders = [store.folder / RUN_FOLDER / run.id for run in bundle.runs]
    for start in range(0, len(folders), RUNS_AT_ONCE):
        with store.transaction() as index:
            for folder in folders[start : start + RUNS_AT_ONCE]:
                insert_run(index, folder)
    with store.transaction() as index:
        for plan in bundle.plans:
            insert_plan(index, plan)
