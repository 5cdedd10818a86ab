"""The command that measures a cell of a table once more."""

from __future__ import annotations

import shlex

from paceline.analysis.rows.row import Row


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
    flags = {
        "framework": row.cell.framework,
        "devices": row.cell.devices,
        **_batch(row),
        "data": row.cell.data,
        "input": row.cell.input,
        "steps": str(row.cell.steps),
        "update": row.cell.update,
        "parameter-device": row.cell.parameter_device,
        "lr": repr(row.cell.learning_rate),
        "seed": str(row.cell.seed),
        "precision": row.cell.precision,
        "cores-per-device": str(row.cores_per_device),
        "slow": ",".join(f"{device}:{times:g}" for device, times in enumerate(row.cell.slow) if times > 1),
        "single": "wrapped" if row.cell.wrapped else "",
        "warmup": str(row.cell.warmup),
        "evaluate": row.cell.evaluate,
    }
    given = [word for name, value in flags.items() if value for word in (f"--{name}", value)]
    return shlex.join(["paceline", "run", row.cell.workload, *given])


def _batch(row: Row) -> dict[str, str]:
    """Its size as it was given, and the images of each device where they differ."""
    shares = ":".join(map(str, row.shares)) if len(set(row.shares)) > 1 else ""
    if row.cell.scaling == "weak":
        return {"batch-per-device": str(row.cell.batch_size // row.device_count), "shares": shares}
    return {"batch-size": str(row.cell.batch_size), "shares": shares}
