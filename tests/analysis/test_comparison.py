"""Two sets of results: p-values from tables, verdicts on made numbers, and the real command on real stores."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.analysis.comparison.compare import ComparedCell, Comparison, compare, compare_values
from paceline.analysis.comparison.selections import choose
from paceline.analysis.quantities.known import SECONDS, SPEED, comparable
from paceline.analysis.statistics.yardsticks import RATIO
from paceline.cli import app
from paceline.plan.cell import Cell
from paceline.report.formats import as_text
from paceline.report.studies.comparison import FORMATS, document, notes, summary
from paceline.store.records.events import AnyEvent
from paceline.store.store import Store
from tests.factories.command_line import CommandLine
from tests.factories.events import block, entered, evaluated, finished
from tests.factories.machines import machine
from tests.factories.runs import CELL, FAILED, OK, cell, record, save_plan, save_run, trained
from tests.factories.server import serving

FIVE = (100.0, 101.0, 102.0, 103.0, 104.0)


def verdict(old: Sequence[float], new: Sequence[float], *, more: bool = True, threshold: float = 0.05) -> ComparedCell:
    return compare_values(CELL, SPEED if more else SECONDS, old, new, threshold)


def test_rounds_that_stopped_by_themselves_are_compared_by_wider_intervals(tmp_path: Path) -> None:
    widths = []
    for target in (None, 0.9):
        sides = {}
        for name, speed in (("old", 10.0), ("new", 11.0)):
            store = Store(tmp_path / f"{name}{target}")
            keys = [str(number) for number in range(9)]
            for key in keys:
                save_run(store, record(f"run-{key}", key), [trained(1000, speed + int(key))])
            save_plan(store, {CELL: keys}, interval_target=target)
            sides[name] = choose(str(store.folder), store.folder, SPEED)
        (compared,) = compare(sides["old"], sides["new"], 0.05).cells
        assert compared.ratio
        widths.append(compared.ratio.width or 0.0)
    assert widths[1] > widths[0]


def test_surely_slower_is_worse_and_beyond_the_threshold_a_regression() -> None:
    slower = verdict(FIVE, [0.9 * value for value in FIVE])
    assert (slower.verdict, slower.regression) == ("worse", True)
    # Around 102 both reach from 100 to 104: ln(102 / 100) = 0.0198 and ln(104 / 102) = 0.0194, together 0.0277.
    assert slower.ratio is not None
    bounds = (slower.ratio.median, slower.ratio.low, slower.ratio.high)
    assert bounds == pytest.approx((0.9, 0.9 * math.exp(-0.0277), 0.9 * math.exp(0.0277)), abs=1e-4)
    assert slower.p == pytest.approx(4.95e-06, rel=1e-2)  # t = 10.75 with 8 degrees of freedom
    tolerated = verdict(FIVE, [0.9 * value for value in FIVE], threshold=0.1)
    assert (tolerated.verdict, tolerated.regression) == ("worse", False)  # the interval reaches 0.925


def test_surely_faster_is_better() -> None:
    assert verdict(FIVE, [1.2 * value for value in FIVE]).verdict == "better"


def test_more_seconds_are_worse() -> None:
    longer = verdict(FIVE, [1.2 * value for value in FIVE], more=False)
    assert (longer.verdict, longer.regression) == ("worse", True)
    assert verdict(FIVE, [0.8 * value for value in FIVE], more=False).verdict == "better"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ((100.0,), (50.0,), "a single run has no interval"),
        ((100, 104, 115), (90, 97, 99.9), "the interval includes 1"),  # though each is below all of the others
        (FIVE, FIVE, "the interval includes 1"),
        (FIVE, (99.0, 100.5, 102.5, 103.5, 105.0), "the interval includes 1"),
        (FIVE, (0.0, 1.0, 2.0, 3.0, 4.0), "not above zero, so there is no ratio"),
        (FIVE, (), "not measured"),
        ([100.0 + value for value in range(50)], (1.0,), "a single run has no interval"),
    ],
)
def test_cannot_tell_says_why(old: Sequence[float], new: Sequence[float], reason: str) -> None:
    found = verdict(old, new)
    assert (found.verdict, found.regression, found.reason) == ("cannot tell", False, reason)


def test_detectable_difference_worked_out_by_hand() -> None:
    # Both scatter by 2 % (as logarithms 0.02); t with 6 degrees of freedom: 2.447 for 5 % and 0.906 for 80 % power.
    side = [math.exp(0.02 * step) for step in (-math.sqrt(1.5), 0.0, 0.0, math.sqrt(1.5))]  # variance 0.02² · 3 / 3
    expected = math.expm1((2.447 + 0.906) * math.sqrt(math.pi / 2) * 0.02 * math.sqrt(1 / 4 + 1 / 4))
    assert RATIO.detectable(side, side) == pytest.approx(expected, rel=1e-3)
    assert RATIO.detectable([1.0], [1.0, 2.0, 3.0]) is None  # a single run does not scatter
    assert RATIO.detectable([0.0, 1.0], [1.0, 2.0, 3.0]) is None


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=8), st.lists(st.floats(1, 1000), min_size=1, max_size=8))
@settings(max_examples=50)
def test_no_side_is_better_than_the_other_both_ways(old: list[float], new: list[float]) -> None:
    there, back = verdict(old, new), verdict(new, old)
    assert there.verdict == "cannot tell" or there.verdict != back.verdict
    assert there.p == pytest.approx(back.p)


Speeds = Mapping[Cell, Sequence[float]]
OTHER = cell(framework="fake+shout")
INCONCLUSIVE = "INCONCLUSIVE, no cell has a verdict on images/s"


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Store, Store]:
    return Store(tmp_path / "old"), Store(tmp_path / "new")


def fill(store: Store, speeds: Speeds, *, name: str = "", suite: str = "made", **facts: Any) -> None:
    """A plan with runs that trained so many images in a second; 0 stands for one that crashed."""
    keys = {one: [f"{name}{place}-{repeat}" for repeat in range(len(speeds[one]))] for place, one in enumerate(speeds)}
    for one, measured in speeds.items():
        for key, speed in zip(keys[one], measured, strict=True):
            saved = msgspec.structs.replace(record(f"run-{key}", key, one), **facts)
            save_run(store, saved, [trained(round(100 * speed), 100.0)], OK if speed else FAILED)
    save_plan(store, keys, suite=suite)


def times(factor: float) -> list[float]:
    return [factor * value for value in FIVE]


def compared(old: object, new: object, store: Store | None = None, metric: str = "images/s") -> Comparison:
    folder = store.folder if store else Path("nowhere")
    return compare(choose(str(old), folder, comparable(metric)), choose(str(new), folder, comparable(metric)), 0.05)


def verdicts(found: Comparison) -> list[str]:
    return [one.verdict for one in found.cells]


@pytest.mark.slow
def test_regression_ends_with_code_3_and_one_line(stores: tuple[Store, Store]) -> None:
    old, new = stores
    fill(old, {CELL: FIVE, OTHER: FIVE})
    fill(new, {CELL: times(0.8), OTHER: FIVE})
    paceline = CommandLine(old.folder)
    ended = paceline("compare", str(old.folder), str(new.folder))
    assert ended.returncode == 3
    last = "1 regression in images/s beyond 5 %, 1 of 2 cells inconclusive: 1 cannot tell, 1 worse"
    assert ended.stdout.splitlines()[-1] == last
    line = next(line for line in ended.stdout.splitlines() if line.startswith("fake 1xcpu"))
    assert " ".join(line.split()) == "fake 1xcpu 5, 5 102 81.6 0.800 0.778–0.822 <0.001 4.0 % regression"
    assert paceline("compare", str(old.folder), str(new.folder), "--threshold", "0.3").returncode == 0
    assert paceline("compare", str(new.folder), str(old.folder)).returncode == 0  # faster is no regression


def test_what_fails_now_is_a_regression(stores: tuple[Store, Store]) -> None:
    old, new = stores
    fill(old, {CELL: FIVE, OTHER: (0.0, 0.0)})
    fill(new, {CELL: (100.0, 0.0), OTHER: FIVE})
    found = compared(old.folder, new.folder)
    assert verdicts(found) == ["failed", "works again"]
    assert found.regressions == 1
    assert "failed: in new 1 of 2 runs failed: crash in train: killed by SIGSEGV: fake 1xcpu" in notes(found)


CRASHED = "crash in train: killed by SIGSEGV"


@pytest.mark.parametrize(
    ("old", "new", "verdict", "regression", "reason"),
    [
        ((0.0, *FIVE), times(0.5), "worse", True, f"in old 1 of 6 runs failed: {CRASHED}"),
        ((0.0, *FIVE), times(2), "better", False, f"in old 1 of 6 runs failed: {CRASHED}"),
        (
            (0.0, *FIVE),
            (0.0, *times(0.5)),
            "worse",
            True,
            f"in new 1 of 6 runs failed: {CRASHED}; in old 1 of 6 runs failed: {CRASHED}",
        ),
        (
            (0.0, 1.0),
            FIVE,
            "cannot tell",
            False,
            f"a single run has no interval; in old 1 of 2 runs failed: {CRASHED}",
        ),
        (
            (0.0, 1.0, 1.0, 1.0, 1.0),
            (0.0,) * 5,
            "failed",
            True,
            f"in new 5 of 5 runs failed: {CRASHED}; in old 1 of 5 runs failed: {CRASHED}",
        ),
        (
            (0.0, 1.0, 1.0, 1.0, 1.0),
            (0.0, 0.0, 9.0, 9.0, 9.0),
            "failed",
            True,
            f"in new 2 of 5 runs failed: {CRASHED}; in old 1 of 5 runs failed: {CRASHED}",
        ),
        (
            (0.0, 0.0),
            (0.0, 100.0),
            "works again",
            False,
            f"in new 1 of 2 runs failed: {CRASHED}; in old 2 of 2 runs failed: {CRASHED}",
        ),
        (
            (0.0, 0.0),
            (0.0,),
            "failed in both",
            False,
            f"in new 1 of 1 runs failed: {CRASHED}; in old 2 of 2 runs failed: {CRASHED}",
        ),
    ],
)
def test_failures_are_counted_and_the_other_runs_are_judged(
    stores: tuple[Store, Store], old: Sequence[float], new: Sequence[float], verdict: str, regression: bool, reason: str
) -> None:
    before, after = stores
    fill(before, {CELL: old, OTHER: FIVE})
    fill(after, {CELL: new, OTHER: FIVE})
    found = compared(before.folder, after.folder).cells[0]
    assert (found.verdict, found.regression, found.reason) == (verdict, regression, reason)


def test_as_large_a_part_of_more_runs_that_fails_is_no_regression(stores: tuple[Store, Store]) -> None:
    old, new = stores
    fill(old, {CELL: (0.0, *FIVE)})
    fill(new, {CELL: (0.0, 0.0, *FIVE, *FIVE)})
    assert compared(old.folder, new.folder).regressions == 0


def test_last_line_says_when_no_cell_could_have_shown_a_difference(stores: tuple[Store, Store]) -> None:
    old, new = stores
    fill(old, {CELL: FIVE[:1], OTHER: FIVE[:2]}, name="a")
    fill(new, {CELL: times(0.5)[:1], OTHER: FIVE[:1]}, name="a")
    blind = f"{INCONCLUSIVE}: 2 cannot tell; too few runs to show any difference"
    assert summary(compared(old.folder, new.folder)) == blind
    fill(new, {OTHER: FIVE}, name="b")  # 2 against 5 can
    assert summary(compared(old.folder, new.folder)) == blind.partition(";")[0]


@pytest.mark.slow
def test_comparison_that_tells_nothing_is_no_praise_in_any_form(stores: tuple[Store, Store]) -> None:
    for store in stores:
        fill(store, {CELL: FIVE, OTHER: FIVE})
    old, new = (str(store.folder) for store in stores)
    found = compared(old, new)
    assert (found.conclusion, found.inconclusive) == ("inconclusive", 2)
    assert json.loads(FORMATS["json"](found))["conclusion"] == "inconclusive"
    with serving(stores[0].folder) as served:
        page = served.ask("/compare?old=suite:made&new=suite:made").text
    for shown in (as_text(document(found), 80), FORMATS["markdown"](found), page):
        assert f"{INCONCLUSIVE}: 2 cannot tell" in shown
        assert "no regressions" not in shown


@pytest.mark.parametrize(
    ("old", "new", "conclusion", "inconclusive"),
    [
        ({CELL: FIVE, OTHER: FIVE}, {CELL: FIVE, OTHER: [2 * value for value in FIVE]}, "no regressions", 1),
        ({CELL: FIVE, OTHER: FIVE}, {CELL: FIVE, OTHER: [value / 2 for value in FIVE]}, "regressions", 1),
        ({CELL: FIVE, OTHER: FIVE}, {CELL: FIVE, OTHER: (0.0,)}, "regressions", 1),
        ({CELL: FIVE, OTHER: (0.0,)}, {CELL: FIVE, OTHER: FIVE}, "no regressions", 1),
        ({CELL: FIVE, OTHER: (0.0,)}, {CELL: FIVE, OTHER: (0.0,)}, "inconclusive", 1),  # nothing is known of its speed
        ({CELL: FIVE, OTHER: FIVE}, {CELL: FIVE}, "inconclusive", 1),
        ({CELL: FIVE}, {CELL: [2 * value for value in FIVE]}, "no regressions", 0),
    ],
)
def test_conclusion_rests_on_cells_with_a_verdict(
    stores: tuple[Store, Store], old: Speeds, new: Speeds, conclusion: str, inconclusive: int
) -> None:
    for store, speeds in zip(stores, (old, new), strict=True):
        fill(store, speeds)
    found = compared(stores[0].folder, stores[1].folder)
    assert (found.conclusion, found.inconclusive) == (conclusion, inconclusive)
    assert ("1 of 2 cells inconclusive" in summary(found)) == (inconclusive == 1 and conclusion != "inconclusive")


@pytest.mark.parametrize(
    ("new", "flags", "code"),
    [
        ({CELL: FIVE, OTHER: FIVE}, (), 0),
        ({CELL: FIVE, OTHER: FIVE}, ("--require-verdict",), 4),
        ({CELL: FIVE, OTHER: [2 * value for value in FIVE]}, ("--require-verdict",), 4),  # one without is enough
        ({CELL: [2 * value for value in FIVE], OTHER: [2 * value for value in FIVE]}, ("--require-verdict",), 0),
        ({CELL: FIVE, OTHER: [value / 2 for value in FIVE]}, ("--require-verdict",), 3),  # a regression goes before it
    ],
)
def test_verdicts_can_be_required(stores: tuple[Store, Store], new: Speeds, flags: tuple[str, ...], code: int) -> None:
    for store, speeds in zip(stores, ({CELL: FIVE, OTHER: FIVE}, new), strict=True):
        fill(store, speeds)
    old, after = (str(store.folder) for store in stores)
    assert app(["compare", old, after, *flags], exit_on_error=False, result_action="return_value") == code


def test_difference_of_more_than_all_is_not_given_in_thousands(stores: tuple[Store, Store]) -> None:
    """So many runs with such scatter show hardly anything; how much exactly is nobody's guide."""
    old, new = stores
    fill(old, {CELL: (1.0, 30.0, 900.0, 9000.0), OTHER: FIVE})
    fill(new, {CELL: (2.0, 40.0, 1000.0, 9900.0), OTHER: FIVE})
    found = compared(old.folder, new.folder)
    assert found.cells[0].detectable is not None
    assert found.cells[0].detectable > 10
    assert " > 100 % " in FORMATS["markdown"](found)
    shown = as_text(document(msgspec.structs.replace(found, old="old", new="new")), 80)
    assert max(map(len, shown.splitlines())) <= 80, shown
    assert " > 100 % " in shown


