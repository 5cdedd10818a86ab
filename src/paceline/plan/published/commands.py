"""From a published row to the command that measures its cell here, and what would still not be the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence

from paceline.catalog.frameworks import Framework, find
from paceline.catalog.published import PublishedRow, all_benchmarks, definitions
from paceline.catalog.workloads import known_workload
from paceline.plan.cell import Cell
from paceline.plan.cell_flags import run_command
from paceline.plan.cell_names import grouped
from paceline.plan.published.cells import cell_of, device_count, suite_of
from paceline.plan.settings import Suite
from paceline.system.machine.hardware import Machine

WIDTH = 80  # letters of a terminal that is not wide
SETTINGS = (
    *("framework", "devices", "batch_per_device", "batch_size", "shares", "update", "data", "lr", "epochs", "steps"),
    *("evaluate", "seed", "warmup", "timeout"),
)
USUAL = Suite()  # defaults, which a command leaves out
NAMES = {  # of quantities, by the first word of a definition
    "images_per_second": "images/s",
    "seconds": "s",
    "seconds_per_epoch": "s/epoch",
    "accuracy": "accuracy",
    "memory": "MiB",
}


def command_of(record: PublishedRow, machine: Machine | None = None) -> list[str]:
    """The words of a `paceline run` whose plan is this one cell: the same as in the suite, so that its runs count."""
    cell, suite = cell_of(record, machine), suite_of(record.benchmark)
    epochs = known_workload(cell.workload).whole_epochs(cell.steps, cell.batch_size, cell.input)
    others = {
        "shares": _unless(cell.shares, *USUAL.shares),
        "update": _unless(cell.update, *USUAL.update),
        **({"epochs": str(epochs), "steps": ""} if record.epochs else {"epochs": ""}),
        "evaluate": _unless(cell.evaluate, "epoch" if record.epochs else "never"),
        "seed": _unless(cell.seed, USUAL.seed),
        "warmup": _unless(cell.warmup, USUAL.warmup),
        "timeout": _unless(round(suite.timeout), round(USUAL.timeout)),
    }
    return run_command(cell, SETTINGS, others)


def _unless(value: object, usual: object) -> str:
    return "" if value == usual else str(value)


def in_lines(words: Sequence[str], indent: str, width: int = WIDTH) -> list[str]:
    """A command that a shell takes as one though it fills several lines; a flag keeps its value."""
    pieces = re.sub(r" (--)", r"\n\1", shlex.join(words)).split("\n")
    return _filled(pieces, f"{indent}$ ", f"{indent}    ", " \\", width)


def _filled(pieces: Iterable[str], first: str, further: str, ending: str, width: int) -> list[str]:
    """Lines of whole pieces; all but the last have the ending."""
    lines, start = [first], True
    for piece in pieces:
        if not start and len(f"{lines[-1]} {piece}{ending}") > width:
            lines[-1] += ending
            lines.append(further + piece)
        else:
            lines[-1] += piece if start else f" {piece}"
        start = False
    return lines


def differences(record: PublishedRow) -> dict[str, str]:
    """What this command cannot make the same as it was there, or what the text left open."""
    cell = cell_of(record)
    found = {name: describe(record, cell) for name, describe in DIFFERENCES.items()}
    return {name: text for name, text in found.items() if text}


def _version(record: PublishedRow, cell: Cell) -> str:
    corrected = (str(error.corrected) for error in record.errors if error.field == "framework_there")
    there = next(corrected, record.framework_there)
    return f"{there} there, {_pinned(find(cell.framework).framework)} here"


def _pinned(framework: Framework) -> str:
    """Its package as it is installed here."""
    wanted = framework.package.replace("_", "-")
    pins = [line for line in framework.requirements.splitlines() if line.startswith(f"{wanted}==")]
    return pins[0] if pins else f"your own {framework.package}"


def _counting(record: PublishedRow, _: Cell) -> str:
    """Quantities that do not count what ours do; docs/published.md says what each of them does count."""
    same: dict[str, bool] = {}  # one figure of a kind that counts the same is enough
    for definition in (definitions()[name] for name in record.metrics):
        kind = definition.id.partition(".")[0]
        if definition.ours:
            same[kind] = same.get(kind, False) or definition.same
    return ", ".join(NAMES[kind] for kind, is_so in same.items() if not is_so)


def _nothing(record: PublishedRow, _: Cell) -> str:
    return "" if record.metrics else "it crashed there" if record.failure else "left blank there"


def _batch(record: PublishedRow, cell: Cell) -> str:
    if record.batch_size is not None:
        return ""
    each = cell.batch_size // cell.device_set.count
    return f"{record.batch} there, whether on each card or in all is not stated; {each} on each here"


def _exchange(record: PublishedRow, cell: Cell) -> str:
    return find(cell.framework).framework.exchange if device_count(record) > 1 else ""


DIFFERENCES: dict[str, Callable[[PublishedRow, Cell], str]] = {
    "hardware there": lambda record, _: record.devices,
    "version": _version,
    "network": lambda record, _: "built wrongly there" * any(error.field == "workload" for error in record.errors),
    "batch": _batch,
    "rate": lambda record, cell: "" if record.learning_rate else f"not printed, {cell.learning_rate:g} here",
    "length": lambda record, cell: "" if record.epochs else f"not printed, {cell.steps} steps here",
    "data": lambda record, _: "other fake images there" * ("data" in record.inferred),
    "exchange": _exchange,
    "counted otherwise there": _counting,
    "nothing to compare": _nothing,
}


def blocks(records: Iterable[PublishedRow], *, numbered: bool = False, width: int = WIDTH) -> list[str]:
    """Rows of the same cell together: what they are, the command that measures it, and what will differ."""
    lines: list[str] = []
    for number, rows in enumerate(by_command(records).values(), 1):
        head = f"[{number}] " if numbered else ""
        for place, row in enumerate(rows):
            lines += _filled(title(row).split(" "), " " * len(head) if place else head, "    ", "", width)
        lines += in_lines(command_of(rows[0]), "  ", width)
        lines += _filled(f"differs: {all_differences(rows)}".split(" "), "  ", "    ", "", width)
    return lines


def all_differences(rows: Iterable[PublishedRow]) -> str:
    """Of rows of one cell, each difference once with all that it is; what says more stands for what says less."""
    found: dict[str, dict[str, None]] = {}
    for name, text in (pair for row in rows for pair in differences(row).items()):
        found.setdefault(name, {})[text] = None
    whole = {
        name: [text for text in texts if not any(text in other for other in texts if other != text)]
        for name, texts in found.items()
    }
    return "; ".join(f"{name}: {' or '.join(texts)}" for name, texts in whole.items())


def by_command(records: Iterable[PublishedRow]) -> dict[Cell, list[PublishedRow]]:
    """In the order of the texts."""
    return grouped(records, cell_of)


def title(record: PublishedRow) -> str:
    """Where it stands."""
    return f"{record.benchmark}, {place(record)}"


def place(record: PublishedRow) -> str:
    """In its text, with the table where there are several."""
    several = len({each.table for each in all_benchmarks()[record.benchmark].records}) > 1
    return f"{f'{record.table}: ' if several else ''}{record.row}"
