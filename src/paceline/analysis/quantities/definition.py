"""What a quantity is: everything that any report has to know about it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from paceline.analysis.statistics.yardsticks import RATIO, Yardstick
from paceline.plan.cell import Cell
from paceline.store.run_results import RunResult
from paceline.system.text.formatting import number

MORE, LESS, NEITHER = 1, -1, 0
ESTIMATE, MEDIAN, OF_RUNS, OF_EACH = "estimate", "median", "of runs", "of each"  # the forms in which JSON has one
MEBIBYTE = 2**20


def never_a_doubt(cell: Cell, runs: Sequence[RunResult]) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One thing that is measured, in every run that can have it."""

    name: str  # in the index, unless `stored` is another; of a plug-in's also in JSON
    label: str  # in tables, charts and `compare --metric`
    meaning: str  # its definition, in a few words
    unit: str = ""  # after a number
    better: int = NEITHER  # MORE or LESS of it
    absent: str = ""  # which runs do not have it
    stored: str = ""  # the name of its values in the index
    of_run: Callable[[RunResult], float | None] | None = None  # worked out from other values of a run
    per_unit: float = 1.0  # what is stored, for one of the unit
    yardstick: Yardstick = RATIO  # how two samples are compared
    text: Callable[[float], str] = number  # a value without its unit
    applies: Callable[[Cell], bool] = lambda cell: True
    middle: Callable[[Sequence[float], int], float | None] | None = None  # of values from so many runs
    doubt: Callable[[Cell, Sequence[RunResult]], str] = never_a_doubt  # why values are no result
    both_doubtful: bool = False  # a comparison stands if only one side is doubtful
    finding: str = ""  # the kind of finding that names the best row; empty where none does
    superlative: str = ""  # what the best row is: "least memory"
    question: str = ""  # likewise, where answers ask for it: "Least memory"
    replayed: str = ""  # its name where a run and its replay are compared; empty where it is not
    forms: Mapping[str, str] = field(default_factory=dict)  # its fields in JSON, and in which form each has it

    @property
    def index_name(self) -> str:
        return self.stored or self.name

    @property
    def comparable(self) -> bool:
        """One direction is better, and it does not hang on what a table was asked for, as a target does."""
        return self.better != NEITHER and self.middle is None

    @property
    def is_estimated(self) -> bool:
        """Whether its interval is wanted, not its median alone."""
        return ESTIMATE in self.forms.values()

    def value(self, run: RunResult) -> float | None:
        """Of the whole run, as it is stored: those of several processes or devices are added up."""
        return self.of_run(run) if self.of_run else run.total(self.index_name)

    def values(self, runs: Sequence[RunResult]) -> list[float]:
        """Of each run that has it."""
        return [value for run in runs if (value := self.value(run)) is not None]

    def values_of(self, cell: Cell, runs: Sequence[RunResult]) -> list[float]:
        """Likewise of runs of a cell, if such cells have it at all."""
        return self.values(runs) if self.applies(cell) else []

    def of_all(self, values: Sequence[float], runs: int) -> float | None:
        """What a cell has of it, whose runs had these values."""
        if self.middle:
            return self.middle(values, runs)
        return statistics.median(values) if values else None