def test_cells_of_one_side_are_listed_and_no_regression(stores: tuple[Store, Store]) -> None:
    old, new = stores
    longer = cell(steps=20)
    fill(old, {CELL: FIVE, OTHER: FIVE})
    fill(new, {CELL: FIVE, longer: FIVE})
    save_plan(new, {}, skips={OTHER: "no CPU"})
    found = compared(old.folder, new.folder)
    assert verdicts(found) == ["cannot tell", "only in old", "only in new"]
    assert found.regressions == 0
    assert "only in old: skipped in new, no CPU: fake+shout 1xcpu steps=10" in notes(found)
    assert "only in new: fake 1xcpu steps=20" in notes(found)


def test_other_cores_of_the_same_number_are_the_same_cell(stores: tuple[Store, Store]) -> None:
    old, new = stores
    fill(old, {CELL: FIVE})
    fill(new, {cell(cores=((3,),)): FIVE})
    assert verdicts(compared(old.folder, new.folder)) == ["cannot tell"]


def test_versions_and_machines_that_differ_are_named(stores: tuple[Store, Store]) -> None:
    old, new = stores
    fill(old, {CELL: FIVE})
    fill(new, {CELL: FIVE}, framework_version="3.0", machine=machine(cores=8))
    before, after = machine().id, machine(cores=8).id
    assert compared(old.folder, new.folder).differences == (
        f"machine: {before} → {after}",
        "usable cores: 0–3 → 0–7",
        "fake version: 2.4.6 → 3.0",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("suite:first", "suite:second"),
        ("date:1970-01-01", "date:1970-01-02T00"),
        ("version:fake=1.0", "version:fake=2.0"),
        (f"machine:{machine().id}", f"machine:{machine(cores=8).id}"),
    ],
)
def test_parts_of_one_store_are_compared(stores: tuple[Store, Store], old: str, new: str) -> None:
    store, _ = stores
    fill(store, {CELL: FIVE}, name="a", suite="first", started=10.0, framework_version="1.0", machine=machine())
    later = {"started": 86_410.0, "framework_version": "2.0", "machine": machine(cores=8)}
    fill(store, {CELL: times(2)}, name="b", suite="second", **later)
    (found,) = compared(old, new, store).cells
    assert (found.old, found.new) == (FIVE, tuple(times(2)))
    assert found.verdict == "better"


