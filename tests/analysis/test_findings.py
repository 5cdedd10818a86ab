"""What is said under a table: only what the runs support, with numbers worked out by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from paceline.analysis.findings import findings
from paceline.analysis.quantities.known import MEMORY, SPEED, TEST_ACCURACY
from paceline.analysis.rows.row import Row
from paceline.analysis.rows.table_rows import table_rows
from paceline.analysis.statistics.significance import Scatter
from paceline.report.tables.render import markdown, text
from paceline.report.tables.sentences import MOST_SENTENCES, as_json, lines, sentences
from paceline.store.records.events import AnyEvent
from paceline.store.store import Store
from tests.factories.command_line import CommandLine
from tests.factories.events import block, entered, evaluated, finished
from tests.factories.rows import made_row
from tests.factories.runs import FAILED, on_devices, record, save_plan, save_run, trained


def fast(framework: str, *images_per_second: float, **changes: object) -> Row:
    return made_row(framework=framework, images_per_second_of_runs=images_per_second, **changes)


def on(count: int, framework: str, *images_per_second: float, **changes: object) -> Row:
    shares = (128 // count,) * count
    return fast(framework, *images_per_second, devices=f"{count}xcpu", shares=shares, **changes)


TORCH = fast("torch", 100, 101, 99)
# In logarithms they deviate by 0.0100 and 0.0081, their difference has the error 0.0074 and 3.8 degrees of freedom, of
# which 3 count, with Student's factor 3.18: the ratio may be off by a factor of exp(0.0236).
MXNET = fast("mxnet", 124, 125, 123)
NOISY = fast("jax", 90, 121, 130)


def test_fastest_is_named_with_the_ratio_to_the_next() -> None:
    assert lines([TORCH, MXNET]) == ["mxnet is the fastest on 1xcpu: 1.24 (1.21–1.27) times torch, the next"]


def test_all_others_are_named_where_they_are_few() -> None:
    assert lines([TORCH, MXNET, fast("jax", 50, 50, 50)]) == [
        "mxnet is the fastest on 1xcpu: 1.24 (1.21–1.27) times torch, the next; 2.48 (2.43–2.53) times jax"
    ]


def test_what_overlaps_cannot_be_told() -> None:
    (line,) = lines([MXNET, NOISY])
    assert line == "cannot tell which is the fastest on 1xcpu, mxnet or jax: mxnet is 1.02 (0.68–1.79) times jax"


def test_what_cannot_be_told_and_what_can_stand_in_one_sentence() -> None:
    (line,) = lines([fast("a", 100, 101, 102), fast("b", 100, 101, 103), fast("c", 50, 51, 52)])
    assert line == (
        "cannot tell which is the fastest on 1xcpu, a or b: a is 1.000 (0.964–1.030) times b "
        "and 1.98 (1.88–2.09) times c"
    )


def test_three_runs_of_which_all_are_faster_are_not_enough() -> None:
    # Every value of one is above all of the other, but chance does that in one of ten cases.
    (found,) = findings([fast("a", 100, 104, 115), fast("b", 90, 97, 99.9)])
    (against,) = found.against
    assert against.value.low is not None
    assert against.value.low < 1
    assert not against.clear


def test_chance_is_that_of_a_textbook_t_test() -> None:
    # Means 2 and 5, variances 1 and 1: t = 3 / sqrt(2 / 3) = 3.674 with 4 degrees of freedom; tables give 0.0213.
    values, base = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]
    assert Scatter.of(values, base).chance(values, base) == pytest.approx(0.0213, abs=1e-4)
    # With one degree of freedom Student's distribution is Cauchy's: beyond 1 lies a half.
    assert Scatter(1.0, 1).chance([0.5, 1.5], [0.0, 0.0]) == pytest.approx(0.5, abs=1e-6)


def test_scatter_is_pooled_over_all_cells() -> None:
    assert Scatter.of([1.0, 3.0], [1.0, 2.0, 3.0]) == Scatter(math.sqrt((2 + 2) / 3), 3)


def test_more_frameworks_make_the_same_difference_less_sure() -> None:
    pair = [fast("a", 100, 101, 102), fast("b", 103.1, 104, 105)]  # p is 0.02
    assert findings(pair)[0].against[0].clear
    crowd = [fast(f"slow{index}", 50, 50.5, 51) for index in range(8)]
    found = findings([*pair, *crowd])[0].against
    assert [one.clear for one in found] == [False] + [True] * 8  # 45 pairs: p must be below 0.05 / 45


def test_runs_of_others_tell_what_three_runs_cannot() -> None:
    # With 4 degrees of freedom t = 7 is p = 0.002, too much for 45 pairs; with the 20 of all cells t = 6 is 0.00001.
    pair = [fast("a", 105, 106, 107), fast("b", 99, 100, 101)]
    crowd = [fast(f"slow{index}", 49.4, 50, 50.6) for index in range(8)]
    assert findings([*pair, *crowd])[0].against[0].clear


def test_noise_of_others_does_not_hide_what_is_clear() -> None:
    noisy = [fast("torch", 3157, 4090, 4764), on(2, "torch", 5180, 5454, 5575)]
    quiet = [fast("jax", 1271, 1274, 1299), on(2, "jax", 3319, 3370, 3380)]
    (line,) = [line for line in lines([*noisy, *quiet]) if "linear" in line]
    assert line.endswith("jax on 2xcpu is 2.65 (2.55–2.69) times as fast as on 1xcpu")


def test_single_runs_tell_nothing_and_it_is_said_once() -> None:
    rows = [fast("a", 100), fast("b", 200), on(2, "a", 10)]
    assert lines(rows) == ["one run each: nothing can be told about differences; more repeats tell"]
    assert lines([TORCH, MXNET, fast("jax", 9)])[0] == (
        "only one run of jax 1xcpu: nothing can be told about it; more repeats tell"
    )


def test_a_single_row_has_no_findings_and_no_heading() -> None:
    assert lines([TORCH]) == []
    assert lines([fast("torch", 100)]) == []
    assert "Findings" not in text([TORCH]) + markdown([TORCH])


def test_least_memory_is_named() -> None:
    rows = [
        fast("a", 100, 100, memory_mib_of_runs=(50.0, 52.0)),
        fast("b", 100, 100, memory_mib_of_runs=(100.0, 100.0)),
    ]
    assert lines(rows)[-1] == "least memory: on 1xcpu a, 0.51 (0.40–0.65) times b, the next"


def test_memory_that_was_taken_before_it_was_needed_is_not_compared() -> None:
    rows = [
        fast("a", 100, 100, memory_mib_of_runs=(50.0, 52.0)),
        fast("b", 100, 100, memory_mib_of_runs=(100.0, 100.0), marks=("preallocated",)),
        fast("c", 100, 100, memory_mib_of_runs=(0.0, 100.0)),  # nothing has no ratio
    ]
    assert [finding.kind for finding in findings(rows)] == ["fastest"]


def test_more_devices_that_are_slower_are_named() -> None:
    rows = [TORCH, on(2, "torch", 80, 80.8, 79.2), on(4, "torch", 150, 151, 149)]
    assert lines(rows) == ["more devices are slower: torch on 2xcpu is 0.80 (0.78–0.82) times as fast as on 1xcpu"]


def test_scaling_above_linear_is_named() -> None:
    (line,) = lines([TORCH, on(2, "torch", 265, 266, 264)])
    assert line == (
        "scaling is above linear, which asks for an explanation: "
        "torch on 2xcpu is 2.65 (2.58–2.72) times as fast as on 1xcpu"
    )


@pytest.mark.parametrize("speed", [150, 198, 200.5])
def test_usual_scaling_is_not_worth_a_sentence(speed: float) -> None:
    assert lines([TORCH, on(2, "torch", speed, speed + 1, speed - 1)]) == []


def test_simulated_or_wrapped_devices_are_no_scaling() -> None:
    slowed = on(2, "torch", 50, 50, 50, slow=(1.0, 2.0))
    assert lines([TORCH, slowed, fast("torch", 60, 60, 60, wrapped=True)]) == []


def cuda(indices: str, *images_per_second: float, **changes: object) -> Row:
    """PyTorch on GPUs with these numbers, such as 0+2."""
    devices = "+".join(f"cuda:{index}" for index in indices.split("+"))
    count = devices.count("cuda")
    settings = {"devices": devices, "shares": (128 // count,) * count, **changes}
    return fast("torch", *images_per_second, **settings)


def test_devices_are_held_against_a_member_of_their_own_set() -> None:
    # 3.8 times cuda:1, which is not among them, and 1.9 times cuda:0, which is.
    rows = [cuda("1", 50, 51, 49), cuda("0", 100, 101, 99), cuda("0+2", 190, 191, 189)]
    assert lines(rows) == []


def test_any_measured_member_serves_among_equal_devices() -> None:
    (line,) = lines([cuda("2", 100, 101, 99), cuda("0+2", 265, 266, 264)])
    assert line.endswith("torch on cuda:0+cuda:2 is 2.65 (2.58–2.72) times as fast as on cuda:2")


def test_more_devices_are_held_against_the_next_fewer_of_the_same_ones() -> None:
    rows = [cuda("0+1", 190, 191, 189), cuda("2+3+4", 150, 151, 149), cuda("0+1+2", 170, 171, 169)]
    (line,) = lines(rows)
    assert line.endswith("torch on cuda:0+cuda:1+cuda:2 is 0.89 (0.88–0.91) times as fast as on cuda:0+cuda:1")


SLOW_CARD, FAST_CARD = ("GTX 980",), ("Titan X",)


def test_unlike_cards_are_never_above_linear_against_one_of_them() -> None:
    alone = [cuda("0", 100, 101, 99, cards=SLOW_CARD), cuda("2", 300, 301, 299, cards=FAST_CARD)]
    assert lines([*alone, cuda("0+2", 380, 381, 379, cards=SLOW_CARD + FAST_CARD)]) == []


def test_a_card_that_makes_a_faster_one_slower_is_named() -> None:
    alone = [cuda("0", 100, 101, 99, cards=SLOW_CARD), cuda("2", 300, 301, 299, cards=FAST_CARD)]
    (line,) = lines([*alone, cuda("0+2", 190, 191, 189, cards=SLOW_CARD + FAST_CARD)])
    assert line == ("more devices are slower: torch on cuda:0+cuda:2 is 0.63 (0.63–0.64) times as fast as on cuda:2")


def accurate(framework: str, *accuracies: float) -> Row:
    return made_row(framework=framework, test_accuracy_of_runs=accuracies)


def test_accuracies_that_differ_are_named_with_the_difference() -> None:
    rows = [accurate("a", 0.70, 0.701, 0.702), accurate("b", 0.68, 0.681, 0.682)]
    assert lines(rows) == ["highest test accuracy: on 1xcpu a, 0.020 (0.018 to 0.022) above b, the next"]


def test_accuracies_that_overlap_cannot_be_told() -> None:
    rows = [accurate("a", 0.70, 0.701, 0.702), accurate("b", 0.69, 0.701, 0.71)]
    assert lines(rows) == ["highest test accuracy: on 1xcpu cannot tell, a or b"]


def test_accuracies_of_guesses_are_not_compared() -> None:
    guesses = {"chance": 0.1, "above_chance": False}
    rows = [
        made_row(framework=name, test_accuracy_of_runs=found, **guesses)
        for name, found in (("a", (0.14, 0.141, 0.142)), ("b", (0.10, 0.101, 0.102)))
    ]
    (found,) = [finding for finding in findings(rows) if finding.kind not in ("fastest", "memory")]
    assert (found.kind, found.who) == ("untrained", ("a 1xcpu", "b 1xcpu"))
    said = "a test accuracy below 0.15 tells little: guessing gets 0.1"
    assert sentences([found]) == [f"not trained long enough: a 1xcpu, b 1xcpu ({said})"]
    assert lines(rows) == []  # the remarks above have it
    assert f"* a 1xcpu, b 1xcpu were not trained long enough: {said}\n" in markdown(rows)


def test_what_has_no_result_is_one_sentence_with_its_causes() -> None:
    rows = [
        TORCH,
        fast("a", 1, 2, 3, status="failed", reason="crash in train: killed by SIGSEGV"),
        fast("b", status="skipped", reason="no CPU"),
        fast("c", status="skipped", reason="no CPU"),
    ]
    causes = "a 1xcpu failed (crash in train: killed by SIGSEGV); b 1xcpu, c 1xcpu skipped (no CPU)"
    assert sentences(findings(rows)) == [causes]
    assert lines(rows) == []  # the remarks above have them


def test_unlike_settings_are_not_compared() -> None:
    assert lines([TORCH, fast("mxnet", 124, 125, 123, learning_rate=0.5)]) == []
    assert lines([TORCH, fast("mxnet", 124, 125, 123, machine="another")]) == []


def test_cells_of_other_rounds_are_said_to_be_so() -> None:
    early = fast("a", 100, 101, runs=("20261115-1", "20261115-2"))
    late = fast("b", 100, 101, runs=("20261116-1", "20261116-2"))
    assert lines([early, late])[0].startswith("not all of 1xcpu was measured in the same rounds")
    among = fast("b", 100, 101, runs=("20261115-1a", "20261115-3"))
    assert len(lines([early, among])) == 1


def many() -> list[Row]:
    """Every kind of finding."""
    memory: Sequence[float] = (10.0, 11.0)
    one = [
        fast(name, speed, speed, memory_mib_of_runs=memory, test_accuracy_of_runs=(0.5, 0.6))
        for name, speed in (("a", 100.0), ("b", 200.0))
    ]
    two = [on(2, "a", 300, 300), on(2, "b", 100, 100)]
    return [*one, *two, fast("c", status="skipped", reason="no | CPU"), fast("d", 1)]


def test_a_table_has_few_sentences_and_says_where_the_others_are() -> None:
    shown, everything = lines(many()), json.loads(as_json(many()))
    assert len(shown) == MOST_SENTENCES + 1
    told = [line for line in everything[0]["sentences"] if "skipped" not in line]  # that stands among the remarks
    assert shown[-1] == f"{len(told) - MOST_SENTENCES} more: paceline show --format findings"


def test_text_and_markdown_say_the_same_after_the_remarks() -> None:
    plain, marked = text(many(), width=1000), markdown(many())
    for line in lines(many()):
        assert f"* {line}\n" in plain
        assert f"* {line}\n".replace("|", "\\|") in marked
    assert plain.index("c 1xcpu skipped: no | CPU") < plain.index("Findings") < plain.index("b is the fastest")


def test_json_has_the_facts_behind_each_sentence() -> None:
    (table,) = json.loads(as_json([TORCH, MXNET]))
    (found,) = table["findings"]
    assert found["cells"] == ["mxnet 1xcpu", "torch 1xcpu"]
    low, high = (pytest.approx(1.24 * math.exp(sign * 0.0236), abs=1e-4) for sign in (-1, 1))
    assert found["against"] == [{"name": "torch", "value": {"median": 1.24, "low": low, "high": high}, "clear": True}]


def test_rows_have_the_values_of_each_run(tmp_path: Path) -> None:
    store, two = Store(tmp_path), on_devices(2)

    def rank(mebibytes: int, correct: int) -> list[AnyEvent]:
        idle, peak = entered("build", idle_memory_bytes=2**20), entered("evaluate", peak_memory_bytes=mebibytes * 2**20)
        return [idle, block("train", 2.0, 100), peak, evaluated(10, 1.0, correct=correct), finished()]

    for repeat, key in enumerate(("a", "b")):
        save_run(store, record(key, key, two, repeat=repeat), [rank(11 + repeat, 4), rank(21, 5 + repeat)])
    save_run(store, record("c", "c", two, repeat=2), [rank(99, 9)], FAILED)
    save_plan(store, {two: ["a", "b", "c"]})
    (row,) = table_rows(store, {})
    assert row.of_runs(SPEED) == (100.0, 100.0)  # 200 images in 2 s; the failed run does not count
    assert row.of_runs(MEMORY) == (30.0, 31.0)  # 10 + 20, 11 + 20
    assert row.of_runs(TEST_ACCURACY) == (9 / 20, 10 / 20)


@pytest.mark.slow
def test_command_prints_findings_from_stored_runs(paceline: CommandLine) -> None:
    store = Store(paceline.store)
    speeds = {on_devices(1): (100, 101, 102), on_devices(2): (50, 51, 52)}
    keys = {one: [f"{one.devices}-{repeat}" for repeat in range(3)] for one in speeds}
    for one, values in speeds.items():
        for repeat, speed in enumerate(values):
            saved = record(f"{repeat}-{one.devices}", keys[one][repeat], one)
            save_run(store, saved, [trained(100 * speed, 100.0)])
    save_plan(store, keys)
    shown = paceline("show", "--format", "markdown").stdout
    assert "* more devices are slower: fake on 2xcpu is 0.50 (0.48–0.53) times as fast as on 1xcpu\n" in shown
    (table,) = json.loads(paceline("show", "--format", "findings").stdout)
    assert [finding["kind"] for finding in table["findings"]] == ["slower"]
