"""Which runs of a store were imported from elsewhere."""

from __future__ import annotations

from pathlib import Path

import msgspec

from paceline.store.records.runs import IMPORT_FOLDER, UNREADABLE
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.files.regular_files import read_plain
from paceline.system.format_versions import IMPORT, VERSIONS, decode_versioned
from paceline.system.text.safe_text import one_line


class ImportRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was new in a bundle."""

    format: int = VERSIONS[IMPORT]
    bundle: str  # names its content
    time: float  # seconds since 1970
    runs: tuple[str, ...]


def came_from_elsewhere(store: Store, run_id: str) -> bool:
    """Whether a run was imported here."""
    return run_id in imported_runs(store)


def imported_runs(store: Store) -> set[str]:
    """All that came from elsewhere."""
    store.check_place()
    return {run for note in sorted((store.folder / IMPORT_FOLDER).glob("*.json")) for run in _note(note).runs}


def _note(path: Path) -> ImportRecord:
    try:
        return decode_versioned(read_plain(path), ImportRecord, IMPORT, path)
    except UNREADABLE as error:
        what = f"{path}, which tells what was imported, is damaged: {one_line(str(error))}"
        raise UserError(f"{what}; move it away if you trust the results here.") from None