def test_whole_store_stands_for_the_newest_plan_of_each_cell(stores: tuple[Store, Store]) -> None:
    old, new = stores
    fill(old, {CELL: FIVE, OTHER: FIVE})
    fill(new, {CELL: times(3), OTHER: times(3)}, name="a")
    fill(new, {CELL: times(2)}, name="b")
    assert [found.new for found in compared(old.folder, new.folder).cells] == [tuple(times(2)), tuple(times(3))]


def test_plan_is_named_by_the_beginning_of_its_id(stores: tuple[Store, Store]) -> None:
    store, _ = stores
    fill(store, {CELL: FIVE}, name="a")
    fill(store, {CELL: times(2)}, name="b")
    first, second = sorted(path.stem for path in (store.folder / "plans").glob("*.json"))
    (found,) = compared(f"plan:{first}", f"plan:{second}", store).cells
    assert found.verdict == "better"


def events(mebibytes: int, correct: int) -> list[AnyEvent]:
    return [
        entered("build", idle_memory_bytes=0),
        block("train", 1.0, 100),
        entered("evaluate", peak_memory_bytes=mebibytes * 2**20),
        evaluated(1000, 1.0, correct=correct),
        finished(),
    ]


def save_four(store: Store, mebibytes: int, correct: int) -> Path:
    keys = [str(repeat) for repeat in range(4)]
    for repeat, key in enumerate(keys):
        save_run(store, record(key, key), [events(mebibytes + repeat, correct + repeat)])
    save_plan(store, {CELL: keys})
    return store.folder


