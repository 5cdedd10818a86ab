"""No two cells of a plan have one name: in plans, while they are measured, in tables and in what is said of them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from paceline.analysis.findings import findings
from paceline.analysis.rows.labels import placed
from paceline.plan.cell_names import cell_name, cell_names
from paceline.plan.matrix import cells_of
from paceline.plan.planning import make_plan
from paceline.plan.requested_suites import read_suite
from paceline.plan.suite import known_suites, make_suite
from paceline.report.tables.remarks import remarks
from paceline.report.tables.render import markdown, text
from paceline.run.progress import ProgressDisplay
from paceline.store.records.outcome import Outcome
from tests.factories.command_line import CommandLine
from tests.factories.machines import machine
from tests.factories.rows import made_row

CARDS = machine(cores=32, gpus=("K80",) * 16)


def names(**choices: Any) -> list[str]:
    suite = make_suite({"workload": "cifar10-conv", "framework": "fake", **choices}, "the test")
    return list(cell_names(cells_of(suite, machine())).values())


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", known_suites())
def test_every_cell_of_every_suite_has_a_name_of_its_own(name: str, quick: bool) -> None:
    if quick and name in ("demo", "updates"):
        return  # these are small already
    plan = make_plan(read_suite([name], {"quick": True} if quick else {}), CARDS)
    assert len({plan.names()[cell] for cell in plan.cells}) == len(plan.cells)


def test_full_suites_need_what_differs() -> None:
    """Without it 23 cells had 18 names, and 29 had 20."""
    for suite in ("mxnet-multi-gpu", "keras-backends"):
        plan = make_plan(read_suite([suite], {}), CARDS)
        assert len(set(map(cell_name, plan.cells))) < len(plan.cells)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"lr": [0.05, 0.4]}, ["lr=0.05", "lr=0.4"]),
        ({"epochs": [1, 2], "warmup": 0}, ["1 epoch", "2 epochs"]),
        ({"epochs": [0.1, 2], "warmup": 0}, ["40 steps", "2 epochs"]),
        ({"lr": [0.05, 0.4], "epochs": [1]}, ["lr=0.05", "lr=0.4"]),
        ({"precision": ["float32", "bfloat16"]}, ["float32", "bfloat16"]),
        ({"lr": [0.1], "steps": 30}, [""]),
    ],
)
def test_names_say_what_differs_and_nothing_else(choices: dict[str, Any], expected: list[str]) -> None:
    base = "cifar10-conv fake 1xcpu fake:device batch 128"
    assert names(**choices) == [f"{base}, {label}" if label else base for label in expected]


def test_names_of_parts_that_differ_in_their_seed_say_it() -> None:
    of = {"workload": "cifar10-conv", "framework": "fake"}
    parts = [make_suite({**of, "seed": seed}, "the test") for seed in (1, 1337)]
    cells = [cell for part in parts for cell in cells_of(part, machine())]
    base = "cifar10-conv fake 1xcpu fake:device batch 128"
    assert list(cell_names(cells).values()) == [f"{base}, seed 1", f"{base}, seed 1337"]


def test_cells_that_differ_in_what_no_word_says_are_numbered() -> None:
    assert names(lr=[0.1, 0.1000000001]) == [
        "cifar10-conv fake 1xcpu fake:device batch 128",
        "cifar10-conv fake 1xcpu fake:device batch 128 (2)",
    ]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.10000001]), min_size=1, max_size=3),
    st.lists(st.sampled_from([1.0, 2.0, 2.5]), min_size=1, max_size=3),
    st.lists(st.sampled_from(["equal", "3:1", "measured"]), min_size=1, max_size=3),
    st.lists(st.sampled_from(["replicated", "independent"]), min_size=1, max_size=2),
)
def test_no_two_names_of_a_plan_are_alike(
    rates: list[float], epochs: list[float], shares: list[str], updates: list[str]
) -> None:
    choices = {"lr": rates, "epochs": epochs, "shares": shares, "update": updates, "warmup": 0}
    base = {"workload": "cifar10-conv", "framework": "fake", "devices": ["1xcpu", "2xcpu"], "single": "both"}
    suite = make_suite({**base, **choices}, "the test")
    plan = make_plan(suite, machine())
    assert len(set(plan.names().values())) == len({*plan.cells, *(run.cell for run in plan.runs)})
    assert [plan.names()[cell] for cell in plan.cells] == list(cell_names(plan.cells).values())


def test_progress_calls_cells_as_the_plan_does() -> None:
    suite = make_suite({"workload": "cifar10-conv", "framework": "fake", "lr": [0.05, 0.4], "repeats": 1}, "the test")
    plan, shown = make_plan(suite, machine()), io.StringIO()
    with ProgressDisplay(Console(file=shown, width=200), list(plan.runs), lambda _: None, plan.names()) as progress:
        for run in plan.runs:
            progress.begin(run)
            progress.end(run, "an-id", Outcome(status="ok", phase="end", seconds=2.0))
    for rate in ("0.05", "0.4"):
        assert f"cifar10-conv fake 1xcpu fake:device batch 128, lr={rate}: 2 s" in shown.getvalue()


SPEEDS = {"images_per_second_of_runs": (100.0, 101.0, 102.0)}
RATES = [
    made_row(framework=name, learning_rate=rate, reason=why, status="noisy" if why else "ok", **SPEEDS)
    for name in ("torch", "jax")
    for rate, why in ((0.05, ""), (0.4, "95 % interval too wide"))
]


@pytest.mark.parametrize("width", [80, 120])
def test_rows_of_a_table_show_the_rate_that_sets_them_apart(width: int) -> None:
    shown = text(RATES, width=width)
    assert [shown.count(f"lr={rate}") >= 4 for rate in ("0.05", "0.4")] == [True, True]  # two frameworks, two tables
    lines = markdown(RATES).splitlines()
    assert sum(line.startswith("| torch | 1xcpu lr=0.05 |") for line in lines) == 2


def test_rows_of_other_lengths_have_tables_of_their_own() -> None:
    ten, hundred = (made_row(steps=391 * count, whole_epochs=count) for count in (10, 100))
    titles = [line for line in markdown([ten, hundred]).splitlines() if line.startswith("**")]
    assert [title.split(", ")[2] for title in titles] == ["10 epochs", "100 epochs"]


def test_remarks_and_findings_name_the_rate() -> None:
    assert "torch 1xcpu lr=0.4, jax 1xcpu lr=0.4 are noisy: 95 % interval too wide" in remarks(RATES)
    places = {finding.where for finding in findings(RATES) if finding.kind == "fastest"}
    assert places == {"1xcpu lr=0.05", "1xcpu lr=0.4"}


def test_place_of_all_frameworks_leaves_out_what_is_one_framework_s_own() -> None:
    rows = [made_row(framework_version="1"), made_row(framework_version="2"), made_row(framework="jax")]
    assert list(map(placed(rows), rows)) == ["1xcpu 1", "1xcpu 2", "1xcpu 2.13.0"]
    assert placed(rows, frameworks=False)(rows[2]) == "1xcpu"


@pytest.mark.slow
def test_plan_and_table_of_a_real_run_tell_the_rates_apart(paceline: CommandLine) -> None:
    asked = ("cifar10-conv", "--framework", "fake", "--steps", "4", "--warmup", "0", "--batch-size", "8")
    flags = (*asked, "--repeats", "1", "--lr", "0.05,0.4")
    told = paceline("plan", *flags)
    assert [line.split(": ")[0].split()[-1] for line in told.stdout.splitlines()[:2]] == ["lr=0.05", "lr=0.4"]
    ended = paceline("run", *flags)
    assert ended.returncode == 0, ended.stderr
    assert "batch 8, lr=0.05: " in ended.stderr
    assert "lr=0.05" in ended.stdout
    assert [row["learning_rate"] for row in paceline.rows()] == [0.05, 0.4]
