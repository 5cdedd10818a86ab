"""Results tables from Markdown and CSV files: which column is which is told by its heading."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from paceline.auditing.rows import (
    BATCH,
    BUSY_DEVICES,
    COUNTED_DEVICES,
    DEVICES,
    EFFICIENCY,
    EPOCH_SECONDS,
    EPOCHS,
    IMAGES_PER_SECOND,
    MEMORY,
    SECONDS,
    SPEED_UP,
    Claim,
    Command,
    Document,
    Number,
    Row,
    Table,
    batch,
    dataset_in,
    device_count,
    exact,
    number,
    numbers,
)
from paceline.errors import UserError

# The first that fits is meant; headings are compared in small letters, with spaces for underscores.
HEADINGS = (
    (EPOCH_SECONDS, r".*\b(time|seconds|secs?|s)\b.*(/| per )\s*epoch|.*epoch (time|seconds)"),
    (IMAGES_PER_SECOND, r"(?!.*(cpu|processor|\blow|\bhigh)).*(images?|img|samples?)( processed)?\s*(/|per)\s*s"),
    (EPOCHS, r"(number of |num )?epochs?$"),
    (SECONDS, r"(training |total |wall )*(time|seconds|secs?|s)( \(?(s|secs?|seconds)\)?)?$"),
    (DEVICES, r"#?\s*(number of |num )?(gpus?|devices?|device count|cards)$"),
    (BATCH, r"batch([ -]?size)?$"),
    (MEMORY, r"(max(imum)? |peak )?memory( consumption| usage)?( \(?mi?b\)?)?$|mi?b$"),
    (SPEED_UP, r"(speed-? ?up|scaling)$"),
    (EFFICIENCY, r"(scaling |parallel )?efficiency$"),
)
ACCURACY = re.compile(r"[^\d]*accuracy[^\d]*$")
BUSY = re.compile(r"\((\d{1,9})-\d+%\)")  # (8-80%) behind a speed: 8 GPUs that were busy for 80 % of the time
RULE = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)+(\s*:?-+:?\s*)?$")  # between the headings of a table and its rows
EPOCHS_SAID = re.compile(r"\bepochs?\W{0,6}(\d{1,9})\b(?!\.\d)|(?<![.\d])(\d{1,9})\s+epochs?\b", re.IGNORECASE)
CLAIMS = (
    (SECONDS, r"(?P<better>\w+) (is )?faster than (?P<worse>\w+).*?\((?P<factor>\d+(\.\d+)?) ?[x×]\)"),
    (SECONDS, r"(?P<better>\w+) is (?P<factor>\d+(\.\d+)?) ?[x×] (faster than|as fast as) (?P<worse>\w+)"),
    (
        MEMORY,
        r"(?P<better>\w+) (is |are )?(more )?memory[ -]ef+icient (compared to|than) (?P<worse>\w+).*?"
        r"\((?P<factor>\d+(\.\d+)?) ?[x×]\)",
    ),
)
AGREES = 0.02  # part by which an epoch count from the prose may miss a row that it belongs to


def read(path: Path) -> Document:
    """The tables of a Markdown or CSV file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text; give a Markdown or CSV file, a store, or `published`.") from None
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from None
    document = read_csv(path.name, text) if path.suffix.lower() == ".csv" else read_markdown(path.name, text)
    if not any(table.rows for table in document.tables) and not document.commands:
        raise UserError(f"{path} has no table; give one in Markdown (| a | b |), or a .csv file with headings.")
    return document


