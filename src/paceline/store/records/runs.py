"""What is written about plans and runs, next to the worker's own files."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from paceline.plan.cell import Cell
from paceline.plan.external.command import CommandCode
from paceline.system.format_versions import PLAN, RUN_RECORD, VERSIONS
from paceline.system.machine.hardware import Machine

FOLDERS = ("runs", "plans", "verified", "imported")  # of a store
RUN_FOLDER, PLAN_FOLDER, CERTIFICATE_FOLDER, IMPORT_FOLDER = FOLDERS
RUN_FILE, OUTCOME_FILE = "run.json", "outcome.json"
UNREADABLE = (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # a record that is gone or damaged


class PlanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a `run` command was going to measure, skipped cells included."""

    format: int = VERSIONS[PLAN]
    id: str
    suite: str
    command: str
    cells: tuple[Cell, ...]
    reasons: tuple[str | None, ...]  # for each cell: why it is skipped
    keys: tuple[tuple[str, ...], ...]  # for each cell: the runs it wants
    settings: dict[str, Any]  # the suite, also one whose keys another version has dropped
    older_runs: Annotated[str, msgspec.Meta(pattern="^(none|ok|all)$")] = "all"  # from before it that count as done


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known about a run before it starts; with the job, enough to do it again."""

    format: int = VERSIONS[RUN_RECORD]
    id: str
    key: str
    cell: Cell
    repeat: int
    shares: tuple[int, ...] = ()  # images of a step on each device
    machine: Machine
    packages: dict[str, str]
    framework_version: str
    fingerprint: str
    python_version: str
    paceline_version: str
    worker_code: str
    data_checksum: str = ""  # of real images
    code: CommandCode | None = None  # of a command
    commands: tuple[tuple[str, ...], ...] = ()
    environment: dict[str, str] = {}
    started: float


def cell_id(cell: Cell) -> str:
    """The cell's settings as text: equal settings, equal text."""
    return msgspec.json.encode(cell, order="sorted").decode()