def test_memory_and_accuracy_have_their_own_directions(stores: tuple[Store, Store]) -> None:
    old, new = (save_four(store, 200 + offset, 500 + offset) for store, offset in zip(stores, (0, 100), strict=True))
    memory, accuracy = (compared(old, new, metric=metric) for metric in ("memory", "accuracy"))
    assert (verdicts(memory), memory.regressions) == (["worse"], 1)
    assert (verdicts(accuracy), accuracy.regressions) == (["better"], 0)
    assert as_text(document(memory), 80).count(" 202 ") == 1  # MiB, the median of 200 to 203
    assert as_text(document(accuracy), 80).count(" 0.601 ") == 1


SAID = "a test accuracy below 0.15 tells little: guessing gets 0.1"


@pytest.mark.parametrize("correct", [(104, 128), (128, 104)])
def test_accuracies_of_guesses_are_not_compared(stores: tuple[Store, Store], correct: tuple[int, int]) -> None:
    """Of ten classes; the larger is surely larger, but of nothing."""
    old, new = (save_four(store, 200, right) for store, right in zip(stores, correct, strict=True))
    found = compared(old, new, metric="accuracy")
    (one,) = found.cells
    assert (one.verdict, one.reason, one.ratio, one.p, one.detectable) == ("cannot tell", SAID, None, None, None)
    assert (found.conclusion, found.regressions, found.inconclusive) == ("inconclusive", 0, 1)
    assert f"cannot tell: {SAID}: " in " ".join(notes(found))
    assert verdicts(compared(old, new, metric="memory")) == ["cannot tell"]  # equal; accuracies decide nothing else


