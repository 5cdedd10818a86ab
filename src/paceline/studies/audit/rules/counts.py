"""Counts of a row: devices, the shares of its batch, the machine that it ran on, how much of it was busy."""

from __future__ import annotations

from paceline.studies.audit.printed_rows import BUSY_DEVICES, BUSY_PERCENT, DEVICES, PrintedRow
from paceline.studies.audit.rules.definition import Checks, TableCheck, figures


def batch_arithmetic(row: PrintedRow) -> Checks:
    if row.batch and row.batch.shares and row.batch.total is not None:
        right = sum(row.batch.shares)
        wrong = f"printed {row.batch.text}, but that makes {right}"
        yield TableCheck(row.where, None if right == row.batch.total else wrong)


def number_of_devices(row: PrintedRow) -> Checks:
    devices, busy = row.one(DEVICES), row.one(BUSY_DEVICES)
    if not devices or not devices.value:
        return  # 0 GPUs: processors
    if row.batch and row.batch.shares:
        shares = len(row.batch.shares)
        wrong = f"printed {devices.text} devices, but the batch {row.batch.text} is that of {shares}"
        yield TableCheck(row.where, None if shares == devices.value else wrong)
    if busy:
        wrong = f"printed {devices.text} devices, but its utilisation speaks of {busy.text}"
        yield TableCheck(row.where, None if busy.value == devices.value else wrong, figures(row, BUSY_DEVICES))


def devices_of_machine(row: PrintedRow) -> Checks:
    """Several whole machines are a note, unless the text says that there is one."""
    devices, machine = row.one(DEVICES), row.machine
    if devices and devices.value and machine and machine.devices:
        wrong = f"printed {devices.text} devices, but {machine.name} has {machine.devices}"
        counts = machine.alone or devices.value % machine.devices != 0
        yield TableCheck(row.where, wrong if devices.value > machine.devices else None, counts=counts)


def utilisation(row: PrintedRow) -> Checks:
    busy = row.one(BUSY_PERCENT)
    if busy:
        wrong = f"printed {busy.text}%, but utilisation ends at 100%"
        covers = figures(row, BUSY_PERCENT) if 2 * busy.value > 100 else ()
        if covers or busy.value < 0:
            yield TableCheck(row.where, None if 0 <= busy.value <= 100 else wrong, covers)
