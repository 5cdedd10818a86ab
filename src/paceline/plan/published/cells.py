"""Which cell of a suite is the place of a published row, and which cells are added to those of its text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from functools import cache

from paceline.catalog.published import PublishedRow, all_benchmarks
from paceline.catalog.workloads import known_workload
from paceline.plan.cell import Cell
from paceline.plan.devices import parse_devices
from paceline.plan.matrix import cells_of
from paceline.plan.settings import Suite
from paceline.plan.suite import known_suites, load_suite
from paceline.system.machine.hardware import Machine, this_machine

USUAL_UPDATE = "replicated"  # of texts that do not say how devices agree
BETWEEN_CARDS = " + "  # in the name of a set of cards that differ


def device_count(record: PublishedRow) -> int:
    """As it should have been printed."""
    corrected = (error.corrected for error in record.errors if error.field == "device_count")
    return next((int(count) for count in corrected if isinstance(count, float)), record.device_count)


def devices_of(record: PublishedRow) -> tuple[str, ...]:
    """As jobs name them: a card by its number where the cards of the machine differ."""
    cards = list(all_benchmarks()[record.benchmark].machines[record.machine].cards)
    if not cards:
        return parse_devices(f"{device_count(record)}x{record.device_kind}").devices
    return tuple(f"{record.device_kind}:{_take(cards, name)}" for name in record.devices.split(BETWEEN_CARDS))


def _take(cards: list[str], name: str) -> int:
    """The number of the first card of that name that no other device of the set is."""
    number = cards.index(name)
    cards[number] = ""
    return number


def learning_rate(record: PublishedRow) -> float:
    """The rate of its program where the text has none."""
    return record.learning_rate or known_workload(record.workload).recipe.learning_rate


def fits(trained: Cell, record: PublishedRow) -> bool:
    """Whether this is what the row measured; hardware and versions may differ."""
    return (
        (trained.workload, trained.framework) == (record.workload, record.framework)
        and parse_devices(trained.devices).devices == devices_of(record)
        and (trained.update, trained.data) == (record.update or USUAL_UPDATE, record.data)
        and record.batch_size in (None, trained.batch_size)
        and math.isclose(trained.learning_rate, learning_rate(record))
        and (record.epochs is None or trained.steps == _steps(trained, record.epochs))
        and (trained.precision, trained.slow, trained.wrapped) == ("float32", (), False)
    )


def _steps(trained: Cell, epochs: int) -> int:
    return known_workload(trained.workload).steps(epochs, trained.batch_size, trained.input)


def rows_of(trained: Cell, names: Iterable[str] | None = None) -> list[PublishedRow]:
    """The published rows of this place, of all texts or of some; a text may have measured it more than once."""
    benchmarks = [all_benchmarks()[name] for name in (all_benchmarks() if names is None else names)]
    return [record for benchmark in benchmarks for record in benchmark.records if fits(trained, record)]


def added(suite: Suite, cells: Collection[Cell]) -> list[Cell]:
    """Those of a published benchmark's suite, in full size, that no row of the text has."""
    if suite.name not in all_benchmarks() or suite.quick:
        return []
    return [cell for cell in cells if not rows_of(cell, [suite.name])]


@cache
def suite_of(name: str) -> Suite:
    """That of a published benchmark, in full size."""
    return load_suite(known_suites()[name], {})


def planned(name: str, machine: Machine | None = None) -> tuple[Suite, tuple[Cell, ...]]:
    """The suite of a published benchmark and its cells; those for cards are the same on all machines."""
    return suite_of(name), _cells(name, machine or this_machine())


@cache
def _cells(name: str, machine: Machine) -> tuple[Cell, ...]:
    return tuple(dict.fromkeys(cells_of(suite_of(name), machine)))


def cell_of(record: PublishedRow, machine: Machine | None = None) -> Cell:
    """The one of its suite that measures this row again; every row has one, and only one."""
    _, cells = planned(record.benchmark, machine)
    (found,) = (cell for cell in cells if fits(cell, record))
    return found
