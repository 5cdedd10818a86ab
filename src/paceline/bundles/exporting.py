"""Writes a bundle: results of a store as one file, the same bytes for the same results."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec

from paceline.bundles import archive
from paceline.bundles.manifest import (
    FILES,
    MANIFEST_FILE,
    NAME,
    TOTAL_BYTES,
    BundleError,
    Manifest,
    ManifestEntry,
    check_events,
    digest,
    entry,
    most_bytes,
)
from paceline.bundles.record_checks import check_agreement, check_plan, check_run, refusing_unfit
from paceline.bundles.selection import BundleContents, BundleRequest, certificates_of, select
from paceline.store import certificates
from paceline.store.records.runs import PLAN_FOLDER, RUN_FILE, RUN_FOLDER, PlanRecord, RunRecord
from paceline.store.shown_variables import harmless, may_be_secret
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.files.atomic_files import check_place, replacing
from paceline.system.files.regular_files import is_own_folder, is_plain, read_plain
from paceline.system.machine.hardware import Machine
from paceline.system.text.secret_names import doubtful_names


@dataclass(frozen=True)
class ExportSummary:
    """What a bundle holds."""

    runs: int
    plans: int
    certificates: int
    machines: tuple[Machine, ...]
    bytes: int
    digest: str
    doubtful: tuple[str, ...]  # words in commands that may come with a secret
    variables: tuple[str, ...] = ()  # that runs have kept; their values may be anything


def export_bundle(store: Store, wanted: BundleRequest, path: Path) -> ExportSummary:
    """Check everything as if it came from elsewhere, then write it whole or not at all."""
    check_place(path, "bundle.zip")
    selection = select(store, wanted)
    runs, plans = _checked(selection)
    proven = certificates_of(store, runs)
    with replacing(path) as scratch:
        manifest = _write(scratch, _files(selection, proven))
        written = scratch.stat().st_size
    return ExportSummary(
        runs=len(runs),
        plans=len(selection.plans),
        certificates=len(proven),
        machines=tuple({run.machine.id: run.machine for run in runs}.values()),
        bytes=written,
        digest=digest(manifest),
        doubtful=tuple(doubtful_names(_words(runs, plans))),
        variables=tuple(_unknown(runs)),
    )


def _unknown(runs: Iterable[RunRecord]) -> list[str]:
    """Variables that are not known to be harmless, by name."""
    kept = ((name, value) for run in runs for name, value in run.environment.items())
    return sorted({name for name, value in kept if not harmless(name, value)})


def _words(runs: Iterable[RunRecord], plans: Iterable[PlanRecord]) -> list[str]:
    """All that was typed and goes with them: a plan has the commands of its other cells, too."""
    cells = [*(run.cell for run in runs), *(cell for plan in plans for cell in plan.cells)]
    given = [word for cell in cells if cell.command for word in cell.command.arguments]
    return [*given, *(plan.command for plan in plans)]


def _checked(selection: BundleContents) -> tuple[list[RunRecord], list[PlanRecord]]:
    """What `import` would refuse is refused here, where it can be put right."""
    for folder in selection.runs:
        _check_sizes(folder)
    try:
        with refusing_unfit("its records cannot be read"):
            _check_names(selection)
            runs = [check_run(folder) for folder in selection.runs]
            plans = [check_plan(content, plan_id) for plan_id, content in selection.plans.items()]
            check_agreement(plans, runs)
    except BundleError as reason:
        raise UserError(f"Cannot export this: {reason}; nothing was written.") from None
    for run in runs:
        for name in filter(may_be_secret, _unknown([run])):
            raise UserError(
                f"Run {run.id} has kept the variable {name}, which may be a secret; "
                "take it out of the run's run.json to export the run."
            )
    return runs, plans


def _check_names(selection: BundleContents) -> None:
    """A bundle has only names of the form that Paceline gives."""
    runs = [f"{RUN_FOLDER}/{folder.name}/{RUN_FILE}" for folder in selection.runs]
    for name in (*runs, *map(_plan_name, selection.plans)):
        if not NAME.fullmatch(name):
            raise BundleError(f"{name} has a name that Paceline did not give it")


def _plan_name(plan_id: str) -> str:
    return f"{PLAN_FOLDER}/{plan_id}.json"


def _files(selection: BundleContents, proven: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Names in the bundle and contents, in order of the names."""
    for plan_id, content in sorted(selection.plans.items()):
        yield _plan_name(plan_id), content
    for folder in sorted(selection.runs):
        for name, path in _of_run(folder):
            yield name, read_plain(path, most_bytes(path.name))
    for name, content in sorted(proven.items()):
        yield f"{certificates.FOLDER}/{name}.json", content


def _of_run(folder: Path) -> list[tuple[str, Path]]:
    """Names in the bundle; a framework may have left files of its own, which are not taken."""
    names = {
        f"{RUN_FOLDER}/{folder.name}/{path.name}": path for path in (folder.iterdir() if is_own_folder(folder) else ())
    }
    return [(name, path) for name, path in sorted(names.items()) if NAME.fullmatch(name) and is_plain(path)]


def _check_sizes(folder: Path) -> None:
    for _, path in _of_run(folder):
        size, most = path.stat().st_size, most_bytes(path.name)
        if size > most:
            raise UserError(f"{path} has {size:,} bytes, more than the {most:,} that a bundle takes of such a file.")


def _write(path: Path, files: Iterator[tuple[str, bytes]]) -> bytes:
    """The zip, and last in it the list of all files, which is returned."""
    entries: list[ManifestEntry] = []
    total = 0
    with zipfile.ZipFile(path, "w") as bundle:
        for name, content in files:
            archive.add(bundle, name, content)
            entries.append(entry(name, content))
            total += len(content)
            if total > TOTAL_BYTES or len(entries) >= FILES:
                raise UserError(
                    f"These results have more than {TOTAL_BYTES:,} bytes or {FILES:,} files; export them in parts."
                )
        check_events({entry.name: entry.bytes for entry in entries})
        manifest = Manifest(paceline_version=version("paceline"), files=tuple(entries))
        listed = msgspec.json.format(msgspec.json.encode(manifest))
        archive.add(bundle, MANIFEST_FILE, listed)
    return listed
