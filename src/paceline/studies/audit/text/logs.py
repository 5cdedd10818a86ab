"""Logs in blocks of code: the command, `real 0m38.159s` of the shell, `peak memory (328 - 138)MiB`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from paceline.studies.audit import printed_rows as p

TIMES = {"real": p.SECONDS, "user": p.USER_SECONDS, "sys": p.SYSTEM_SECONDS}
MOST_LOGS = 50  # sets of so many devices in the logs of a framework: of more, none is held against a summary
DIFFERENCE = re.compile(r"\(\s{0,9}(\d[\d.,]{0,15})\s{0,9}[-−]\s{0,9}(\d[\d.,]{0,15})\s{0,9}\)")


DeviceWords = tuple[frozenset[str], ...]  # of the name of each
LogsOfFramework = dict[tuple[str, float], dict[DeviceWords, list[p.PrintedRow]]]  # and of so many devices


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


def commands_of(blocks: Iterable[LogBlock]) -> list[p.PrintedCommand]:
    return [
        p.PrintedCommand(block.where, block.lines[0].strip(), block.devices, block.above)
        for block in blocks
        if block.lines
    ]


def log_table(blocks: Iterable[LogBlock]) -> p.PrintedTable:
    rows = [row for block in blocks if len((row := _row(block)).quantities) > 1]
    return p.PrintedTable("log", tuple(rows), is_log=True)


def _row(block: LogBlock) -> p.PrintedRow:
    quantities: dict[str, tuple[p.PrintedNumber, ...]] = {p.DEVICES: (p.exact(block.devices),)}
    units: dict[str, str] = {}
    for line in block.lines:
        word, _, rest = line.strip().partition("\t" if "\t" in line.strip() else " ")
        if word in TIMES and (seconds := p.duration(rest)):
            quantities[TIMES[word]] = (seconds,)
        found = DIFFERENCE.findall(line) if "memory" in line.lower() else []
        pairs = [(p.number(peak), p.number(idle)) for peak, idle in found]
        if pairs and all(peak and idle for peak, idle in pairs):
            quantities[p.PEAK_MEMORY] = tuple(peak for peak, _ in pairs if peak)
            quantities[p.IDLE_MEMORY] = tuple(idle for _, idle in pairs if idle)
            units = dict.fromkeys((p.PEAK_MEMORY, p.IDLE_MEMORY), p.memory_unit(line))
    kind = p.device_kind(block.heading)
    setting = None if kind is None else (block.above, kind)
    return p.PrintedRow(
        f"{block.above}, {block.where}", (block.above, block.heading), quantities, units=units, setting=setting
    )


def with_logs(tables: Sequence[p.PrintedTable], log: p.PrintedTable) -> list[p.PrintedTable]:
    """What the log has of the rows of a summary, if just one of its blocks can be meant."""
    logs: LogsOfFramework = {}
    for row in log.rows:
        devices = row.one(p.DEVICES)
        of_framework = logs.setdefault((row.about[0].lower(), devices.value if devices else 0), {})
        of_framework.setdefault(_words(row.about[1]), []).append(row)
    return [replace(table, rows=tuple(_joined(row, logs) for row in table.rows)) for table in tables]


def _joined(row: p.PrintedRow, logs: LogsOfFramework) -> p.PrintedRow:
    devices = row.one(p.DEVICES)
    if len(row.about) != 2 or not devices or not (p.SECONDS in row.quantities or p.MEMORY in row.quantities):
        return row
    candidates, here = logs.get((row.about[0].lower(), devices.value), {}), _words(row.about[1])
    if len(candidates) > MOST_LOGS:
        return row
    meant = [log for words, found in candidates.items() if _alike(words, here) for log in found[:2]]
    if len(meant) != 1:
        return row
    log, added = meant[0], dict(row.quantities)
    if p.MEMORY in row.quantities:
        added.update({name: log.quantities[name] for name in (p.PEAK_MEMORY, p.IDLE_MEMORY) if name in log.quantities})
    if p.SECONDS in row.quantities and p.SECONDS in log.quantities:
        added[p.LOG_SECONDS] = log.quantities[p.SECONDS]
    return replace(row, quantities=added, units={**log.units, **row.units})


@lru_cache(maxsize=1024)
def _words(devices: str) -> DeviceWords:
    return tuple(frozenset(name.lower().split()) for name in devices.split("+"))


def _alike(longer: DeviceWords, shorter: DeviceWords) -> bool:
    """Titan X + GTX 980 is meant by Titan + 980: all words of one are among those of the other."""
    return all(a <= b or b <= a for a, b in zip(longer, shorter, strict=False))
