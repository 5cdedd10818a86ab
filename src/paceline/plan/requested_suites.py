"""From what the user names to a suite and its plan on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.plan.planning import Plan, make_plan
from paceline.plan.settings import Suite
from paceline.plan.skipping import check_wanted
from paceline.plan.suite import known_suites, load_suite, make_suite
from paceline.system.errors import UserError
from paceline.system.machine.hardware import this_machine


def read_suite(what: Sequence[str], settings: Mapping[str, Any]) -> Suite:
    """A suite by its name or file, or workloads, with the flags on top."""
    if suites := suite_files(what):
        return load_suite(suites[0], settings)
    if "quick" in settings:
        raise UserError(f"--quick is for suites: {', '.join(known_suites())}.")
    return make_suite({"workload": [part for name in what for part in name.split(",")], **settings}, "the command line")


def suite_files(what: Sequence[str]) -> list[Path]:
    """The one that is named, if it is no workload."""
    named = known_suites()
    suites = [named.get(name, Path(name)) for name in what if name in named or name.endswith(".toml")]
    if suites and len(what) > 1:
        raise UserError(f"Give workloads or one suite, not both: {' '.join(what)}.")
    return suites


def plan_of(what: Sequence[str], settings: Mapping[str, Any]) -> Plan:
    """For this machine, which must have some of the devices that flags ask for."""
    plan = make_plan(read_suite(what, settings), this_machine())
    check_wanted(plan, this_machine(), settings)
    return plan
