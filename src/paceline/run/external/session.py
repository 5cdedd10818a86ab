"""Carries out one run of a command that is not ours."""

from __future__ import annotations

import os

import msgspec
from msgspec.structs import replace

from paceline.plan.external.command import ExternalCommand
from paceline.plan.planning import Run
from paceline.run.external.process import CommandProcesses
from paceline.run.external.script_identity import code_of
from paceline.store.index.command_usage import FILE
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import RunRecord
from paceline.store.shown_variables import harmless
from paceline.store.store import Store

NOT_KEPT = ("PACELINE_RUN", "PYTHONPATH")  # set by Paceline itself, or a place on the disk


def carry_out(run: Run, command: ExternalCommand, store: Store, record: RunRecord, *, echo: bool) -> Outcome:
    """Complete its record, see it to its end and keep what it has used."""
    folder = store.run_folder(record.id)
    store.describe_run(folder, described(record, command))
    process = CommandProcesses(command, folder, run.timeout_seconds, echo=echo, gpus=run.cell.device_set.gpus)
    outcome = process.carry_out()
    if usage := process.usage():
        (folder / FILE).write_bytes(msgspec.json.encode(usage))
    return outcome


def described(record: RunRecord, command: ExternalCommand) -> RunRecord:
    """With all that is known before it starts."""
    return replace(
        record,
        code=code_of(command),
        commands=(command.arguments,),
        environment={name: value for name, value in os.environ.items() if _kept(name, value)},
    )


def _kept(variable: str, value: str) -> bool:
    """What changes how frameworks compute and is known to be harmless; others may be secrets."""
    return harmless(variable, value) and variable not in NOT_KEPT
