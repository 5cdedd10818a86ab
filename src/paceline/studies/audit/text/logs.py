"""Logs in blocks of code: the command, `real 0m38.159s` of the shell, `peak memory (328 - 138)MiB`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from paceline.studies.audit.printed_rows import (
    DEVICES,
    IDLE_MEMORY,
    LOG_SECONDS,
    MEMORY,
    PEAK_MEMORY,
    SECONDS,
    SYSTEM_SECONDS,
    USER_SECONDS,
    PrintedCommand,
    PrintedNumber,
    PrintedRow,
    PrintedTable,
    device_kind,
    duration,
    exact,
    memory_unit,
    number,
)

TIMES = {"real": SECONDS, "user": USER_SECONDS, "sys": SYSTEM_SECONDS}
MOST_LOGS = 50  # sets of so many devices in the logs of a framework: of more, none is held against a summary
DIFFERENCE = re.compile(r"\(\s{0,9}(\d[\d.,]{0,15})\s{0,9}[-−]\s{0,9}(\d[\d.,]{0,15})\s{0,9}\)")


DeviceWords = tuple[frozenset[str], ...]  # of the name of each
LogsOfFramework = dict[tuple[str, float], dict[DeviceWords, list[PrintedRow]]]  # and of so many devices


@dataclass(frozen=True)
class LogBlock:
    above: str  # the heading over its heading: a framework
    heading: str  # of devices
    lines: tuple[str, ...]
    line_number: int  # of its first line

    @property
    def where(self) -> str:
        return f"{self.heading} (line {self.line_number})"

    @property
    def devices(self) -> int:
        return self.heading.count("+") + 1


def of_devices(blocks: Sequence[LogBlock]) -> list[LogBlock]:
    """Only under headings that name devices: joined by +, or found elsewhere among the joined ones."""
    names = {name.strip() for block in blocks if "+" in block.heading for name in block.heading.split("+")}
    return [block for block in blocks if "+" in block.heading or block.heading in names]


def commands_of(blocks: Iterable[LogBlock]) -> list[PrintedCommand]:
    return [
        PrintedCommand(block.where, block.lines[0].strip(), block.devices, block.above)
        for block in blocks
        if block.lines
    ]


def log_table(blocks: Iterable[LogBlock]) -> PrintedTable:
    rows = [row for block in blocks if len((row := _row(block)).quantities) > 1]
    return PrintedTable("log", tuple(rows), is_log=True)


def _row(block: LogBlock) -> PrintedRow:
    quantities: dict[str, tuple[PrintedNumber, ...]] = {DEVICES: (exact(block.devices),)}
    units: dict[str, str] = {}
    for line in block.lines:
        word, _, rest = line.strip().partition("\t" if "\t" in line.strip() else " ")
        if word in TIMES and (seconds := duration(rest)):
            quantities[TIMES[word]] = (seconds,)
        found = DIFFERENCE.findall(line) if "memory" in line.lower() else []
        pairs = [(number(peak), number(idle)) for peak, idle in found]
        if pairs and all(peak and idle for peak, idle in pairs):
            quantities[PEAK_MEMORY] = tuple(peak for peak, _ in pairs if peak)
            quantities[IDLE_MEMORY] = tuple(idle for _, idle in pairs if idle)
            units = dict.fromkeys((PEAK_MEMORY, IDLE_MEMORY), memory_unit(line))
    kind = device_kind(block.heading)
    setting = None if kind is None else (block.above, kind)
    return PrintedRow(
        f"{block.above}, {block.where}", (block.above, block.heading), quantities, units=units, setting=setting
    )


def with_logs(tables: Sequence[PrintedTable], log: PrintedTable) -> list[PrintedTable]:
    """What the log has of the rows of a summary, if just one of its blocks can be meant."""
    logs: LogsOfFramework = {}
    for row in log.rows:
        devices = row.one(DEVICES)
        of_framework = logs.setdefault((row.about[0].lower(), devices.value if devices else 0), {})
        of_framework.setdefault(_words(row.about[1]), []).append(row)
    return [replace(table, rows=tuple(_joined(row, logs) for row in table.rows)) for table in tables]


def _joined(row: PrintedRow, logs: LogsOfFramework) -> PrintedRow:
    devices = row.one(DEVICES)
    if len(row.about) != 2 or not devices or not (SECONDS in row.quantities or MEMORY in row.quantities):
        return row
    candidates, here = logs.get((row.about[0].lower(), devices.value), {}), _words(row.about[1])
    if len(candidates) > MOST_LOGS:
        return row
    meant = [log for words, found in candidates.items() if _alike(words, here) for log in found[:2]]
    if len(meant) != 1:
        return row
    log, added = meant[0], dict(row.quantities)
    if MEMORY in row.quantities:
        added.update({name: log.quantities[name] for name in (PEAK_MEMORY, IDLE_MEMORY) if name in log.quantities})
    if SECONDS in row.quantities and SECONDS in log.quantities:
        added[LOG_SECONDS] = log.quantities[SECONDS]
    return replace(row, quantities=added, units={**log.units, **row.units})


@lru_cache(maxsize=1024)
def _words(devices: str) -> DeviceWords:
    return tuple(frozenset(name.lower().split()) for name in devices.split("+"))


def _alike(longer: DeviceWords, shorter: DeviceWords) -> bool:
    """Titan X + GTX 980 is meant by Titan + 980: all words of one are among those of the other."""
    return all(a <= b or b <= a for a, b in zip(longer, shorter, strict=False))
