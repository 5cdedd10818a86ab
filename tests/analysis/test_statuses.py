"""Cells by what became of them: lists of plans, pages of plans and reports count alike."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from paceline.analysis.rows.table_rows import table_rows
from paceline.plan.cell import Cell
from paceline.plan.external.command import ExternalCommand
from paceline.report.page.report_page import report_context
from paceline.report.server import lists
from paceline.store.store import Store
from tests.factories.runs import CELL, FAILED, cell, on_devices, record, save_plan, save_run, trained

NOISY, LOST, NEVER = on_devices(2), cell(batch_size=64), cell(batch_size=32)
COMMAND = cell(workload="command", framework="sleep", command=ExternalCommand(arguments=("sleep", "1"), folder="/"))
SPEEDS = {CELL: (100, 100, 101), NOISY: (100, 150, 220)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def keys(of: Cell, count: int) -> list[str]:
    return [f"{hash(of):x}-{repeat}" for repeat in range(count)]


def measure(store: Store, of: Cell, *speeds: float) -> None:
    for repeat, key in enumerate(keys(of, len(speeds))):
        save_run(store, record(f"{key}-run", key, of, repeat=repeat), [trained(round(100 * speeds[repeat]), 100.0)])


def counts(store: Store) -> list[dict[str, int]]:
    """As the list of plans, the page of a running plan, and the report have them."""
    (line,) = lists.plans(store, 1)[1]
    cells = Counter(each.status for each in lists.cells(store, line.id))
    rows = table_rows(store, {"plan": line.id})
    fact = report_context(rows, store).facts[0]
    told = {word: int(number) for number, word in (part.split(" ", 1) for part in fact.split("(")[1][:-1].split(", "))}
    assert told == dict(Counter(row.status for row in rows))
    return [dict(line.counts), dict(cells), told]


def test_every_page_counts_cells_alike(store: Store) -> None:
    for each, speeds in SPEEDS.items():
        measure(store, each, *speeds)
    save_run(store, record("lost", "lost", LOST), [trained(10, 1.0)], FAILED)
    wanted = {each: keys(each, 3) for each in SPEEDS}
    save_plan(store, {**wanted, LOST: ["lost"], NEVER: ["never"]}, skips={cell(batch_size=16): "too small"})
    assert counts(store) == [{"ok": 1, "noisy": 1, "failed": 1, "skipped": 1, "not run": 1}] * 3


def test_plan_that_wants_narrow_intervals_says_what_is_noisy_for_it(store: Store) -> None:
    measure(store, CELL, 100, 100, 101)
    measure(store, NOISY, 100)
    save_plan(store, {CELL: keys(CELL, 3), NOISY: keys(NOISY, 1)}, interval_target=0.001)
    assert counts(store) == [{"noisy": 2}] * 3


def test_commands_are_noisy_by_their_seconds(store: Store) -> None:
    for repeat, (key, seconds) in enumerate(zip(keys(COMMAND, 3), (1.0, 2.0, 4.0), strict=True)):
        save_run(store, record(f"{key}-run", key, COMMAND, repeat=repeat), [])
        with store.transaction() as index:
            index.execute("INSERT INTO value VALUES (?, 'training_seconds', 0, ?)", (f"{key}-run", seconds))
    save_plan(store, {COMMAND: keys(COMMAND, 3)})
    assert counts(store) == [{"noisy": 1}] * 3
