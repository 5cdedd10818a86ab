"""Why a cell does not scale: measures its ablations in rounds and takes their times apart."""

from __future__ import annotations

import random
import sqlite3
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from rich.console import Console

from paceline.plan.cell import Cell
from paceline.plan.devices import cards_of
from paceline.plan.planning import Plan, Run, reason_to_skip
from paceline.plan.requested_suites import plan_of
from paceline.plan.run_keys import run_key
from paceline.plan.settings import Suite
from paceline.plan.shares import EQUAL, MEASURED, given_shares
from paceline.run.older_keys import older_ablation_key, older_run_key, stored_key, with_older_results
from paceline.run.plan_runner import measure
from paceline.run.progress import ProgressDisplay
from paceline.run.session import RunTools, measured_shares
from paceline.store.records.outcome import Outcome, cause_of
from paceline.store.store import Store
from paceline.studies.scaling.ablations import Ablations, make_ablations
from paceline.studies.scaling.lost_time import LostTime, RoundTimes, lost_time, typical
from paceline.system.errors import UserError
from paceline.system.hashing import short_key
from paceline.system.limits import check_flag
from paceline.system.machine.hardware import Machine, this_machine
from paceline.system.machine_lock import MachineLock, alone

NOT_TAKEN = ("repeats", "interval_target", "budget")  # flags of `run` that say how often


class AblationTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What an ablation took, round by round."""

    name: str
    seconds_per_step: tuple[float, ...]
    runs: tuple[str, ...]  # their ids


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A cell and where its time goes. Its fields are those of the JSON form."""

    workload: str
    framework: str
    devices: str
    update: str
    data: str
    input: str
    precision: str
    batch_size: int
    shares: tuple[int, ...]  # of the batch, on each device
    scaling: str
    steps: int
    rounds: int
    oversubscribed: bool
    slow: tuple[float, ...]  # how much longer each device was made to take; empty if none was
    time: LostTime | None  # None where an ablation failed
    ablations: tuple[AblationTimes, ...] = ()
    twins: tuple[AblationTimes, ...] = ()  # the same, by the name that readers of the JSON form have known
    failures: tuple[str, ...] = ()  # which ablation, and why


def explain_cell(
    what: Sequence[str], settings: Mapping[str, Any], rounds: int, folder: Path, *, wait: bool = False
) -> Explanation:
    """Measure the ablations of the one cell that is named, as far as they are not measured yet."""
    _check(settings, rounds)
    plan, store = plan_of(what, settings), Store(folder)
    cell = only_cell(plan)
    with alone(wait=wait) as lock:
        lock.note_plan(folder)
        shares = _settled_shares(cell, plan, store, lock)
        if isinstance(shares, Outcome):
            return _explanation(cell, rounds, failures=(shares.message or "its shares are not known",))
        ablations = make_ablations(replace(cell, shares=shares), cards_of(cell.device_set, this_machine()))
        _check_possible(ablations)
        known = store.done(count_failed=False)
        planned = rounds_of(ablations, rounds, plan.suite, this_machine(), known)
        _measure_rounds(planned, plan, store, lock)
    return _read(ablations, planned, store)


def _check(settings: Mapping[str, Any], rounds: int) -> None:
    for key in NOT_TAKEN:
        if key in settings:
            raise UserError(f"explain measures in rounds: use --rounds instead of --{key.replace('_', '-')}.")
    check_flag("--rounds", rounds)


def only_cell(plan: Plan) -> Cell:
    """The one that is to be explained; anything else is the user's mistake."""
    if len(plan.cells) != 1:
        raise UserError(
            f"explain takes one cell, and these flags give {len(plan.cells)}; "
            "name one framework, one set of devices and one value of everything else."
        )
    cell = plan.cells[0]
    if cell.device_set.count == 1:
        raise UserError(f"{cell.devices} is one device, which has no scaling to explain; use such as --devices 2xcpu.")
    for skip in plan.skips:
        raise UserError(f"{cell.framework} {cell.devices} cannot be measured: {skip.reason}.")
    return cell


def _check_possible(ablations: Ablations) -> None:
    for name, cell in ablations.named().items():
        if reason := reason_to_skip(cell):
            raise UserError(f"{cell.framework} cannot be explained, since its ablation {name!r} cannot be: {reason}.")


def _settled_shares(cell: Cell, plan: Plan, store: Store, lock: MachineLock) -> str | Outcome:
    """As told; or measured now, so that all ablations get the same; or why that failed."""
    if cell.shares != MEASURED:
        return cell.shares
    plan = with_older_results(plan, store, "ok")
    pilots = tuple(run for run in plan.runs if run.cell != cell)
    measure(changed(plan, runs=pilots), store, "ok", lock)
    tools = RunTools(store, this_machine(), ProgressDisplay(Console(stderr=True), [], store.seconds_of))
    shares = measured_shares(next(run for run in plan.runs if run.cell == cell), tools)
    if isinstance(shares, Outcome):
        return shares
    return EQUAL if len(set(shares)) == 1 else ":".join(map(str, shares))


