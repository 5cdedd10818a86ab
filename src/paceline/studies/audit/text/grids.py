"""Build tables out of grids of cells; the heading of a column says what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paceline.studies.audit import printed_rows as p
from paceline.studies.audit.text.headings import ColumnRoles, counts_machines, quantity_of, roles_of, subject_of
from paceline.studies.audit.text.machines import with_machines
from paceline.studies.audit.text.one_unit import in_one_unit, unit_of
from paceline.system.errors import UserError
from paceline.system.text.safe_text import shortened

BUSY = re.compile(
    r"\((?:(\d{1,9})-)?(\d{1,9})%\)"
)  # (8-80%) behind a speed: 8 GPUs that were busy for 80 % of the time
AGREES = 0.02  # part by which an epoch count from the prose may miss a row that it belongs to
MOST_COLUMNS = 20_000  # of a table, which then takes seconds
MOST_BLANKS = 500_000  # cells, where the table has not more of others
LONGEST_CELL = 1_000  # letters that are read
LONGEST_NAME = 80  # letters by which a cell is called

TextGrid = Sequence[tuple[int, list[str]]]  # cells with their line, headings first


@dataclass
class ProseContext:
    """What the prose above a table said."""

    epochs: int | None = None
    dataset: str = ""
    machine: p.PrintedMachine | None = None
    several: bool = False  # machines, anywhere in the text, of which it does not say how many a row had


def table_of(title: str, heading: str, grid: TextGrid, context: ProseContext) -> p.PrintedTable:
    """Rows of quantities from a table that has them as columns, as rows, or as its subject."""
    if not grid:
        return p.PrintedTable(title, ())
    if max(len(cells) for _, cells in grid) > MOST_COLUMNS:
        raise UserError(f"{title[:80]} has a row of more than {MOST_COLUMNS:,} cells; give a part of the table.")
    _refuse_ragged(title, grid)
    grid = [(line, [cell[:LONGEST_CELL] for cell in cells]) for line, cells in grid]
    first = [quantity_of(cell) for cell in grid[0][1]]
    across = sum(name is not None for name in first)
    down = sum(quantity_of(cells[0]) is not None and any(map(p.number, cells[1:])) for _, cells in grid[1:])
    subject, memory_heading = subject_of(heading), ""
    if subject and {name for name in first if name} <= {p.DEVICES} and first.count(p.DEVICES) < 2 and not down:
        rows = _by_devices(title, heading, subject, grid) if across else _matrix(title, heading, subject, grid)
    else:
        grid = _transposed(grid) if down > max(across, 1) else grid
        rows = _rows(title, grid)
        memory_heading = next((cell for cell in grid[0][1] if quantity_of(cell) == p.MEMORY), "")
    named = " ".join(text for row in rows[:1000] for text in row.about)
    if not context.several:
        rows = with_machines(rows, grid[0][1], context.machine)
    rows = _with_epochs(rows, context.epochs)
    return in_one_unit(p.PrintedTable(title, tuple(rows), p.dataset_in(named) or context.dataset, memory_heading))


def _refuse_ragged(title: str, grid: TextGrid) -> None:
    """Few rows that are much wider than the others would make work of blanks."""
    cells = sum(len(row) for _, row in grid)
    blanks = len(grid) * max(len(row) for _, row in grid) - cells
    if blanks > max(MOST_BLANKS, cells):
        raise UserError(
            f"{title[:80]} lacks {blanks:,} cells in rows that are shorter than the widest; fill or cut them."
        )


def _transposed(grid: TextGrid) -> TextGrid:
    width = len(grid[0][1])
    columns = [[cells[i] if i < len(cells) else "" for _, cells in grid] for i in range(width)]
    return [(grid[0][0], column) for column in columns]


def _matrix(title: str, heading: str, quantity: str, grid: TextGrid) -> list[p.PrintedRow]:
    """A row for each cell, since the table is about one quantity of two things: framework and devices, say."""
    (_, headings), *body = grid
    labels = headings[1:]
    named = any("+" in label for label in labels)  # then 980 is a card, not so many of them
    batches = quantity_of(headings[0]) == p.BATCH
    counts = [label.count("+") + 1 if named else (not batches and p.device_count(label)) or 1 for label in labels]
    kinds = [p.device_kind(label) if named else re.sub(r"\d", "", label) for label in labels]
    return [
        p.PrintedRow(
            f"{title}, {_cut(cells[0])}, {_cut(label)} (line {line})",
            (cells[0], label),
            {quantity: found, p.DEVICES: (p.exact(count),)},
            units={quantity: unit_of(quantity, cell, heading)},
            setting=None if kind is None else (cells[0], kind),
        )
        for line, cells in body
        for label, count, kind, cell in zip(labels, counts, kinds, cells[1:], strict=False)
        if (found := _figures(quantity, cell))
    ]


def _by_devices(title: str, heading: str, quantity: str, grid: TextGrid) -> list[p.PrintedRow]:
    """Likewise, where the number of devices is a column; 228/228/219 under a(X/Y/Z) are three figures."""
    (_, headings), *body = grid
    at = next(i for i, each in enumerate(headings) if quantity_of(each) == p.DEVICES)
    parts = {i: _parts(each) for i, each in enumerate(headings) if i != at and not counts_machines(each)}
    return [
        p.PrintedRow(
            f"{title}, {_cut(cells[at])}, {_cut(name)} (line {line})",
            (name,),
            {quantity: found, p.DEVICES: (p.exact(count),)},
            units={quantity: unit_of(quantity, text, heading)},
            setting=(name,),
        )
        for line, cells in body
        if at < len(cells) and (count := p.device_count(cells[at])) is not None
        for i, cell in enumerate(cells)
        for name, text in _named_parts(parts.get(i, []), cell)
        if (found := _figures(quantity, text))
    ]


def _parts(heading: str) -> list[str]:
    found = re.fullmatch(r"(.{0,80}?)\s*\(([^()/]{1,30}(?:/[^()/]{1,30}){1,9})\)", heading)
    return [f"{found[1]} {part.strip()}" for part in found[2].split("/")] if found else [heading]


def _named_parts(names: list[str], cell: str) -> list[tuple[str, str]]:
    texts = cell.split("/") if len(names) > 1 else [cell]
    return list(zip(names, texts, strict=True)) if len(names) == len(texts) else []


def _rows(title: str, grid: TextGrid) -> list[p.PrintedRow]:
    (_, headings), *body = grid
    plan = roles_of(headings, [cells for _, cells in body])
    rows = []
    for line, cells in body:
        label = " | ".join(_cut(cells[i]) for i in plan.words[:2] if i < len(cells) and cells[i])
        row = _row(plan, cells)
        size = f" | {_cut(row.batch.text)}" if row.batch else ""
        rows.append(replace(row, where=f"{title}, {label}{size} (line {line})"))
    return _with_shares(rows)


def _cut(cell: str) -> str:
    return shortened(cell, LONGEST_NAME)


def _row(plan: ColumnRoles, cells: list[str]) -> p.PrintedRow:
    quantities: dict[str, tuple[p.PrintedNumber, ...]] = {}
    units: dict[str, str] = {}
    sizes: list[p.PrintedBatch] = []
    kind: str | None = ""
    for i, name in plan.quantities.items():
        text = cells[i] if i < len(cells) else ""
        if name == p.BATCH:
            sizes.extend(filter(None, [p.batch(text)]))
        elif name not in quantities and (found := _figures(name, text)):
            quantities[name] = found
            units[name] = unit_of(name, text, plan.headings[i])
            if name == p.DEVICES and re.search(r"[A-Za-z]", text):
                kind = None if "+" in text and ":" in text else p.device_kind(text)
        if name == p.IMAGES_PER_SECOND and (busy := BUSY.search(text)):
            quantities.update(_busy(busy))
    about = tuple(cells[i] for i in plan.names if i < len(cells))
    if p.DEVICES not in quantities and (counted := next(filter(None, map(p.COUNTED_DEVICES.match, about)), None)):
        quantities[p.DEVICES] = (p.exact(int(counted[1] or counted[2])),)
    accuracies = {
        heading: part
        for i, heading in plan.accuracies.items()
        if i < len(cells) and (part := p.number(cells[i] + "%" * ("%" in heading)))
    }
    held = tuple(cells[i] if i < len(cells) else "" for i in plan.settings)
    setting = None if kind is None else (*held, kind)
    return p.PrintedRow("", about, quantities, accuracies, sizes[0] if sizes else None, units, setting)


def _busy(found: re.Match[str]) -> dict[str, tuple[p.PrintedNumber, ...]]:
    percent: dict[str, tuple[p.PrintedNumber, ...]] = {p.BUSY_PERCENT: (p.exact(int(found[2])),)}
    return {p.BUSY_DEVICES: (p.exact(int(found[1])),), **percent} if found[1] else percent


def _with_shares(rows: list[p.PrintedRow]) -> list[p.PrintedRow]:
    """The batch as part of the setting: in all or for each device, whichever stays the same more often."""
    options: list[Callable[[p.PrintedRow], str]] = [_whole_batch, _batch_of_one]
    best = min(options, key=lambda option: len({(row.setting, option(row)) for row in rows}))
    return [row if row.setting is None else replace(row, setting=(*row.setting, best(row))) for row in rows]


def _whole_batch(row: p.PrintedRow) -> str:
    if not row.batch:
        return ""
    return f"{row.batch.shares[0]} each" if row.batch.shares else f"{row.batch.total}"


def _batch_of_one(row: p.PrintedRow) -> str:
    devices = row.one(p.DEVICES)
    if not row.batch or row.batch.shares or not devices or not devices.value:
        return _whole_batch(row)
    return f"{(row.batch.total or 0) / devices.value:g} each"


def _figures(name: str, text: str) -> tuple[p.PrintedNumber, ...]:
    if name == p.DEVICES:
        count = p.device_count(text)
        return () if count is None else (p.exact(count),)
    if name == p.SPEED_UP:  # against unlike cards by their names, such as 1.90× cuda:0, 3.10× cuda:2
        return tuple(filter(None, map(p.number, text.split(", "))))
    if name in (p.SECONDS, p.EPOCH_SECONDS):
        return tuple(filter(None, [p.duration(text)]))
    return p.numbers(text) if name == p.MEMORY else tuple(filter(None, [p.number(text)]))


def _with_epochs(rows: list[p.PrintedRow], epochs: int | None) -> list[p.PrintedRow]:
    """The number of epochs from the prose, if it fits any other row: it may have been about something else."""
    if not epochs or any(p.EPOCHS in row.quantities for row in rows):
        return rows
    pairs = [(row.one(p.SECONDS), row.one(p.EPOCH_SECONDS)) for row in rows]
    fits = [bool(a and b and abs(a.value / epochs - b.value) <= AGREES * b.value) for a, b in pairs]
    found, fitting = {p.EPOCHS: (p.exact(epochs),)}, sum(fits)
    return [
        replace(row, quantities={**row.quantities, **found}) if fitting > fit else row
        for row, fit in zip(rows, fits, strict=True)
    ]
