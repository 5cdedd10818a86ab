"""The overhead benchmark: its ratios, intervals and verdicts against answers worked out on paper."""

from __future__ import annotations

import ast
import itertools
import math
import sys
from argparse import Namespace

import msgspec
import pytest
from benchmarks.comparison import (
    Case,
    Pair,
    Speed,
    Target,
    duel_ratio,
    exit_code,
    paired_ratio,
    ratio_of,
    speed_row,
    speed_up,
    spread,
    verdict,
    verdict_line,
)
from benchmarks.contestants import (
    ROOT,
    WORKLOAD,
    YARDSTICKS,
    Result,
    launcher,
    run_duel,
    run_handwritten,
    script_arguments,
)
from benchmarks.handwritten import task
from benchmarks.handwritten.rein import Rein
from benchmarks.handwritten.task import CLASSES
from benchmarks.overhead import contests_of, place_in_table, planned

from paceline.analysis.statistics.intervals import Estimate, estimate
from paceline.catalog.networks.cost import NetworkCost
from paceline.catalog.workloads import WORKLOADS
from paceline.plan.cell import Cell
from paceline.plan.planning import Run
from paceline.system.errors import UserError
from tests.factories.runs import on_devices

ONE, TWO = Case("torch", "by hand", 1), Case("torch", "by hand", 2)
SHARED = ("task", "rein")  # modules of benchmarks/handwritten that scripts share
SCRIPTS = sorted({yardstick.script for yardsticks in YARDSTICKS.values() for yardstick in yardsticks.values()})
MEASURED = [(framework, name) for framework, yardsticks in YARDSTICKS.items() for name in yardsticks]
ON_DEVICES = [  # the most that each trains on of these; what trains on two has its duel on one
    (framework, name, max(devices for devices in (1, 2) if YARDSTICKS[framework][name].trains_on(devices)))
    for framework, name in MEASURED
]


def pair(case: Case, ours: float, handwritten: float) -> Pair:
    """Two runs with these images/s, each busy for half of the time."""
    return Pair(case, Speed(ours, 2 * ours, ()), Speed(handwritten, 2 * handwritten, ()))


def run_of(cell: Cell) -> Run:
    return Run(cell, repeat=0, key="key", timeout_seconds=300.0)


def at_least(low: float | None, high: float | None) -> Target:
    return Target("ratio", Estimate(0.97, low, high), 0.98, at_least=True)


def less_than(low: float | None, high: float | None) -> Target:
    return Target("percent", Estimate(1.5, low, high), 2.0)


def test_paired_ratio_is_the_median_of_the_rounds() -> None:
    # 1.00, 0.95 and 0.90, each with a base of its own.
    assert paired_ratio([100, 95, 99], [100, 100, 110]) == estimate([1.0, 0.95, 0.9])


def test_machine_that_slows_down_between_rounds_changes_no_ratio() -> None:
    assert paired_ratio([100, 50, 25], [100, 50, 25]) == Estimate(1.0, 1.0, 1.0)


def test_single_round_has_a_ratio_without_an_interval() -> None:
    assert paired_ratio([99], [100]) == Estimate(0.99)


def test_spread_is_the_range_over_the_median() -> None:
    assert spread([110, 90, 100]) == 0.2


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (at_least(0.98, 1.02), "met"),  # the limit itself is kept
        (at_least(0.97, 1.02), "cannot tell"),
        (at_least(0.95, 0.979), "not met"),
        (at_least(0.95, 0.98), "cannot tell"),
        (at_least(None, None), "cannot tell"),
        (less_than(1.0, 1.99), "met"),
        (less_than(1.0, 2.0), "cannot tell"),
        (less_than(2.0, 3.0), "not met"),  # the limit itself is not less than the limit
        (less_than(None, None), "cannot tell"),
        (Target("nothing", None, 2.0), "cannot tell"),
    ],
)
def test_verdict_needs_the_whole_interval(target: Target, expected: str) -> None:
    assert verdict(target) == expected


