"""The versions of everything that is written to last; what a newer Paceline wrote is refused in one line.

Raise a version when an older program would misread what is written. A field that an older program may pass over, and
that has a default where it is missing, needs none: older files are always read. What names no version is of the first.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from paceline.system.errors import UserError
from paceline_worker.protocol import JOB_FORMAT

RUN_RECORD, PLAN, JOB, BUNDLE, IMPORT, INDEX = "run record", "plan", "job", "bundle", "import record", "index"
VERSIONS = {
    RUN_RECORD: 1,  # run.json
    PLAN: 1,  # plans/*.json
    JOB: JOB_FORMAT,  # job.json; the worker half checks it, too, and cannot import this
    BUNDLE: 1,  # its manifest
    IMPORT: 1,  # imported/*.json
    INDEX: 3,  # index.sqlite; raised with the version of what it is made from, so that what was left out comes in
}
Record = TypeVar("Record", bound=msgspec.Struct)


class NewerError(UserError):
    """Something was written by a Paceline that came after this one."""


class Versioned(msgspec.Struct, frozen=True):
    """All that is asked of a record before its version is known."""

    format: Annotated[int, msgspec.Meta(ge=1)] = 1


def check_version(kind: str, found: int, where: object, cure: str = "upgrade Paceline") -> None:
    if found > VERSIONS[kind]:
        versions = f"{kind} version {found}; this one reads up to {VERSIONS[kind]}"
        raise NewerError(f"{where} was written by a newer Paceline ({versions}): {cure}.")


def decode_versioned(content: bytes, as_type: type[Record], kind: str, where: object) -> Record:
    """A record of which nothing but the version is believed before that is known to be readable."""
    check_version(kind, msgspec.json.decode(content, type=Versioned).format, where)
    return msgspec.json.decode(content, type=as_type)
