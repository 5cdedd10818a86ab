"""The key of a run: the same whenever the same thing would be measured again."""

from __future__ import annotations

from msgspec.structs import replace

from paceline import environments
from paceline.cell import Cell
from paceline.code_meaning import requirement_lines
from paceline.frameworks import Framework, find
from paceline.keys import short_key, without_defaults
from paceline.machine import Machine
from paceline.worker_code import code_hash
from paceline.workloads import fingerprint

KEY_VERSION = 2  # the first one hashed defaults, too


def run_key(cell: Cell, repeat: int, machine: Machine) -> str:
    """Names what is measured: cell, repeat, network, recipe, the framework and its pins, machine and measuring code."""
    framework = find(cell.framework).framework
    brought = environments.brought(framework)
    what = (without_defaults(cell), repeat, fingerprint(cell.workload, cell.input))
    by_what = (registration(framework), brought and brought.fingerprint, code_hash(framework.name), machine.id)
    return short_key((KEY_VERSION, what, by_what))


def registration(framework: Framework) -> object:
    """What is said of it, without defaults and what pip passes over."""
    return without_defaults(replace(framework, requirements=requirement_lines(framework.requirements)))
