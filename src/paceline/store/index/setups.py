"""What runs ran with, other than the settings of their cells: the index keeps it once for all that are alike."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from paceline.plan.external.command import CommandCode, ExternalCommand
from paceline.store.records.runs import RunRecord
from paceline.system.files.regular_files import read_plain
from paceline.system.hashing import network_facts, short_key
from paceline.system.machine.hardware import Machine
from paceline_worker.graph import Graph
from paceline_worker.protocol import JOB_FILE, Job

OWN_VARIABLES = (  # other in every run, or a place on the disk
    *("PACELINE_RUN", "MASTER_PORT", "PYTHONPATH", "HOME", "USER", "TMPDIR"),  # not PATH: it chooses programs
)


class JobSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker was given that no cell has: the same names may stand for another network tomorrow."""

    network: str  # hashes
    pipeline: str
    recipe: dict[str, Any]
    block_steps: int
    epoch_images: int


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Of a run, without what every run has of its own."""

    machine: Machine
    packages: dict[str, str]
    framework_version: str
    fingerprint: str
    python_version: str
    paceline_version: str
    worker_code: str
    data_checksum: str
    environment: dict[str, str]
    shares: tuple[int, ...]
    cores: tuple[tuple[int, ...], ...]
    oversubscribed: bool
    command: ExternalCommand | None
    code: CommandCode | None
    job: JobSetup | None  # None for a command, and where the job is gone or damaged

    @property
    def id(self) -> str:
        return short_key(self)


def setup_of(record: RunRecord, folder: Path) -> Setup:
    """From the record of a run and the job in its folder."""
    cell = record.cell
    return Setup(
        machine=record.machine,
        packages=record.packages,
        framework_version=record.framework_version,
        fingerprint=record.fingerprint,
        python_version=record.python_version,
        paceline_version=record.paceline_version,
        worker_code=record.worker_code,
        data_checksum=record.data_checksum,
        environment={name: value for name, value in record.environment.items() if name not in OWN_VARIABLES},
        shares=record.shares,
        cores=cell.cores,
        oversubscribed=cell.oversubscribed,
        command=cell.command,
        code=record.code,
        job=None if cell.command else _job_setup(folder),
    )


def _job_setup(folder: Path) -> JobSetup | None:
    try:
        job = Job.from_json(json.loads(read_plain(folder / JOB_FILE)))
        facts = {
            "network": _network(json.dumps(job.graph), job.classes),
            "pipeline": short_key(job.pipeline, 12),
            "recipe": asdict(job.recipe),
            "block_steps": job.block_steps,
            "epoch_images": job.epoch_images,
        }
        return msgspec.json.decode(msgspec.json.encode(facts), type=JobSetup)  # as it will be read from the index
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None  # `replay` rebuilds such a job from its cell


@lru_cache(maxsize=64)  # a store has many runs of few networks
def _network(graph: str, classes: int) -> str:
    """Its hash; of one with operations that this version does not know, as its file has it."""
    facts = json.loads(graph)
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        facts = network_facts(Graph.from_json(facts))
    return short_key((facts, classes), 12)
