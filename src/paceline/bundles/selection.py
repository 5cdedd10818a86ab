"""Which results go into a bundle: runs, the plans that make a table of them, and the certificates that concern them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from paceline.analysis.rows.selection import shown_plan
from paceline.bundles.record_checks import concerns
from paceline.store import certificates
from paceline.store.records.certificate import Certificate
from paceline.store.records.runs import OUTCOME_FILE, PLAN_FOLDER, RUN_FOLDER, PlanRecord, RunRecord
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.files.regular_files import read_plain
from paceline.system.hashing import short_key, without_defaults
from paceline.system.text.safe_text import quoted

RUNS_OF_PLAN = "SELECT DISTINCT run_id FROM plan_result WHERE plan_id = ? AND run_id IS NOT NULL ORDER BY run_id"
# For each run the last plan that has it; or that wants such a run, if another has taken its place in all of them.
REFERRING = """
SELECT run.id AS run_id, run.key,
       COALESCE(MAX(plan_id) FILTER (WHERE plan_result.run_id = run.id), MAX(plan_id)) AS plan_id
FROM run JOIN plan_result USING (key)
WHERE run.id IN (SELECT value FROM json_each(?)) GROUP BY run.id ORDER BY run.id
"""


@dataclass(frozen=True)
class BundleRequest:
    """What the command line asks for; nothing is the newest plan."""

    runs: Sequence[str] = ()
    suite: str | None = None
    plan: str | None = None
    everything: bool = False


@dataclass(frozen=True)
class BundleContents:
    runs: tuple[Path, ...]  # their folders
    plans: dict[str, bytes]  # by id, as they are written


def select(store: Store, wanted: BundleRequest) -> BundleContents:
    if sum(map(bool, (wanted.runs, wanted.suite, wanted.plan, wanted.everything))) > 1:
        raise UserError("Give runs, --suite, --plan or --all, not several of them.")
    plans = [(row["id"], row["suite"]) for row in store.query("SELECT id, suite FROM plan ORDER BY id")]
    if not plans and not store.query("SELECT 1 FROM run LIMIT 1"):
        raise UserError(f"There are no results at {store.folder}; `paceline run cifar10-conv` makes some.")
    if wanted.everything:
        return _all(store)
    if wanted.runs:
        return _chosen_runs(store, [store.find_run(text) for text in wanted.runs])
    return _whole_plan(store, _named_plan(plans, wanted.plan) if wanted.plan else _newest_plan(store, wanted.suite))


def _all(store: Store) -> BundleContents:
    folders = sorted(path.parent for path in (store.folder / RUN_FOLDER).glob(f"*/{OUTCOME_FILE}"))
    plans = {path.stem: read_plain(path) for path in (store.folder / PLAN_FOLDER).glob("*.json")}
    return BundleContents(tuple(folders), plans)


def _named_plan(plans: Sequence[tuple[str, str]], text: str) -> str:
    found = [name for name, _ in plans if name.startswith(text) or name.endswith(text)]
    if len(found) != 1:
        problem = "No plan is" if not found else f"{len(found)} plans are"
        newest = ", ".join(name for name, _ in plans[-3:]) or "none"
        raise UserError(f"{problem} named {quoted(text)}; the newest are {newest}.")
    return found[0]


def _newest_plan(store: Store, wanted: str | None) -> str:
    """The one whose table `paceline show` prints."""
    found = shown_plan(store, {"suite": wanted})
    if not found:
        suites = store.query("SELECT suite FROM plan WHERE suite != '' GROUP BY suite ORDER BY MAX(id) DESC")
        known = ", ".join(row["suite"] for row in suites) or "none"
        of_it = f" of suite {quoted(wanted)}" if wanted else ""
        raise UserError(f"There is no plan{of_it}; suites with results: {known}.")
    return str(found[0]["id"])


def _whole_plan(store: Store, plan_id: str) -> BundleContents:
    """A plan as it is, skipped cells included, with every run of its table."""
    ids = [row["run_id"] for row in store.query(RUNS_OF_PLAN, plan_id)]
    folders = tuple(store.folder / RUN_FOLDER / run_id for run_id in ids)
    return BundleContents(folders, {plan_id: read_plain(_plan_path(store, plan_id))})


def _chosen_runs(store: Store, folders: Sequence[Path]) -> BundleContents:
    """These runs alone, and of their newest plans what shows them."""
    for folder in folders:
        if not (folder / OUTCOME_FILE).exists():
            raise UserError(f"Run {folder.name} has not come to an end, so there is nothing to export yet.")
    keys: dict[str, set[str]] = {}
    for row in store.query(REFERRING, json.dumps([folder.name for folder in folders])):
        keys.setdefault(row["plan_id"], set()).add(row["key"])
    plans = [_cut(read_plain(_plan_path(store, plan_id)), wanted) for plan_id, wanted in keys.items()]
    return BundleContents(tuple(sorted(set(folders))), dict(plans))


def _plan_path(store: Store, plan_id: str) -> Path:
    return store.folder / PLAN_FOLDER / f"{plan_id}.json"


def _cut(content: bytes, wanted: set[str]) -> tuple[str, bytes]:
    """The plan with nothing but these runs: elsewhere its other cells would look as if they had never been run.

    What is cut has an id of its own, made from its content, so that it never stands for the whole plan; and a little
    older, so that the whole plan goes before it where both are.
    """
    plan = msgspec.json.decode(content, type=PlanRecord)
    kept = [
        (cell, tuple(key for key in keys if key in wanted))
        for cell, keys in zip(plan.cells, plan.keys, strict=True)
        if wanted & set(keys)
    ]
    cells, keys = tuple(cell for cell, _ in kept), tuple(keys for _, keys in kept)
    if (cells, keys) == (plan.cells, plan.keys):
        return plan.id, content
    smaller = msgspec.structs.replace(plan, cells=cells, keys=keys, reasons=(None,) * len(cells))
    mark = short_key(without_defaults(smaller), 6)
    day, second, *_ = plan.id.split("-")
    name = f"{day}-{second}-000000-{mark}"
    return name, msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(smaller, id=name)))


def certificates_of(store: Store, runs: Iterable[RunRecord]) -> dict[str, bytes]:
    """About what these runs trained, by the names that they have in any store but that of their machine."""
    known = list(runs)
    found = [one for one in certificates.load(store.folder) if any(concerns(one, run) for run in known)]
    return {certificate_name(one): msgspec.json.format(msgspec.json.encode(one)) for one in found}


def subject(certificate: Certificate) -> tuple[str, ...]:
    """What it is about; two certificates about the same are two tries."""
    what = (certificate.workload, certificate.framework, certificate.setting)
    return (*what, certificate.version, certificate.fingerprint, certificate.worker_code, certificate.machine)


def certificate_name(certificate: Certificate) -> str:
    """Never that of a certificate of this machine's own."""
    said = f"{certificate.workload}_{certificate.framework}_{certificate.setting}"
    words = re.sub(r"[^\w+-]", "_", said, flags=re.ASCII)
    mark = short_key(subject(certificate), 12)
    return f"{words[:100]}_{mark}"
