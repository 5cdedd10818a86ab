"""A store against itself: each row of its table again from the raw events, and from the other numbers of the row."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec

from paceline.auditing.rows import Finding
from paceline.errors import UserError
from paceline.events import Block, event_files
from paceline.metrics import Row, table_rows
from paceline.outcome import Outcome
from paceline.plain_files import read_plain
from paceline.records import OUTCOME_FILE, RUN_FOLDER, UNREADABLE
from paceline.store import Store
from paceline.workloads import all_workloads

EXACT = 1e-9  # the same arithmetic in another order
ALIKE = ("workload", "framework", "update", "data", "input", "precision", "scaling_kind", "cores_per_device")


def examine(store: Store) -> list[Finding | None]:
    """Every check that the rows of the newest plan allow; None for those that are right."""
    rows = table_rows(store, {})
    return [
        None if text is None else Finding(where=_where(row), rule=name, text=text)
        for row in rows
        for name, check in CHECKS.items()
        for text in check(row, rows, store)
    ]


Texts = Iterator[str | None]


def speed(row: Row, rows: list[Row], store: Store) -> Texts:
    """Images/s again from the files of the runs, without the index."""
    if row.images_per_second is None:
        return
    ended_well = [folder for run in row.runs if _ended_well(folder := store.folder / RUN_FOLDER / run)]
    speeds = [images / seconds for images, seconds in map(_trained, ended_well) if seconds > 0]
    if len(speeds) == row.repeats:
        shown, right = row.images_per_second.median, statistics.median(speeds)
        yield _compare("images/s", shown, right, f"the events of its runs ({len(speeds)}) make")
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


def _trained(folder: Path) -> tuple[int, float]:
    """Images of all ranks, and the seconds of the slowest in each block."""
    ranks = []
    for file in event_files(folder).values():
        ranks.append([each for each in file.events if isinstance(each, Block) and each.phase == "train"])
    images = sum(block.images for blocks in ranks for block in blocks)
    steps = zip_longest(*ranks)
    return images, sum(max(block.seconds for block in together if block) for together in steps)


def epoch(row: Row, rows: list[Row], store: Store) -> Texts:
    workload = all_workloads().get(row.workload)
    if workload and row.images_per_second and row.seconds_per_epoch is not None:
        right = workload.images_per_epoch / row.images_per_second.median
        how = f"{workload.images_per_epoch:,} images / {row.images_per_second.median:.6g} ="
        yield _compare("s per epoch", row.seconds_per_epoch, right, how)


def scaling(row: Row, rows: list[Row], store: Store) -> Texts:
    bases = [other for other in rows if _is_base(other, row)]
    if row.scaling is None or row.images_per_second is None or row.device_count == 1 or len(bases) != 1:
        return
    base = bases[0].images_per_second
    if base:
        how = f"{row.images_per_second.median:.6g} / {base.median:.6g} of one device ="
        yield _compare("scaling", row.scaling, row.images_per_second.median / base.median, how)


def _is_base(base: Row, row: Row) -> bool:
    times = row.device_count if row.scaling_kind == "weak" else 1
    kinds = {("cpu" in each.devices) for each in (base, row)}
    return (
        base.device_count == 1
        and not base.wrapped
        and len(kinds) == 1
        and base.batch_size * times == row.batch_size
        and all(getattr(base, name) == getattr(row, name) for name in ALIKE)
    )


def efficiency(row: Row, rows: list[Row], store: Store) -> Texts:
    if row.scaling is not None and row.efficiency is not None:
        how = f"{row.scaling:.4g} / {row.device_count} devices ="
        yield _compare("efficiency", row.efficiency, row.scaling / row.device_count, how)


def batch(row: Row, rows: list[Row], store: Store) -> Texts:
    if row.shares:
        joined = " + ".join(map(str, row.shares))
        yield _compare("batch", row.batch_size, sum(row.shares), f"shares {joined} =")


def _compare(name: str, shown: float, right: float, how: str) -> str | None:
    alike = abs(shown - right) <= EXACT * max(abs(shown), abs(right))
    return None if alike else f"{name} shown {shown:.6g}, but {how} {right:.6g}"


def _where(row: Row) -> str:
    return f"{row.workload}, {row.framework} {row.devices}, batch {row.batch_size}"


CHECKS: dict[str, Callable[[Row, list[Row], Store], Texts]] = {
    "images/s": speed,
    "epoch time": epoch,
    "speed-up": scaling,
    "efficiency": efficiency,
    "batch": batch,
}
