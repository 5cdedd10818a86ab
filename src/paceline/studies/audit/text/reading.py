"""Results tables from Markdown and CSV files, with what the prose around them says."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from pathlib import Path

from paceline.studies.audit.printed_rows import Document, PrintedTable, ProseOrder, ProseRatio, dataset_in
from paceline.studies.audit.text import logs
from paceline.studies.audit.text.grids import ProseContext, table_of
from paceline.studies.audit.text.machines import machine_in, speaks_of_several
from paceline.studies.audit.text.sentences import claim_in, order_in
from paceline.system.errors import UserError
from paceline.system.files.user_files import read_text
from paceline.system.text.safe_text import shortened

BAR_RULE = re.compile(r"[|:\- \t]+")  # between the headings of a table and its rows
EPOCHS_IN_PROSE = re.compile(r"\bepochs?\W{0,6}(\d{1,9})\b(?!\.\d)|(?<![.\d])(\d{1,9})\s{1,9}epochs?\b", re.IGNORECASE)
LONGEST_CAPTION = 80
LONGEST_HEADING = 1000  # letters, since every row below says where it stands
LONGEST_QUOTED = 300  # of a line of prose
LARGEST = 50_000_000  # bytes


def read(path: Path) -> Document:
    """The tables of a Markdown or CSV file."""
    text = read_text(path, "Markdown or CSV file", LARGEST, "utf-8-sig")
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
    return Document(name, (table_of(name, name, grid, ProseContext()),))


@dataclass
class MarkdownReader:
    """A Markdown text, line by line."""

    context: ProseContext
    headings: dict[int, str] = field(default_factory=dict)
    caption: str = ""
    machine_level: int = 0  # of the heading under which the machine was named
    tables: list[PrintedTable] = field(default_factory=list)
    claims: list[ProseRatio] = field(default_factory=list)
    orders: list[ProseOrder] = field(default_factory=list)
    blocks: list[logs.LogBlock] = field(default_factory=list)

    @property
    def title(self) -> str:
        below = [text for level, text in sorted(self.headings.items()) if level > 1]
        words = ", ".join([*(below or self.headings.values()), *([self.caption] if self.caption else [])])
        return shortened(words, LONGEST_HEADING) or "table"

    @property
    def last_heading(self) -> str:
        return self.headings[max(self.headings)] if self.headings else ""

    def heading(self, level: int, text: str) -> None:
        self.headings = {above: kept for above, kept in self.headings.items() if above < level}
        self.headings[level] = shortened(text.strip(" :#"), LONGEST_HEADING)
        self.caption = ""
        if level < self.machine_level:  # a section that is over
            self.context.machine = None

    def prose(self, line: str, line_number: int) -> None:
        plain = line.strip()
        if len(plain) <= LONGEST_CAPTION and (title := re.fullmatch(r"\*\*([^*]+)\*\*:?|([^*:|#]+):", plain)):
            self.caption = (title[1] or title[2]).partition(":")[0]
        if found := EPOCHS_IN_PROSE.search(line):
            self.context.epochs = int(found[1] or found[2])
        self.context.dataset = dataset_in(line) or self.context.dataset
        self._machine(line)
        where = f'"{shortened(line.strip(" *-"), LONGEST_QUOTED)}" (line {line_number})'
        if order := order_in(line, where):
            self.orders.append(order)
        elif claim := claim_in(line, where):
            self.claims.append(claim)

    def _machine(self, line: str) -> None:
        if named := machine_in(line):
            larger = self.context.machine and self.context.machine.devices > named.devices
            self.context.machine = self.context.machine if larger else named
            self.machine_level = max(self.headings, default=0)


def read_markdown(name: str, text: str) -> Document:
    """All tables, with what the prose above them says; claims in the prose; logs under headings of devices."""
    lines = text.splitlines()
    reader = MarkdownReader(ProseContext(several=any(map(speaks_of_several, lines))))
    position = 0
    while position < len(lines):
        line = lines[position]
        if line.lstrip().startswith("```"):
            position = _block(reader, lines, position)
        elif "|" in line and position + 1 < len(lines) and _is_rule(lines[position + 1]):
            position = _grid(reader, lines, position)
        else:
            if heading := re.match(r"(#{1,9})\s+(.*)", line):
                reader.heading(len(heading[1]), heading[2])
            reader.prose(line, position + 1)
            position += 1
    blocks = logs.of_devices(reader.blocks)
    log = logs.log_table(blocks)
    tables = [*logs.with_logs(reader.tables, log), *([log] if log.rows else [])]
    return Document(name, tuple(tables), tuple(reader.claims), tuple(reader.orders), tuple(logs.commands_of(blocks)))


def _is_rule(line: str) -> bool:
    if not BAR_RULE.fullmatch(line) or "|" not in line:
        return False
    cells = line.strip().removeprefix("|").removesuffix("|").split("|")
    return all(cell.strip().strip(":") and set(cell.strip().strip(":")) == {"-"} for cell in cells)


def _block(reader: MarkdownReader, lines: list[str], start: int) -> int:
    """A fenced block: its first line may be the command that its heading stands for."""
    end = next((i for i in range(start + 1, len(lines)) if lines[i].lstrip().startswith("```")), len(lines))
    if end > start + 1:
        above = [text for _, text in sorted(reader.headings.items())][:-1]
        reader.blocks.append(
            logs.LogBlock(above[-1] if above else "", reader.last_heading, tuple(lines[start + 1 : end]), start + 2)
        )
    return end + 1


def _grid(reader: MarkdownReader, lines: list[str], start: int) -> int:
    """A table from its headings to the first line without bars."""
    end = start + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    rows = [(i + 1, _cells(lines[i])) for i in range(start, end) if not _is_rule(lines[i])]
    reader.tables.append(table_of(reader.title, reader.last_heading, rows, reader.context))
    return end


def _cells(line: str) -> list[str]:
    bare = line.strip().removeprefix("|")
    if bare.endswith("|") and not bare.endswith("\\|"):
        bare = bare[:-1]
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", bare)]
