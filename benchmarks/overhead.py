"""What Paceline costs: its training beside the same training in scripts written by hand, and its own processor time.

`python -m benchmarks.overhead` exits with 1 if a target is missed; a noisy machine makes it "cannot tell", not missed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.comparison import (
    MEASURES,
    Case,
    Pair,
    Target,
    duel_ratio,
    exit_code,
    on_one_device,
    ratio_of,
    speed_row,
    speed_up,
    verdict_line,
    with_interval,
)
from benchmarks.contestants import WORKLOAD, YARDSTICKS, Meter, run_duel, run_handwritten, run_ours
from paceline.analysis.statistics.intervals import Estimate, estimate
from paceline.plan.planning import Plan, Run, make_plan
from paceline.plan.suite import make_suite
from paceline.run.session import RunTools
from paceline.store.store import Store
from paceline.system.errors import UserError, unknown
from paceline.system.machine.hardware import this_machine
from paceline.system.machine_lock import alone

WARMUP = 5
SEED = 1  # of the order in which the two of a pair run
TIMEOUT_SECONDS = 600.0  # for one run
RATIO_LIMIT = 0.99
ORCHESTRATOR_PERCENT_LIMIT = 2.0
HELP_SECONDS_LIMIT = 0.3
HELP_TRIES = 5

Contest = tuple[Run, Case]  # ours, and beside what


def main() -> int:
    try:
        options = arguments()
        contests = contests_of(planned(options))
        with alone(), tempfile.TemporaryDirectory() as folder:
            duels = duel_targets(contests)
            if options.duels_only:
                return verdicts(duels)
            pairs, percents = measure(contests, Store(Path(folder)))
    except UserError as error:
        print(f"overhead: {error}", file=sys.stderr)
        return 1
    show_speeds(pairs)
    show_speed_ups(pairs)
    show_losses(pairs)
    return verdicts([*duels, *ratio_targets(pairs), *own_targets(percents)])


def verdicts(targets: Sequence[Target]) -> int:
    for target in targets:
        print(verdict_line(target))
    return exit_code(targets)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30, help=f"measured steps of a run, more than {WARMUP}")
    parser.add_argument("--framework", default=",".join(YARDSTICKS))
    parser.add_argument("--devices", default="1,2", help="numbers of CPU devices of one core each")
    parser.add_argument("--duels-only", action="store_true", help="leave out the longer runs in fresh processes")
    return parser.parse_args()


def planned(options: argparse.Namespace) -> Plan:
    """Paceline's own plan shuffles the cells of every round; the hand-written runs go along with it."""
    frameworks = options.framework.split(",")
    for name in frameworks:
        if name not in YARDSTICKS:
            raise unknown("hand-written framework", name, YARDSTICKS)
    settings = {
        "workload": WORKLOAD,
        "framework": frameworks,
        "devices": [f"{count}xcpu" for count in options.devices.split(",")],
        "data": "fake:device",
        "steps": options.steps,
        "warmup": WARMUP,
        "cores_per_device": 1,
        "repeats": options.rounds,
        "timeout": TIMEOUT_SECONDS,
    }
    return make_plan(make_suite(settings, "the command line"), this_machine())


def contests_of(plan: Plan) -> list[Contest]:
    """Each run beside each yardstick of its framework that can train on so many devices."""
    contests = [
        (run, Case(run.cell.framework, name, run.cell.device_set.count))
        for run in plan.runs
        for name, yardstick in YARDSTICKS[run.cell.framework].items()
        if yardstick.trains_on(run.cell.device_set.count)
    ]
    if not contests:
        raise UserError(
            "No hand-written script trains on so many devices; see YARDSTICKS in benchmarks/contestants.py."
        )
    return contests


def measure(contests: Sequence[Contest], store: Store) -> tuple[list[Pair], list[float]]:
    """All pairs, and the share of a core that this process took during each of Paceline's runs."""
    order = random.Random(SEED)  # noqa: S311 - order, not secrets
    with Meter(Console(stderr=True), [run for run, _ in contests], store.seconds_of) as meter:
        tools = RunTools(store, this_machine(), meter)
        pairs = [measure_pair(contest, tools, meter, ours_first=order.random() < 0.5) for contest in contests]
    return pairs, meter.processor_percents