def read_csv(name: str, text: str) -> Document:
    """One table; commas, semicolons or tabs, whichever the headings have most of."""
    first = text.partition("\n")[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    try:
        grid = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
    except csv.Error as error:
        raise UserError(f"{name} is not CSV: line {reader.line_num}: {error}.") from None
    return Document(name, (_table(name, name, grid, Said()),))


@dataclass
class Said:
    """What the prose above a table said."""

    epochs: int | None = None
    dataset: str = ""


@dataclass
class Reader:
    """A Markdown text, line by line."""

    headings: dict[int, str] = field(default_factory=dict)
    bold: str = ""
    said: Said = field(default_factory=Said)
    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    blocks: list[tuple[str, str, int]] = field(default_factory=list)  # heading, command, line

    @property
    def title(self) -> str:
        below = [text for level, text in sorted(self.headings.items()) if level > 1]
        return ", ".join([*(below or self.headings.values()), *([self.bold] if self.bold else [])]) or "table"

    def heading(self, level: int, text: str) -> None:
        self.headings = {above: kept for above, kept in self.headings.items() if above < level}
        self.headings[level] = text.strip(" :#")
        self.bold = ""

    def prose(self, line: str, line_number: int) -> None:
        if title := re.fullmatch(r"\*\*(.+)\*\*", line.strip()):
            self.bold = title[1].partition(":")[0]
        if found := EPOCHS_SAID.search(line):
            self.said.epochs = int(found[1] or found[2])
        self.said.dataset = dataset_in(line) or self.said.dataset
        for quantity, form in CLAIMS:
            claimed = re.search(form, line, re.IGNORECASE)
            factor = number(claimed["factor"]) if claimed else None
            if claimed and factor:
                where = f'"{line.strip(" *-")}" (line {line_number})'
                self.claims.append(Claim(where, quantity, claimed["better"], claimed["worse"], factor))
                return


def read_markdown(name: str, text: str) -> Document:
    """All tables, with what the prose above them says; claims in the prose; commands under headings of devices."""
    reader, lines = Reader(), text.splitlines()
    position = 0
    while position < len(lines):
        line = lines[position]
        if line.lstrip().startswith("```"):
            position = _block(reader, lines, position)
        elif "|" in line and position + 1 < len(lines) and RULE.match(lines[position + 1]):
            position = _grid(reader, lines, position)
        else:
            if heading := re.match(r"(#+)\s+(.*)", line):
                reader.heading(len(heading[1]), heading[2])
            reader.prose(line, position + 1)
            position += 1
    return Document(name, tuple(reader.tables), tuple(reader.claims), tuple(_commands(reader)))


def _block(reader: Reader, lines: list[str], start: int) -> int:
    """A fenced block: its first line may be the command that its heading stands for."""
    end = next((i for i in range(start + 1, len(lines)) if lines[i].lstrip().startswith("```")), len(lines))
    heading = reader.headings[max(reader.headings)] if reader.headings else ""
    if end > start + 1:
        reader.blocks.append((heading, lines[start + 1].strip(), start + 2))
    return end + 1


def _commands(reader: Reader) -> list[Command]:
    """Only headings that name devices: joined by +, or such as stand elsewhere among the joined ones."""
    names = {name.strip() for heading, _, _ in reader.blocks if "+" in heading for name in heading.split("+")}
    return [
        Command(f"{heading} (line {line_number})", text, heading.count("+") + 1)
        for heading, text, line_number in reader.blocks
        if "+" in heading or heading in names
    ]


def _grid(reader: Reader, lines: list[str], start: int) -> int:
    """A table from its headings to the first line without bars."""
    end = start + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    rows = [(i + 1, _cells(lines[i])) for i in range(start, end) if not RULE.match(lines[i])]
    heading = reader.headings[max(reader.headings)] if reader.headings else ""
    reader.tables.append(_table(reader.title, heading, rows, reader.said))
    return end


def _cells(line: str) -> list[str]:
    bare = re.sub(r"(?<!\\)\|\s*$", "", re.sub(r"^\s*\|", "", line))
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", bare)]


def quantity_of(heading: str) -> str | None:
    plain = heading.strip(" *`").lower().replace("_", " ").removesuffix(" median")
    return next((name for name, form in HEADINGS if re.match(form, plain)), None)


def _table(title: str, heading: str, grid: list[tuple[int, list[str]]], said: Said) -> Table:
    """Rows of quantities from a table that has them as columns, as rows, or as its subject."""
    if not grid:
        return Table(title, ())
    across = sum(quantity_of(cell) is not None for cell in grid[0][1])
    down = sum(quantity_of(cells[0]) is not None and any(map(number, cells[1:])) for _, cells in grid[1:])
    subject = quantity_of(heading)
    if not across and not down and subject:
        rows = _matrix_rows(title, subject, grid)
    elif down > max(across, 1):
        rows = _rows(title, _transposed(grid))
    else:
        rows = _rows(title, grid)
    named = " ".join(text for row in rows for text in row.about)
    return Table(title, tuple(_with_epochs(rows, said.epochs)), dataset_in(named) or said.dataset)


def _transposed(grid: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    width = len(grid[0][1])
    columns = [[cells[i] if i < len(cells) else "" for _, cells in grid] for i in range(width)]
    return [(grid[0][0], column) for column in columns]


def _matrix_rows(title: str, quantity: str, grid: list[tuple[int, list[str]]]) -> list[Row]:
    """A row for each cell, since the table is about one quantity of two things: framework and devices, say."""
    (_, headings), *body = grid
    named = any("+" in label for label in headings[1:])  # then 980 is a card, not so many of them
    return [
        Row(
            f"{title}, {cells[0]}, {label} (line {line})",
            (cells[0], label),
            {quantity: numbers(cell), DEVICES: (exact(label.count("+") + 1 if named else device_count(label) or 1),)},
        )
        for line, cells in body
        for label, cell in zip(headings[1:], cells[1:], strict=False)
        if numbers(cell)
    ]


def _rows(title: str, grid: list[tuple[int, list[str]]]) -> list[Row]:
    (_, headings), *body = grid
    words = [
        i
        for i, heading in enumerate(headings)
        if quantity_of(heading) is None and not ACCURACY.match(heading.lower()) and heading.lower() != "status"
    ]
    wordy = [i for i in words if not any(number(cells[i]) for _, cells in body if i < len(cells))]
    rows = []
    for line, cells in body:
        label = " | ".join(cells[i] for i in words[:2] if i < len(cells) and cells[i])
        row = _row(dict(zip(headings, cells, strict=False)), tuple(cells[i] for i in wordy if i < len(cells)))
        size = f" | {row.batch.text}" if row.batch else ""
        rows.append(replace(row, where=f"{title}, {label}{size} (line {line})"))
    return rows


def _row(cells: dict[str, str], about: tuple[str, ...]) -> Row:
    quantities: dict[str, tuple[Number, ...]] = {}
    for heading, text in cells.items():
        name = quantity_of(heading)
        if name and name != BATCH and name not in quantities and (found := _figures(name, text)):
            quantities[name] = found
        if name == IMAGES_PER_SECOND and (busy := BUSY.search(text)):
            quantities[BUSY_DEVICES] = (exact(int(busy[1])),)
    if DEVICES not in quantities and (counted := next(filter(None, map(COUNTED_DEVICES.match, about)), None)):
        quantities[DEVICES] = (exact(int(counted[1] or counted[2])),)
    sizes = [size for heading, text in cells.items() if quantity_of(heading) == BATCH and (size := batch(text))]
    accuracies = {
        heading: part
        for heading, text in cells.items()
        if ACCURACY.match(heading.lower()) and (part := number(text + "%" * ("%" in heading)))
    }
    return Row("", about, quantities, accuracies, sizes[0] if sizes else None)


def _figures(name: str, text: str) -> tuple[Number, ...]:
    if name == DEVICES:
        count = device_count(text)
        return () if count is None else (exact(count),)
    if name == SPEED_UP:  # against unlike cards by their names, such as 1.90× cuda:0, 3.10× cuda:2
        return tuple(filter(None, map(number, text.split(", "))))
    return numbers(text) if name == MEMORY else tuple(filter(None, [number(text)]))


def _with_epochs(rows: list[Row], epochs: int | None) -> list[Row]:
    """The number of epochs from the prose, if it fits any row: it may have been about something else."""
    if not epochs or any(EPOCHS in row.quantities for row in rows):
        return rows
    pairs = [(row.one(SECONDS), row.one(EPOCH_SECONDS)) for row in rows]
    if not any(a and b and abs(a.value / epochs - b.value) <= AGREES * b.value for a, b in pairs):
        return rows
    return [replace(row, quantities={**row.quantities, EPOCHS: (exact(epochs),)}) for row in rows]
