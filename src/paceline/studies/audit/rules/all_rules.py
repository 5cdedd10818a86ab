"""All rules of an audit; one says nothing where figures for it are missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec

from paceline.studies.audit import printed_rows as p
from paceline.studies.audit.rules import (
    accuracies,
    commands,
    counts,
    equations,
    memories,
    processor_times,
    prose_orders,
    prose_ratios,
    trends,
)
from paceline.studies.audit.rules.definition import FigureKey, Rule, TableCheck, of_rows, of_tables

RULES = (
    Rule("epoch time", "time per epoch = training time / epochs", of_rows(equations.epoch_time)),
    Rule(
        "images per epoch", "images/s x time per epoch = images of the data set", of_tables(equations.images_per_epoch)
    ),
    Rule("step time", "images/s x time per step = images of a batch", of_rows(equations.step_time)),
    Rule("speed of one", "images/s of a device x devices = images/s", of_rows(equations.speed_of_one)),
    Rule("log", "a time of the summary is that of the log", of_rows(equations.summary_time)),
    Rule(
        "processor time",
        "note: user + system time for each second of real time is alike in all runs of a program",
        processor_times.processor_time,
    ),
    Rule("batch", "128x8=1024: shares make the whole batch", of_rows(counts.batch_arithmetic)),
    Rule("devices", "devices = shares of the batch = busy devices, (8-80%)", of_rows(counts.number_of_devices)),
    Rule("machine", "no more devices than the machine has that is named", of_rows(counts.devices_of_machine)),
    Rule("utilisation", "utilisation is at most 100 %", of_rows(counts.utilisation)),
    Rule(
        "filled memory", "memory of all devices is not devices x nearly a whole card", of_tables(memories.filled_memory)
    ),
    Rule("sum of memory", "a sum over cards grows with each card, at least by the weights", memories.sums),
    Rule("memory", "memory = peak - idle of each device", of_rows(memories.memory_difference)),
    Rule("unit", "the same digits have the same unit in summary and log", of_tables(memories.units)),
    Rule(
        "one unit",
        "note: figures of a column have one unit; of several, all are converted",
        of_tables(memories.one_unit),
    ),
    Rule("speed-up", "speed-up = speed / speed of one device", of_tables(equations.speed_up)),
    Rule("efficiency", "efficiency = speed-up / devices", of_tables(equations.efficiency)),
    Rule("linear", "more devices of a kind are at most 1.4 times as fast as linear", of_tables(trends.linear)),
    Rule("neighbours", "settings that scale alike do so in all rows", of_tables(trends.neighbours)),
    Rule("smooth", "note: 1.6 times off the line between fewer and more devices", of_tables(trends.smooth)),
    Rule("accuracy", "accuracy lies between 0 and 1, or 0 and 100 %", of_tables(accuracies.accuracy_range)),
    Rule("accuracy of a setting", "none is far above all others of its setting", of_tables(accuracies.same_setting)),
    Rule(
        "training and test", "test is not far above training in one row alone", of_tables(accuracies.training_and_test)
    ),
    Rule("errors and top-k", "accuracy + error = 100 %, and top-1 is at most top-5", of_rows(accuracies.error_and_top)),
    Rule("claim", "a ratio in the prose is that of the table, on all devices that both have", prose_ratios.claims),
    Rule("order", "an order in the prose is that of the table", prose_orders.orders),
    Rule("command", "a command asks for as many devices as its heading has", commands.devices_of_commands),
    Rule("heading", "a command does not run the program of another heading", commands.programs_of_headings),
)

ALONE = "no other figure follows from it"
WHY = {  # no check
    p.SECONDS: "no epochs with a time for each, no log, and no other numbers of devices that it would contradict",
    p.EPOCH_SECONDS: "no training time or speed in its row, and no other numbers of devices that it would contradict",
    p.IMAGES_PER_SECOND: "no time in its row, and no other numbers of devices that it would contradict",
    p.STEP_SECONDS: "no speed and batch in its row",
    p.MEMORY: "no peak and idle memory in its row, and no sum over cards",
    p.PEAK_MEMORY: "no difference from the idle memory is printed",
    p.IDLE_MEMORY: "no difference from the peak memory is printed",
    p.SPEED_UP: "no single row of one device with the same setting, and no efficiency",
    p.EFFICIENCY: "no speed-up in its row",
    p.BUSY_DEVICES: "no number of devices in its row",
    p.BUSY_PERCENT: "twice as much would still be within 100 %",
    p.USER_SECONDS: "its program has too few runs that need as much processor time for each second",
    p.SYSTEM_SECONDS: "twice as much would still be less than user time",
    p.LOG_SECONDS: "no time in the summary",
    **{
        f"{name}{p.WITHOUT_UNIT}": "others of its column have a unit" for name in (p.MEMORY, p.SECONDS, p.EPOCH_SECONDS)
    },
}
ACCURACY = "twice as much would be in range, and too few rows of its setting agree"


class UncheckedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a table that no rule can find wrong, even at twice their size."""

    where: str
    quantity: str
    figures: int
    why: str


@dataclass(frozen=True)
class AuditJudgement:
    verdicts: list[p.AuditFinding | None]  # None: a check that passed
    unchecked: tuple[UncheckedFigures, ...]


def examine(document: p.Document) -> list[p.AuditFinding | None]:
    """Every check that the figures allow."""
    return judge(document).verdicts


def judge(document: p.Document) -> AuditJudgement:
    """Likewise, with the figures that none of them holds."""
    checks = [(rule, check) for rule in RULES for check in rule.check(document)]
    wrong = {figure for _, check in checks if check.text and check.counts for figure in check.covers}
    checks = [(rule, check) for rule, check in checks if not _is_idle_note(check, wrong)]
    covered = {figure for _, check in checks for figure in check.covers}
    return AuditJudgement([_verdict(rule, check) for rule, check in checks], tuple(_unchecked(document, covered)))


def _is_idle_note(check: TableCheck, wrong: set[FigureKey]) -> bool:
    """A note on what is contradicted anyway, or measured against it."""
    if not check.text or check.counts:
        return False
    return bool(wrong.intersection(check.against)) or (bool(check.covers) and wrong.issuperset(check.covers))


def _verdict(rule: Rule, check: TableCheck) -> p.AuditFinding | None:
    if check.text is None:
        return None
    return p.AuditFinding(where=check.where, rule=rule.name, text=check.text, counts=check.counts)


def _unchecked(document: p.Document, covered: set[FigureKey]) -> list[UncheckedFigures]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for table in document.tables:
        for row in table.rows:
            for quantity in row.figures:
                if (row.where, quantity) not in covered:
                    why = ACCURACY if quantity in row.accuracies else WHY.get(quantity, ALONE)
                    counts[table.title, quantity, why] += 1
    return [UncheckedFigures(where=w, quantity=q, figures=count, why=why) for (w, q, why), count in counts.items()]
