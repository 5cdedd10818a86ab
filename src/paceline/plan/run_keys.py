"""The key of a run: the same whenever the same thing would be measured again."""

from __future__ import annotations

from msgspec.structs import replace

from paceline.catalog.frameworks import Framework, find
from paceline.catalog.workloads import fingerprint
from paceline.environments import virtual_environments
from paceline.environments.source_normalization import requirement_lines
from paceline.environments.worker_code import code_hash
from paceline.plan.cell import Cell
from paceline.system.hashing import short_key, without_defaults
from paceline.system.machine.hardware import Machine

KEY_VERSION = 2  # the first one hashed defaults, too


# What a framework offers decides which cells are skipped, not how one is measured.
OFFERS = {
    *("title", "package", "devices", "max_devices", "updates", "unequal_shares", "wrapper", "exchange", "data"),
    *("precisions", "modes", "provided", "hidden"),
}


def run_key(cell: Cell, repeat: int, machine: Machine) -> str:
    """Names what is measured: cell, repeat, network, recipe, the framework and its pins, machine and measuring code."""
    framework = find(cell.framework).framework
    brought = virtual_environments.brought(framework)
    what = (without_defaults(cell), repeat, fingerprint(cell.workload, cell.input))
    by_what = (
        start_of(framework, cell.device_set.kind),
        brought and brought.fingerprint,
        code_hash(framework.name),
        machine.id,
    )
    return short_key((KEY_VERSION, what, by_what))


def start_of(framework: Framework, kind: str) -> dict[str, object]:
    """What its workers are started with on this kind of devices, without defaults and what pip passes over."""
    facts = without_defaults(replace(framework, requirements=requirement_lines(framework.requirements)))
    without = OFFERS if kind == "cuda" else OFFERS | {"cuda_requirements"}
    return {name: value for name, value in facts.items() if name not in without}