def rounds_of(
    ablations: Ablations, rounds: int, suite: Suite, machine: Machine, known: Collection[str] = ()
) -> list[list[Run]]:
    """Each ablation once a round, in an order of its own, so that noise hits all alike; `known` keys are stored."""
    cells = ablations.cells()
    orders = [
        random.Random(f"{suite.seed}/{repeat}").sample(cells, len(cells))  # noqa: S311 - order, not secrets
        for repeat in range(rounds)
    ]
    return [
        [Run(cell, repeat, _key(ablations, cell, repeat, machine, known), suite.timeout) for cell in order]
        for repeat, order in enumerate(orders)
    ]


def _key(ablations: Ablations, cell: Cell, repeat: int, machine: Machine, known: Collection[str]) -> str:
    """Also names what is explained: the same ablation of another cell ran at another time, with other noise."""
    both = (ablations.whole, cell)
    return stored_key(
        short_key([run_key(one, repeat, machine) for one in both]),
        lambda: older_ablation_key(*(older_run_key(one, repeat, machine) for one in both)),
        known,
    )


def _measure_rounds(planned: list[list[Run]], plan: Plan, store: Store, lock: MachineLock) -> None:
    """A round that was cut off or has a failure is measured again as a whole: its runs are compared with each other.

    The plan is not saved: a plain `show` goes on showing the last `run`, and the same `explain` prints this again.
    """
    left = [runs for runs in planned if not _is_complete(runs, store)]
    if len(left) < len(planned):
        print(f"{len(planned) - len(left)} of {len(planned)} rounds are measured already", file=sys.stderr)
    for part in (left[:1], left[1:]):
        measure(changed(plan, runs=tuple(run for runs in part for run in runs)), store, "none", lock)
        if not all(_is_complete(runs, store) for runs in part):
            return  # what fails in the first round would fail in the others


def _is_complete(runs: list[Run], store: Store) -> bool:
    newest = [store.newest(run.key) for run in runs]
    return all(found is not None and found["status"] == "ok" for found in newest)


def _read(ablations: Ablations, planned: list[list[Run]], store: Store) -> Explanation:
    """From the stored runs to the explanation, or to the reasons why there is none."""
    found = [{run.cell: store.newest(run.key) for run in runs} for runs in planned]
    if failures := tuple(_failures(ablations, found)):
        return _explanation(ablations.whole, len(planned), failures=failures)
    seconds = [
        {cell: cell.batch_size / row["images_per_second"] for cell, row in rows.items() if row} for rows in found
    ]
    times = [_times(ablations, each) for each in seconds]
    return _explanation(
        ablations.whole,
        len(planned),
        time=lost_time(times, ablations.whole.device_set.count, ablations.whole.scaling),
        ablations=tuple(
            AblationTimes(
                name=name,
                seconds_per_step=tuple(each[cell] for each in seconds),
                runs=tuple(row["id"] for rows in found if (row := rows[cell])),
            )
            for name, cell in ablations.named().items()
        ),
    )


def _failures(ablations: Ablations, found: list[dict[Cell, sqlite3.Row | None]]) -> Iterator[str]:
    """The first of each ablation; rounds after a failed one may be missing."""
    names = {cell: name for name, cell in reversed(ablations.named().items())}  # of several names the first
    for cell in ablations.cells():
        rows = [row for rows in found if (row := rows[cell]) and row["status"] != "ok"]
        for row in rows[:1]:
            why = f"{cause_of(row['kind'], row['phase'], row['message'])} (paceline log {row['id']})"
            yield f"the ablation {names[cell]!r} failed in round {row['repeat'] + 1}: {why}"


def _times(ablations: Ablations, seconds: Mapping[Cell, float]) -> RoundTimes:
    return RoundTimes(
        whole=seconds[ablations.whole],
        without_input=seconds[ablations.without_input],
        without_exchange=seconds[ablations.without_exchange] if ablations.without_exchange else None,
        alone=tuple(seconds[cell] for cell in ablations.alone),
        base=typical([seconds[base] for base in ablations.bases], ablations.counts),
    )


def _explanation(
    cell: Cell,
    rounds: int,
    *,
    time: LostTime | None = None,
    ablations: tuple[AblationTimes, ...] = (),
    failures: tuple[str, ...] = (),
) -> Explanation:
    same = {name: getattr(cell, name) for name in Explanation.__struct_fields__ if name in Cell.__struct_fields__}
    shares = given_shares(cell.shares, cell.batch_size, cell.device_set)
    found = {"time": time, "ablations": ablations, "twins": ablations, "failures": failures}
    return Explanation(**{**same, "shares": shares, "rounds": rounds, **found})
