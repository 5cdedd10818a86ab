"""The command that measures a cell of a table once more."""

from __future__ import annotations

import shlex

from paceline.analysis.rows.row import Row
from paceline.plan.cell_flags import run_command

SETTINGS = (
    *("framework", "devices", "batch_per_device", "batch_size", "shares", "data", "input", "steps", "update"),
    *("parameter_device", "lr", "seed", "precision", "cores_per_device", "slow", "single", "warmup", "evaluate"),
)


def once_more(row: Row) -> str:
    """As many runs as there are; a command that has run is replayed, which also knows its folder and its metrics."""
    repeats = ["--repeats", str(len(row.runs) or 1)]
    if row.command is None:
        return f"{command_line(row)} {shlex.join(repeats)} --again"
    if row.runs:
        return shlex.join(["paceline", "replay", row.runs[0], *repeats])
    named = ["--name", row.cell.framework, "--devices", row.cell.devices]
    return f"{shlex.join(['paceline', 'time', *repeats, *named])} -- {row.command.line}"


def command_line(row: Row) -> str:
    """`paceline run` with flags that make this one cell on the same machine."""
    shares = ":".join(map(str, row.shares)) if len(set(row.shares)) > 1 else ""  # images of each device
    others = {"shares": shares, "cores_per_device": str(row.cores_per_device)}
    return shlex.join(run_command(row.cell, SETTINGS, others))
