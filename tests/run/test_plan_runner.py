"""Further rounds: which cells get them, what of them is measured, and when they end."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from paceline.plan.planning import Plan, Run, make_plan
from paceline.plan.suite import make_suite
from paceline.run.plan_runner import further_rounds, pending
from paceline.store.store import Store
from paceline.system.machine.hardware import this_machine
from tests.factories.runs import CELL, record, save_plan, save_run, trained

SECOND = msgspec.structs.replace(CELL, devices="2xcpu", cores=((0,), (1,)))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def planned(store: Store, repeats: int, budget: float = 60.0) -> tuple[Plan, str]:
    """A plan that wants more rounds until no two runs differ, and its id."""
    choices = {"workload": "cifar10-conv", "framework": "fake", "steps": 20, "interval_target": 1e-6, "budget": budget}
    plan = make_plan(make_suite({**choices, "repeats": repeats}, "the test"), this_machine())
    return plan, store.save_plan(plan, "paceline run")


def measure(store: Store, name: str, run: Run, seconds: float) -> None:
    """An id that sorts after those of all plans, in the order of the names."""
    made = msgspec.structs.replace(record(f"run-{name}", run.key, run.cell, repeat=run.repeat), machine=this_machine())
    save_run(store, made, [trained(1000, seconds)])


def test_round_is_all_that_is_measured_of_it_and_measured_again_when_asked(store: Store) -> None:
    older, _ = planned(store, repeats=3)
    for run in older.runs:
        measure(store, f"old-{run.repeat}", run, 10.0 + run.repeat)
    plan, plan_id = planned(store, repeats=2)
    for run in plan.runs:
        measure(store, f"renewed-{run.repeat}", run, 20.0 + run.repeat)
    saved: list[Plan] = []

    def save(wider: Plan) -> str:
        saved.append(wider)
        return "new"

    new_id, added = next(further_rounds(plan, plan_id, store, save))
    assert new_id == "new"
    assert [run.repeat for run in added.runs] == [2]
    assert [run.repeat for run in saved[0].runs] == [0, 1, 2]  # its table has all of them
    assert pending(added, store, "none") == list(added.runs)
    assert pending(added, store, "all") == []


def test_single_run_gets_another(store: Store) -> None:
    plan, plan_id = planned(store, repeats=1)
    measure(store, "a", plan.runs[0], 10.0)
    _, added = next(further_rounds(plan, plan_id, store, lambda _: "new"))
    assert [run.repeat for run in added.runs] == [1]


def test_plan_that_came_from_elsewhere_meanwhile_is_not_taken_for_ours(store: Store) -> None:
    plan, plan_id = planned(store, repeats=1)
    measure(store, "a", plan.runs[0], 10.0)
    save_plan(store, {CELL: ["theirs"], SECOND: ["theirs too"]})
    save_run(store, record("run-theirs", "theirs"), [trained(1000, 10.0)])
    _, added = next(further_rounds(plan, plan_id, store, lambda _: "new"))
    assert [run.cell for run in added.runs] == [plan.runs[0].cell]


def test_rounds_end_with_the_budget_or_when_all_is_known(store: Store) -> None:
    over, over_id = planned(store, repeats=1, budget=0.0)
    measure(store, "a", over.runs[0], 10.0)
    assert list(further_rounds(over, over_id, store, lambda _: "new")) == []
    known, known_id = planned(store, repeats=5)
    for run, name in zip(known.runs[1:], "bcde", strict=True):
        measure(store, name, run, 10.0)
    assert list(further_rounds(known, known_id, store, lambda _: "new")) == []
