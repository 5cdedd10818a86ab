"""Tables of commands that were measured from outside, in the shape of the published runs."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from paceline.analysis.quantities.known import IDLE_MEMORY, MEMORY, SPEED, TEST_ACCURACY
from paceline.analysis.rows.command_rows import CommandRow
from paceline.analysis.rows.labels import where
from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.tables.columns import Column, accuracy, interval, memory
from paceline.system.text.formatting import NOTHING, number
from paceline.system.text.safe_text import printable

FAILED = "N/A"
LOG_LINES = 8  # of a failed command; `paceline log` prints all
SHOWN = ("images/s", "accuracy")  # metrics with a column of their own


def _of(row: Row) -> CommandRow:
    if row.command is None:
        raise TypeError(f"{row.cell.framework} is no command")
    return row.command


def _or_failed(row: Row, text: str) -> str:
    """As published tables have it: a dash is what was not asked for, N/A what a failure has prevented."""
    return FAILED if text == NOTHING and row.status == "failed" and not row.repeats else text


def _median(value: Estimate | None) -> str:
    return number(value.median if value else None)


COMMAND_COLUMNS = (
    Column("command", lambda row: row.cell.framework, number=False),
    Column("devices", where, number=False, stacked="de-\nvices"),
    Column("real s", lambda row: _or_failed(row, _median(_of(row).real_seconds)), stacked="real\ns"),
    Column("95 % interval", lambda row: interval(_of(row).real_seconds), stacked="95 %\ninterval"),
    Column("user s", lambda row: _or_failed(row, number(_of(row).user_seconds)), stacked="user\ns"),
    Column("sys s", lambda row: _or_failed(row, number(_of(row).system_seconds)), stacked="sys\ns"),
    Column("MiB", lambda row: _or_failed(row, memory(row))),
    Column("images/s", lambda row: _or_failed(row, _median(row.estimate(SPEED))), stacked="images\n/s"),
    Column("accuracy", lambda row: _or_failed(row, accuracy(row.estimate(TEST_ACCURACY))), stacked="accu-\nracy"),
    Column("status", lambda row: row.status, number=False),
)


def command_remarks(rows: Iterable[Row]) -> list[str]:
    """What else the output said, and what must be known about single numbers."""
    found = []
    for row in rows:
        command, name = _of(row), f"{row.cell.framework} {row.cell.devices}"
        others = [f"{key} {value:.6g}" for key, value in command.readings.items() if key not in SHOWN]
        found += [f"{name} printed: {', '.join(others)}"] if others else []
        found += [f"{name}: not found in its output: {', '.join(command.missing)}"] if command.missing else []
        if command.times_sampled:
            found.append(
                f"{name}: nobody waited for some of its processes, so user s and sys s are as sampled, or more"
            )
        if command.left_behind:
            found.append(f"{name} left processes behind, which were ended: {command.left_behind}")
    return found


def command_blocks(rows: Iterable[Row]) -> list[str]:
    """For each command what was typed and what came of it, as the log of the published runs has it."""
    lines: list[str] = []
    for row in rows:
        lines += [f"{row.cell.framework} ({row.cell.devices})", f"  $ {printable(_of(row).line)}"]
        lines += [f"  {line}" for line in (_used(row) if row.repeats else _kept_error(row))]
    return lines


def _used(row: Row) -> list[str]:
    command = _of(row)
    times = (_median(command.real_seconds), number(command.user_seconds), number(command.system_seconds))
    devices = zip(row.of_each(MEMORY), row.of_each(IDLE_MEMORY), strict=True)
    peak = " + ".join(f"({used + idle:,.0f} - {idle:,.0f}) MiB" for used, idle in devices)
    return ["real {} s, user {} s, sys {} s".format(*times), f"peak memory {peak}"]


def _kept_error(row: Row) -> list[str]:
    if row.status != "failed":
        return [row.status]
    end = (row.log_end or "").splitlines()[-LOG_LINES:]
    return [f"{FAILED} ({printable(row.reason or '')})", *(f"| {printable(line)}" for line in end)]


def flat_command(row: Row) -> dict[str, object]:
    """Its fields as columns of a CSV file; empty for what is no command."""
    fields = msgspec.structs.fields(CommandRow)
    values = msgspec.to_builtins(row.command) if row.command else {field.name: None for field in fields}
    real = values.pop("real_seconds") or {}
    values["readings"] = " ".join(f"{name}={value:g}" for name, value in (values["readings"] or {}).items())
    values["missing"] = " ".join(values["missing"] or ())
    split = {f"real_seconds_{part}": real.get(part) for part in ("median", "low", "high")}
    return {"command": values.pop("line"), **{f"command_{name}": value for name, value in {**values, **split}.items()}}


COMMAND_FOOTNOTE = (
    "real, user, sys: seconds of a whole command and all its processes, median of fresh processes with its "
    "95 % interval. MiB: peak minus idle; on a CPU of all its processes together (the kernel's peak of the largest "
    "one, or the largest sum of two samples a second), on each GPU as the driver tells. "
    "images/s, accuracy: as the command printed them."
)