@pytest.mark.parametrize(("correct", "verdict", "side"), [((700, 104), "worse", "new"), ((104, 700), "better", "old")])
def test_training_that_falls_to_guessing_is_worse(
    stores: tuple[Store, Store], correct: tuple[int, int], verdict: str, side: str
) -> None:
    old, new = (save_four(store, 200, right) for store, right in zip(stores, correct, strict=True))
    found = compared(old, new, metric="accuracy")
    assert (verdicts(found), found.regressions) == ([verdict], int(verdict == "worse"))
    assert found.cells[0].reason == f"in {side} {SAID}"


@pytest.mark.parametrize("width", [80, 120])
def test_text_fits_a_terminal_and_markdown_has_one_cell_per_column(stores: tuple[Store, Store], width: int) -> None:
    old, new = stores
    cells = {CELL: FIVE, cell(framework="keras-tensorflow", data="fake:python"): FIVE, cell(batch_size=128): FIVE}
    fill(old, cells)
    fill(new, cells)
    found = compared(old.folder, new.folder)
    shown = as_text(document(msgspec.structs.replace(found, old="old", new="new")), width).splitlines()
    assert max(map(len, shown)) <= width
    assert sum("0.973–1.028" in line for line in shown) == 3
    table = [line for line in FORMATS["markdown"](found).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {10}
    assert "* of 3 cells without any change, chance makes at most 0.2 better or worse" in shown


def test_verdict_is_whole_beside_an_interval_that_says_nothing(stores: tuple[Store, Store]) -> None:
    old, new = stores
    two = cell(framework="keras-tensorflow")
    fill(old, {two: (300.0, 3000.0)})
    fill(new, {two: (5500.0, 5600.0)})
    found = msgspec.structs.replace(compared(old.folder, new.folder), old="old", new="new")
    (line,) = [
        line
        for line in as_text(document(found), 80).splitlines()
        if line.startswith("keras-tensorflow ") and "1,650" in line
    ]
    assert line.split()[-2:] == ["cannot", "tell"]


def test_names_in_a_table_of_a_spreadsheet_are_no_formulas(stores: tuple[Store, Store]) -> None:
    old, new = stores
    fill(old, {CELL: FIVE, cell(framework="=1+1"): FIVE})
    fill(new, {CELL: FIVE, cell(framework="=1+1"): FIVE})
    table = csv.reader(io.StringIO(FORMATS["csv"](compared(old.folder, new.folder))))
    assert [line[0] for line in table] == ["cell", "fake 1xcpu", "'=1+1 1xcpu"]


@pytest.mark.slow
def test_nothing_to_compare_is_one_line(stores: tuple[Store, Store], tmp_path: Path) -> None:
    old, new = stores
    fill(old, {CELL: FIVE})
    fill(new, {cell(steps=20, batch_size=50): FIVE})
    paceline, (one, other) = CommandLine(old.folder), (str(old.folder), str(new.folder))
    mistakes = {
        (one, other): "have no cell in common: batch_size is 100 against 50, steps is 10 against 20.",
        (one, str(tmp_path / "none")): "is no folder of results; name one, or suite:NAME, plan:ID, date:2026-11-15,",
        ("suite:made", "suite:nothing"): f"No results match 'suite:nothing' in {one}.",
        ("version:fake", one): "'version:fake' lacks the version; write such as version:torch=2.13.0.",
        (one, one, "--metric", "accuracy"): f"No cell has accuracy in both {one} and {one}.",
        (one, one, "--threshold", "5"): "--threshold is a part such as 0.05, from 0 up and below 1, not 5.",
    }
    for words, message in mistakes.items():
        ended = paceline("compare", *words)
        assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
        assert message in ended.stderr


@pytest.mark.slow
def test_slowdown_of_real_runs_is_found(paceline: CommandLine, tmp_path: Path) -> None:
    """The fake framework is run; a copy of its store is made three times as slow by hand."""
    ended = paceline("run", "cifar10-conv", "--framework", "fake", "--steps", "10", "--warmup", "2", "--repeats", "4")
    assert ended.returncode == 0, ended.stderr
    slow = tmp_path / "slow"
    shutil.copytree(paceline.store, slow)
    (slow / "index.sqlite").unlink()
    for path in slow.glob("runs/*/events-0.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        longer = [{**line, "seconds": 3 * line["seconds"]} if "seconds" in line else line for line in lines]
        path.write_text("".join(json.dumps(line) + "\n" for line in longer))
    ended = paceline("compare", str(paceline.store), str(slow), "--format", "json")
    (found,) = json.loads(ended.stdout)["cells"]
    assert ended.returncode == 3, ended.stdout
    assert found["ratio"]["median"] == pytest.approx(1 / 3)
    assert paceline("compare", str(paceline.store), str(paceline.store)).returncode == 0
