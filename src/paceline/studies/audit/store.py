"""A store against itself: each row of its table again from the raw events, and from the other numbers of the row."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.row import Row
from paceline.analysis.rows.scaling import training
from paceline.analysis.rows.table_rows import table_rows
from paceline.catalog.workloads import all_workloads
from paceline.store.records.events import event_files
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import OUTCOME_FILE, RUN_FOLDER, UNREADABLE
from paceline.store.store import Store
from paceline.store.training_progress import TrainingSoFar
from paceline.studies.audit.printed_rows import AuditFinding
from paceline.system.errors import UserError
from paceline.system.files.regular_files import read_plain

EXACT = 1e-9  # the same arithmetic in another order


def examine(store: Store) -> list[AuditFinding | None]:
    """Every check that the rows of the newest plan allow; None for those that are right."""
    rows = table_rows(store, {})
    return [
        None if text is None else AuditFinding(where=_where(row), rule=name, text=text)
        for row in rows
        for name, check in CHECKS.items()
        for text in check(row, rows, store)
    ]


Texts = Iterator[str | None]


def speed(row: Row, rows: list[Row], store: Store) -> Texts:
    """Images/s again from the files of the runs, without the index."""
    shown = row.median(SPEED)
    if shown is None:
        return
    ended_well = [folder for run in row.runs if _ended_well(folder := store.folder / RUN_FOLDER / run)]
    speeds = [found for folder in ended_well if (found := _trained(folder).images_per_second)]
    if len(speeds) == row.repeats:
        yield _compare("images/s", shown, statistics.median(speeds), f"the events of its runs ({len(speeds)}) make")
    else:
        yield f"images/s shown of {row.repeats} runs, but {len(speeds)} run folders have them"


def _ended_well(folder: Path) -> bool:
    path = folder / OUTCOME_FILE
    try:
        return msgspec.json.decode(read_plain(path), type=Outcome).status == "ok"
    except FileNotFoundError:
        return False
    except UNREADABLE as error:
        raise UserError(f"{path} cannot be read: {error}; repair it or move its folder out of the store.") from None


def _trained(folder: Path) -> TrainingSoFar:
    return TrainingSoFar.of(file.events for file in event_files(folder).values())


def epoch(row: Row, rows: list[Row], store: Store) -> Texts:
    workload = all_workloads().get(row.cell.workload)
    speed = row.median(SPEED)
    if workload and speed and row.seconds_per_epoch is not None:
        right = workload.images_per_epoch / speed
        how = f"{workload.images_per_epoch:,} images / {speed:.6g} ="
        yield _compare("s per epoch", row.seconds_per_epoch, right, how)


def scaling(row: Row, rows: list[Row], store: Store) -> Texts:
    """Against each device that it is held against, where only one row can be meant."""
    for one in row.scaling_against:
        bases = [other for other in rows if other.cell.devices == one.devices and _is_base(other, row)]
        speed, base = row.median(SPEED), bases[0].median(SPEED) if len(bases) == 1 else None
        if speed and base:
            how = f"{speed:.6g} / {base:.6g} of one device ="
            yield _compare("scaling", one.scaling.median, speed / base, how)


def _is_base(base: Row, row: Row) -> bool:
    return not (base.cell.wrapped or base.cell.slow) and training(base, wrapped=False) == training(row, wrapped=False)


def efficiency(row: Row, rows: list[Row], store: Store) -> Texts:
    if row.scaling is not None and row.efficiency is not None:
        how = f"{row.scaling:.4g} / {row.device_count} devices ="
        yield _compare("efficiency", row.efficiency, row.scaling / row.device_count, how)


def batch(row: Row, rows: list[Row], store: Store) -> Texts:
    if row.shares:
        joined = " + ".join(map(str, row.shares))
        yield _compare("batch", row.cell.batch_size, sum(row.shares), f"shares {joined} =")


def _compare(name: str, shown: float, right: float, how: str) -> str | None:
    alike = abs(shown - right) <= EXACT * max(abs(shown), abs(right))
    return None if alike else f"{name} shown {shown:.6g}, but {how} {right:.6g}"


def _where(row: Row) -> str:
    return f"{row.cell.workload}, {row.cell.framework} {row.cell.devices}, batch {row.cell.batch_size}"


CHECKS: dict[str, Callable[[Row, list[Row], Store], Texts]] = {
    "images/s": speed,
    "epoch time": epoch,
    "speed-up": scaling,
    "efficiency": efficiency,
    "batch": batch,
}
