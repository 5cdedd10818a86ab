"""One line about cells that a machine cannot measure, with what would run here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.plan.devices import check_present, missing_gpus
from paceline.plan.planning import Plan
from paceline.system.machine.hardware import Machine
from paceline.system.text.safe_text import shortened

MOST_REASONS = 3
SMALL_FORM = "add --quick for this suite's small form, which runs on CPUs"


def check_wanted(plan: Plan, machine: Machine, flags: Mapping[str, Any]) -> None:
    """Refuse devices from the command line of which none is here; a suite is written for many machines."""
    if "devices" in flags and all(missing_gpus(cell.device_set, machine) for cell in plan.cells):
        check_present(plan.cells[0].device_set, machine)


def skip_summary(plan: Plan, machine: Machine, *, small_form: bool) -> str:
    """A line for the user; empty where something runs and no other form of the suite would run more."""
    without_gpus = not machine.gpus and any(cell.device_set.kind == "cuda" for cell in plan.cells)
    advice = f"; {SMALL_FORM}" if without_gpus and small_form else ""
    if len(plan.skips) < len(plan.cells):
        return f"paceline: cells that need GPUs are skipped{advice}" if advice else ""
    cells = "the only cell is" if len(plan.cells) == 1 else f"all {len(plan.cells)} cells are"
    return f"paceline: nothing to measure, {cells} skipped: {_reasons(plan, machine)}{advice}"


def _reasons(plan: Plan, machine: Machine) -> str:
    """One for all cards where there is none."""
    without = set() if machine.gpus else {skip for skip in plan.skips if missing_gpus(skip.cell.device_set, machine)}
    reasons = list(dict.fromkeys("this machine has no GPU" if skip in without else skip.reason for skip in plan.skips))
    more = [f"and {len(reasons) - MOST_REASONS} more reasons"] if len(reasons) > MOST_REASONS else []
    return "; ".join([*(shortened(reason, 200) for reason in reasons[:MOST_REASONS]), *more])
