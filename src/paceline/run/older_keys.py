"""Keys of the first version: under which a store from before the second has what would be measured again.

An old run counts as the same if today's facts make its very key by the rule of then: the settings of its cell, network,
recipe, the facts of its framework, environment and machine, and measuring code that trains the same (`older_code`).
Fields that came later must be at their defaults. Other old runs are not resumed; they stay readable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache

import msgspec

from paceline.catalog.frameworks import Framework, find
from paceline.catalog.workloads import known_workload
from paceline.environments import virtual_environments
from paceline.environments.older_code_hashes import older_code_hash
from paceline.plan.cell import Cell
from paceline.plan.planning import Plan, Run
from paceline.store.store import Store
from paceline.system.hashing import short_key, without_defaults
from paceline.system.machine.hardware import Machine, this_machine

FIELDS: Mapping[type[msgspec.Struct], tuple[str, ...]] = {  # as they were then
    Cell: (
        *("workload", "framework", "devices", "update", "data", "precision", "batch_size", "scaling", "steps"),
        *("warmup", "learning_rate", "seed", "cores", "oversubscribed", "input", "evaluate", "parameter_device"),
        *("shares", "slow", "wrapped", "command"),
    ),
    Framework: (
        *("name", "title", "package", "devices", "max_devices", "updates", "unequal_shares", "wrapper"),
        *("data", "precisions", "processes", "launcher", "requirements", "cuda_requirements", "modes"),
        *("environment", "provided", "hidden"),
    ),
}


def with_older_results(plan: Plan, store: Store, older_runs: str) -> Plan:
    """The plan with the older key of every run that is stored under that one alone; `older_runs` as in its record."""
    known = set() if older_runs == "none" else store.done(count_failed=older_runs == "all")
    if not known:
        return plan
    machine = this_machine()

    def found(run: Run) -> Run:
        return replace(run, key=stored_key(run.key, lambda: older_run_key(run.cell, run.repeat, machine), known))

    return replace(plan, runs=tuple(map(found, plan.runs)))


def stored_key(key: str, older: Callable[[], str], known: Collection[str]) -> str:
    """The older one if nothing but that is known."""
    if key in known:
        return key
    return former if (former := older()) in known else key


def older_run_key(cell: Cell, repeat: int, machine: Machine) -> str:
    """The key that the run had then; empty if there was no such run."""
    framework = find(cell.framework).framework
    brought = virtual_environments.brought(framework)
    settings, registration = _as_then(cell), _as_then(framework)
    code = older_code_hash(framework.name)
    if settings is None or registration is None or not code:
        return ""
    what = (settings, repeat, older_fingerprint(cell.workload))
    by_what = (registration, brought and brought.fingerprint, code, machine.older_id)
    return short_key((what, by_what))


def older_ablation_key(whole: str, ablation: str) -> str:
    """Of what `explain` measured, from the older keys of both."""
    return hashlib.sha256(f"{whole} {ablation}".encode()).hexdigest()[:16] if whole and ablation else ""


def _as_then(value: msgspec.Struct) -> dict[str, object] | None:
    """With its defaults; None if it says something that could not be said then."""
    names = FIELDS[type(value)]
    if not without_defaults(value).keys() <= set(names):
        return None
    return {name: msgspec.to_builtins(getattr(value, name)) for name in names}


@cache
def older_fingerprint(name: str) -> str:
    """Operations and recipe belong to the worker half: with a field more, its code is not that of then anyway."""
    workload = known_workload(name)
    pipelines = {name: pipeline.to_json() for name, pipeline in workload.pipelines.items()}
    facts = (workload.graph().to_json(), workload.classes, msgspec.to_builtins(workload.recipe), pipelines)
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:12]
