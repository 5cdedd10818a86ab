"""What is seen while runs go on: one live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from paceline.plan.cell import Cell
from paceline.plan.cell_names import cell_name
from paceline.plan.planning import Run
from paceline.store.records.events import AnyEvent
from paceline.store.records.outcome import Outcome
from paceline.store.training_progress import TrainingSoFar
from paceline.system.text.formatting import duration, number
from paceline.system.text.safe_text import printable

WARM_UP = "warm-up"  # the key of runs that are forgotten


class Display:
    """Shows what happens: here, nothing of it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def say(self, line: str) -> None: ...
    def begin(self, run: Run) -> None: ...
    def show(self, event: AnyEvent, ranks: Sequence[Sequence[AnyEvent]]) -> None: ...
    def end(self, run: Run, run_id: str, outcome: Outcome) -> None: ...


class CommandLines(Display):
    """A line for each run of a command that is not ours, also for those that only warm up."""

    def __init__(self, say: Callable[[str], None], runs: Sequence[Run]) -> None:
        self._say, self._ended = say, 0
        self._warmup_runs = 1 + max((run.repeat for run in runs if run.key == WARM_UP), default=0)
        self._total = sum(run.key != WARM_UP for run in runs)

    def end(self, run: Run, run_id: str, outcome: Outcome) -> None:
        if run.key == WARM_UP:
            place = f"warm-up {run.repeat + 1}/{self._warmup_runs}"
        else:
            self._ended += 1
            place = f"{self._ended}/{self._total}"
        seconds = f"{outcome.seconds:.2f} s" if outcome.seconds < 60 else duration(outcome.seconds)
        result = seconds if outcome.status == "ok" else f"failed: {outcome.kind}: {outcome.message}"
        self._say(f"[{place}] {run.cell.framework}: {result}")


class ProgressDisplay(Display):
    """Counts runs, blocks and time."""

    def __init__(
        self,
        console: Console,
        runs: list[Run],
        expected: Callable[[Run], float | None],
        names: Mapping[Cell, str] | None = None,
    ) -> None:
        self._names = names or {}
        self._console = console
        self._left = list(runs)
        self._total = len(runs)
        self._expected = expected
        self._took: list[float] = []
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, line: str) -> None:
        self._console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def begin(self, run: Run) -> None:
        self._run = run
        self._number = self._total - len(self._left) + 1
        self._refresh("start", ())

    def show(self, event: AnyEvent, ranks: Sequence[Sequence[AnyEvent]]) -> None:
        self._refresh(event.phase, ranks)

    def _refresh(self, phase: str, ranks: Sequence[Sequence[AnyEvent]]) -> None:
        """Redraw when something happened, not on a timer: the line must cost nothing while a run is measured."""
        if self._live is None:
            return
        trained = TrainingSoFar.of(ranks)
        speed = f", {number(trained.images_per_second)} images/s" if trained.seconds else ""
        step = f" {trained.steps}/{self._run.cell.steps}" if phase == "train" else ""
        line = f"[{self._number}/{self._total}] {self._name(self._run)}: {phase}{step}{speed}{self._time_left()}"
        self._live.update(Text(printable(line), overflow="ellipsis", no_wrap=True), refresh=True)

    def _name(self, run: Run) -> str:
        return self._names.get(run.cell) or cell_name(run.cell)

    def _time_left(self) -> str:
        mean = statistics.mean(self._took) if self._took else None
        known = [seconds for run in self._left if (seconds := self._expected(run) or mean) is not None]
        return f", {duration(sum(known))} left" if len(known) == len(self._left) else ""

    def end(self, run: Run, run_id: str, outcome: Outcome) -> None:
        self._left.remove(run)
        self._took.append(outcome.seconds)
        if outcome.status == "failed":
            result = f"failed in {outcome.phase}: {outcome.kind}: {outcome.message} (paceline log {run_id})"
        else:
            result = f"{duration(outcome.seconds)}{self._time_left()}"
        result += "".join(f"; {remark}" for remark in outcome.remarks)
        self.say(f"[{self._number}/{self._total}] {self._name(run)}: {result}")
