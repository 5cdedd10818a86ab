"""`python -m benchmarks.audit`: what it counts, what it wants, and its section of the page."""

from __future__ import annotations

from decimal import Decimal

import pytest
from benchmarks import audit
from benchmarks.audit import CONTRADICTED, FACTORS, HEADING, MISSED, PAGE, WANTED, Trial
from benchmarks.determined import Figure, figures, how_determined, printed, within_rounding

from paceline.catalog.published import all_benchmarks

BENCHMARKS = all_benchmarks()


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    return list(audit.all_trials())


@pytest.mark.slow
def test_page_has_what_the_command_prints(trials: list[Trial]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    _, heading, rest = page.partition(f"{HEADING}\n")
    assert heading + rest.partition("\n## ")[0] == audit.report(trials)


@pytest.mark.slow
@pytest.mark.parametrize("alteration", WANTED)
def test_enough_is_noticed(trials: list[Trial], alteration: str) -> None:
    exact = [each for each in trials if each.exact]
    assert audit.rate(exact, alteration) >= WANTED[alteration]
    assert audit.rate(trials, alteration) >= WANTED[alteration]


def test_most_of_what_is_noticed_is_contradicted_and_not_only_noted(trials: list[Trial]) -> None:
    seen = [each.seen for each in trials if each.how and each.seen != MISSED]
    assert seen.count(CONTRADICTED) >= 0.9 * len(seen)


def test_every_figure_is_altered(trials: list[Trial]) -> None:
    printed = sum(len(metric.printed) for b in BENCHMARKS.values() for r in b.records for metric in r.metrics.values())
    assert sum(each.alteration == "x 2" for each in trials) == printed


def figure(benchmark: str, row: str, metric: str, position: int = 0) -> Figure:
    (found,) = [
        each
        for each in figures(BENCHMARKS[benchmark])
        if (each.record.row, each.metric, each.position) == (row, metric, position)
    ]
    return found


@pytest.mark.parametrize(
    ("benchmark", "row", "metric", "how"),
    [
        ("mxnet-multi-gpu", "2: 1 | resnet50 | 64x8", "seconds_per_epoch.time_cost", "arithmetic"),  # 50000 / 6200
        ("mxnet-multi-gpu", "2: 1 | resnet50 | 64x8", "accuracy.test", ""),
        ("mxnet-multi-gpu", "32: 4 | resnet50 | 256 (lr=0.05)", "images_per_second.log_window", ""),  # no time
        ("neon-vs-mxnet", "Neon, Titan X", "memory.idle", "arithmetic"),  # 1041 - 903
        ("neon-vs-mxnet", "Neon, Titan X", "seconds.user", "processor time"),  # 20.616 - 3.303
        ("neon-vs-mxnet", "MXNet, Titan X", "seconds.user", ""),  # of several threads
    ],
)
def test_figure_follows_from_others(benchmark: str, row: str, metric: str, how: str) -> None:
    assert how_determined(figure(benchmark, row, metric), BENCHMARKS[benchmark]) == how


@pytest.mark.parametrize(
    ("benchmark", "row", "metric", "exact"),
    [
        ("mxnet-multi-gpu", "2: 1 | resnet50 | 64x8", "seconds_per_epoch.time_cost", True),  # 50000 / 6200 = 8.06
        ("mxnet-multi-gpu", "4: 1 | resnet50 | 64x2", "seconds_per_epoch.time_cost", False),  # 50000 / 1800 = 27.8
        ("neon-vs-mxnet", "Neon, Titan X", "memory.idle", True),  # 1041 - 903
        ("neon-vs-mxnet", "Neon, Titan X", "seconds.user", False),  # 20.616 - 3.303 = 17.313
    ],
)
def test_figure_follows_from_others_within_rounding(benchmark: str, row: str, metric: str, exact: bool) -> None:
    assert within_rounding(figure(benchmark, row, metric), BENCHMARKS[benchmark]) is exact


def test_rounding_of_what_an_estimate_is_made_of_adds_up() -> None:
    seven, two = printed("7.0"), printed("2")
    assert (seven - two).rounding == pytest.approx(1.1)
    assert (seven / two).rounding == pytest.approx(3.5 * (0.1 / 7 + 1 / 2))


def test_altered_figures_keep_their_decimals() -> None:
    assert audit.times("0.810", Decimal(2)) == "1.620"
    assert audit.times("8", FACTORS["x 1.2"]) == "10"
    assert audit.times("1", FACTORS["x 1.2"]) == "1"  # not altered, so it is not counted


def test_one_figure_is_altered_and_nothing_else() -> None:
    benchmark = BENCHMARKS["neon-vs-mxnet"]
    one = figure("neon-vs-mxnet", "MXNet, Titan X + Titan X", "memory.peak", 1)
    altered = audit.with_figure(benchmark, one, "999")
    differing = [(a, b) for a, b in zip(benchmark.records, altered.records, strict=True) if a != b]
    ((_, changed),) = differing
    assert changed.metrics["memory.peak"].printed == ("328", "999")


def test_finding_that_was_there_before_is_no_notice() -> None:
    before = audit.findings(BENCHMARKS["neon-vs-mxnet"])
    assert before
    assert audit.noticed(audit.findings(BENCHMARKS["neon-vs-mxnet"]) - before) == MISSED