def measure_pair(contest: Contest, tools: RunTools, meter: Meter, *, ours_first: bool) -> Pair:
    run, case = contest
    yardstick = YARDSTICKS[case.framework][case.yardstick]
    if ours_first:
        ours = run_ours(run, tools, meter)
        return Pair(case, ours, run_handwritten(run, yardstick, meter.say))
    handwritten = run_handwritten(run, yardstick, meter.say)
    return Pair(case, run_ours(run, tools, meter), handwritten)


def duel_targets(contests: Sequence[Contest]) -> list[Target]:
    """Both loops in one process, turn by turn: the comparison that noise spares. One ratio for each round."""
    ratios: dict[Case, list[float]] = {}
    for run, case in contests:
        if case.devices == 1:
            turns = run_duel(run, YARDSTICKS[case.framework][case.yardstick], print)
            ratios.setdefault(case, []).append(duel_ratio(turns))
    promise = "{}, turn by turn: images/processor-s, ours / hand-written"
    return [
        Target(promise.format(case), estimate(found), RATIO_LIMIT, at_least=True)
        for case, found in sorted(ratios.items(), key=lambda item: place_in_table(item[0]))
    ]


def place_in_table(case: Case) -> tuple[int, int, int]:
    yardsticks = YARDSTICKS[case.framework]
    return list(YARDSTICKS).index(case.framework), list(yardsticks).index(case.yardstick), case.devices


def cases(pairs: Sequence[Pair]) -> list[Case]:
    """In the order of the table, whatever the order of the rounds."""
    return sorted({pair.case for pair in pairs}, key=place_in_table)


def ratio_targets(pairs: Sequence[Pair]) -> list[Target]:
    return [
        Target(f"{case}: {measure}, ours / hand-written", ratio_of(pairs, case, measure), RATIO_LIMIT, at_least=True)
        for case in cases(pairs)
        for measure in MEASURES
    ]


def own_targets(percents: Sequence[float]) -> list[Target]:
    seconds = min(help_seconds() for _ in range(HELP_TRIES))
    return [
        Target("orchestrator and monitor, % of a core", estimate(percents), ORCHESTRATOR_PERCENT_LIMIT),
        Target("paceline --help, s", Estimate(seconds, seconds, seconds), HELP_SECONDS_LIMIT),
    ]


def help_seconds() -> float:
    start = time.perf_counter()
    program = Path(sys.executable).with_name("paceline")
    subprocess.run([program, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def show_speeds(pairs: Sequence[Pair]) -> None:
    rows = [speed_row(pairs, case, measure) for case in cases(pairs) for measure in MEASURES]
    headings = ["case", "measure", "ours", "hand-written", "ours / hand-written (95 %)", "noise"]
    note = "Ratio: median over rounds of neighbours in time. Noise: (max - min) / median of the hand-written runs."
    show_table(headings, rows, note)


def show_speed_ups(pairs: Sequence[Pair]) -> None:
    several = [case for case in cases(pairs) if case.devices > 1 and on_one_device(case) in cases(pairs)]
    rows = [
        [str(case), *(with_interval(speed_up(pairs, case, side)) for side in ("ours", "handwritten"))]
        for case in several
    ]
    if rows:
        show_table(["images/s against 1 device, same batch in all", "ours (95 %)", "hand-written (95 %)"], rows)


def show_losses(pairs: Sequence[Pair]) -> None:
    """Not equal, since each has random weights of its own, but of one kind."""
    first = [next(pair for pair in pairs if pair.case == case) for case in cases(pairs)]
    rows = [[str(pair.case), *(losses_text(side.losses) for side in (pair.ours, pair.handwritten))] for pair in first]
    show_table(["first losses", "ours", "hand-written"], rows)


def losses_text(losses: Sequence[float]) -> str:
    return " ".join(f"{loss:.3f}" for loss in losses)


def show_table(headings: list[str], rows: list[list[str]], note: str = "") -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="left" if position == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(width=130, highlight=False, markup=False)
    console.print(table)
    console.print(note + "\n" if note else "")


if __name__ == "__main__":
    sys.exit(main())
