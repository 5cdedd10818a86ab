"""Commands that are compared by their names: both sides must have one of a name, and only one."""

from __future__ import annotations

from paceline.analysis.comparison.selections import CellRuns, Side
from paceline.system.errors import UserError
from paceline.system.text.safe_text import printable, shortened

MOST_LETTERS = 80  # of a command in a message


def check_names(old: Side, new: Side) -> None:
    """Report a mistake before anything is compared under a name that means something else."""
    for side in (old, new):
        if not names(side):
            raise UserError(f"--by-name compares commands that `paceline time` measured; {side.name} has none.")
    common = [cell for cell in old.cells if cell.command and cell in new.cells]
    if not common:
        listed = [", ".join(names(side)) for side in (old, new)]
        raise UserError(
            f"{old.name} and {new.name} have no command of the same name on the same devices: "
            f"{listed[0]} against {listed[1]}; `paceline time --name` gives names."
        )
    for cell in common:
        for side in (old, new):
            _check_one_meaning(side, side.cells[cell])


def names(side: Side) -> list[str]:
    return list(dict.fromkeys(f"{cell.framework} ({cell.devices})" for cell in side.cells if cell.command))


def _check_one_meaning(side: Side, runs: CellRuns) -> None:
    if len(runs.commands) > 1:
        meant = "; ".join(shortened(printable(line), MOST_LETTERS) for line in sorted(runs.commands)[:2])
        raise UserError(
            f"{len(runs.commands)} commands of {side.name} are named {runs.cell.framework!r}, such as {meant}; "
            f"choose one plan of --store, such as plan:{runs.plan_id}."
        )