def test_only_a_missed_target_fails() -> None:
    assert exit_code([at_least(0.99, 1.0), at_least(0.97, 1.0), less_than(1.0, 1.5)]) == 0
    assert exit_code([at_least(0.99, 1.0), less_than(2.5, 3.0)]) == 1


def test_verdict_line_says_limit_and_measurement() -> None:
    assert verdict_line(at_least(0.95, 1.0)) == "cannot tell: ratio, at least 0.98; measured 0.970 (0.950–1.000)"
    single = Target("help, s", Estimate(0.15, 0.15, 0.15), 0.3)
    assert verdict_line(single) == "met: help, s, less than 0.3; measured 0.150"


def test_ratio_of_a_case_leaves_out_the_others() -> None:
    pairs = [pair(ONE, 90, 100), pair(TWO, 300, 100)]
    assert ratio_of(pairs, ONE, "images/s") == Estimate(0.9)


def test_duel_is_decided_by_its_median_turn() -> None:
    # Ours takes 1, 2 and 4 s where the other takes 1, 1 and 4: 1.0, 0.5 and 1.0 times as fast.
    assert duel_ratio([(1.0, 1.0), (2.0, 1.0), (4.0, 4.0)]) == 1.0


def test_row_of_the_table() -> None:
    pairs = [pair(ONE, 100, 200), pair(ONE, 200, 400)]
    expected = ["torch / by hand, 1 device", "images/processor-s", "300", "600", "0.500", "66.7%"]  # (800 - 400) / 600
    assert speed_row(pairs, ONE, "images/processor-s") == expected


def test_speed_up_compares_devices_within_a_round() -> None:
    # The second round is half as fast throughout: 180/100 and 90/50 are both 1.8.
    pairs = [pair(ONE, 100, 1), pair(TWO, 180, 1), pair(TWO, 90, 1), pair(ONE, 50, 1)]
    assert speed_up(pairs, TWO, "ours") == Estimate(1.8, 1.8, 1.8)


def test_script_gets_the_settings_of_the_cell() -> None:
    run = run_of(on_devices(2, framework="torch", batch_size=128, steps=30, warmup=5))
    flags = "--steps 30 --warmup 6 --batch-size 128 --devices 2 --cores 0,1"
    expected = f"-m benchmarks.handwritten.torch_resnet20 {flags}"
    assert " ".join(script_arguments(run, YARDSTICKS["torch"]["by hand"])) == expected


def test_only_torch_on_several_devices_has_several_processes() -> None:
    assert launcher("python", run_of(on_devices(1, framework="torch"))) == ["python"]
    assert launcher("python", run_of(on_devices(2, framework="jax"))) == ["python"]
    assert launcher("python", run_of(on_devices(2, framework="torch")))[-2:] == ["--nproc-per-node", "2"]


def options(**changes: object) -> Namespace:
    return Namespace(**{"framework": "tensorpack,mxnet", "devices": "1,2", "steps": 10, "rounds": 1, **changes})


def test_every_yardstick_is_a_contest_on_the_devices_it_declares() -> None:
    found = [case for _, case in contests_of(planned(options()))]
    assert sorted(found, key=place_in_table) == [
        Case("mxnet", "Gluon", 1),
        Case("mxnet", "Gluon", 2),
        Case("mxnet", "Module", 1),
        Case("mxnet", "Module", 2),
        Case("tensorpack", "its trainer", 1),
    ]


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(UserError, match="so many devices"):
        contests_of(planned(options(framework="tensorpack", devices="2")))


def imported(path: str) -> set[str]:
    """Full names of the modules that a script of benchmarks/handwritten imports, and of what it takes from them."""
    tree = ast.parse((ROOT / "benchmarks" / "handwritten" / f"{path}.py").read_text(encoding="utf-8"))
    taken = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    names = {f"{node.module}.{alias.name}" for node in taken for alias in node.names}
    return names | {alias.name for node in plain for alias in node.names}


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_imports_nothing_of_ours_but_other_scripts(script: str) -> None:
    ours = [name for name in imported(script) if name.startswith(("paceline", "benchmarks"))]
    assert not [name for name in ours if not name.startswith("benchmarks.handwritten.")]


@pytest.mark.parametrize("module", SHARED)
def test_what_scripts_share_needs_only_the_standard_library(module: str) -> None:
    assert {name.split(".")[0] for name in imported(module)} <= sys.stdlib_module_names


def test_script_reports_the_losses_of_its_first_steps_and_the_time_of_the_rest() -> None:
    losses, taken = itertools.count(), list[int]()

    def train(steps: int) -> list[float]:
        taken.append(steps)
        return [float(next(losses)) for _ in range(steps)]

    result = task.measured(task.Trainer(train, 7), Namespace(warmup=5, steps=10, batch_size=4))
    assert taken == [1, 1, 1, 2, 10]
    assert (result["images"], result["parameters"], result["first_losses"]) == (40, 7, [0.0, 1.0, 2.0])


def test_rein_lets_a_loop_take_so_many_steps_and_no_more() -> None:
    rein, done = Rein(), list[int]()

    def loop() -> None:
        for step in itertools.count():
            rein.before_step()
            done.append(step)
            rein.after_step(step / 2)

    rein.start(loop)
    assert done == []
    assert [rein.take(2), rein.take(0), rein.take(1)] == [[0.0, 0.5], [], [1.0]]
    assert done == [0, 1, 2]


def test_loop_that_fails_under_the_rein_is_heard_of() -> None:
    def loop() -> None:
        raise ValueError("no such layer")

    with pytest.raises(RuntimeError) as failure:
        Rein().start(loop)
    assert str(failure.value.__cause__) == "no such layer"


def test_hand_written_network_of_another_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run, parameters = run_of(on_devices(1, workload=WORKLOAD, framework="torch")), [0]

    def printed(*_: object) -> bytes:
        line = Result(images=40, seconds=2.0, processor_seconds=4.0, parameters=parameters[0], first_losses=(2.3,))
        return b"a warning\n" + msgspec.json.encode(line)

    monkeypatch.setattr("benchmarks.contestants.output_of", printed)
    expected = NetworkCost.of(WORKLOADS[WORKLOAD].graph()).trainable
    parameters[0] = expected
    assert run_handwritten(run, YARDSTICKS["torch"]["by hand"], print) == Speed(20.0, 10.0, (2.3,))
    parameters[0] = expected - 1
    with pytest.raises(RuntimeError, match=f"has {expected - 1} parameters, ours has {expected}"):
        run_handwritten(run, YARDSTICKS["torch"]["by hand"], print)


@pytest.mark.real
@pytest.mark.parametrize(("framework", "name", "devices"), ON_DEVICES)
def test_script_trains_a_network_of_our_size(framework: str, name: str, devices: int) -> None:
    """From a loss that guessing has, and another one after each step."""
    cell = on_devices(devices, workload=WORKLOAD, framework=framework, batch_size=4, steps=2, warmup=2)
    losses = run_handwritten(run_of(cell), YARDSTICKS[framework][name], print).losses  # refuses another size
    assert math.log(CLASSES) / 2 < losses[0] < 2 * math.log(CLASSES)
    assert len(set(losses)) == 3


@pytest.mark.real
@pytest.mark.parametrize(("framework", "name"), MEASURED)
def test_duel_gives_the_seconds_of_both_in_every_turn(
    framework: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of processors, by turns and for the same work: a side that does not train, or trains more, is far off."""
    monkeypatch.setattr("benchmarks.contestants.DUEL_TURNS", 3)
    cell = on_devices(1, workload=WORKLOAD, framework=framework, batch_size=4)
    turns = run_duel(run_of(cell), YARDSTICKS[framework][name], print)
    assert len(turns) == 3
    assert 0.2 < duel_ratio(turns) < 5
