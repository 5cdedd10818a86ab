"""Quantities are declared once: findings, answers, comparisons and replays cannot disagree about one."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint

import msgspec
import pytest

from paceline.analysis.comparison.compare import compare_quantity, compare_values
from paceline.analysis.findings import findings
from paceline.analysis.quantities import known
from paceline.analysis.quantities.definition import LESS, MORE, NEITHER, Quantity
from paceline.analysis.quantities.field_names import FIELDS as NAMES
from paceline.analysis.quantities.known import (
    MEMORY,
    SPEED,
    TEST_ACCURACY,
    WAITING,
    all_quantities,
    comparable,
    metrics,
)
from paceline.analysis.rows.flat import flat
from paceline.analysis.rows.row import Measured
from paceline.catalog import plugins
from paceline.report.page.answers import answers
from paceline.report.tables.sentences import sentences
from paceline.system.errors import UserError
from tests.factories.rows import made_row
from tests.factories.runs import CELL, cell, result

GIBIBYTE = 2.0**30


def test_names_labels_and_fields_are_used_once() -> None:
    known = all_quantities()
    assert len({each.name for each in known}) == len({each.label for each in known}) == len(known)
    fields = [name for each in known for name in each.forms]
    assert len(set(fields)) == len(fields)
    assert set(fields) <= set(NAMES)
    assert all(each.meaning for each in known)


def test_row_has_every_field_in_the_order_of_old() -> None:
    assert list(flat(made_row())) == list(NAMES)


def test_metric_is_a_label_or_a_name() -> None:
    assert metrics()[:2] == ["images/s", "seconds"]
    assert comparable("images/s") is comparable("images_per_second") is SPEED
    with pytest.raises(UserError, match=r"Unknown metric 'memry'\. Did you mean 'memory'"):
        comparable("memry")
    with pytest.raises(UserError, match="Unknown metric 'idle memory'"):  # neither more nor less of it is better
        comparable("idle memory")


@pytest.mark.parametrize(
    ("quantity", "fields"),
    [
        (SPEED, {"images_per_second_of_runs": ((200, 201, 202), (100, 101, 102))}),
        (SPEED, {"images_per_second_of_runs": ((100, 104, 115), (90, 97, 99.9))}),  # each above all others, by chance
        (SPEED, {"images_per_second_of_runs": ((200, 201), (100, 101))}),
        (MEMORY, {"memory_mib_of_runs": ((100, 101, 102), (200, 201, 202))}),
        (TEST_ACCURACY, {"test_accuracy_of_runs": ((0.70, 0.701, 0.702), (0.68, 0.681, 0.682))}),
        (TEST_ACCURACY, {"test_accuracy_of_runs": ((0.70, 0.72, 0.74), (0.68, 0.70, 0.73))}),
    ],
)
def test_findings_answers_and_comparisons_agree(
    quantity: Quantity, fields: dict[str, tuple[Sequence[float], Sequence[float]]]
) -> None:
    """Of two cells in one table, and of one cell on two sides."""
    ((field, (best, other)),) = fields.items()
    rows = [made_row(framework=name, **{field: values}) for name, values in (("a", best), ("b", other))]
    (found,) = [finding for finding in findings(rows) if finding.kind == quantity.finding]
    (answer,) = [one for one in answers(rows, {}, None) if one.question == quantity.question]
    compared = compare_values(CELL, quantity, other, best)
    assert found.against[0].clear == (answer.sure == "clear") == (compared.verdict == "better")
    assert found.against[0].value == (compared.ratio or compared.difference)


def test_three_runs_that_lie_far_apart_are_clear_everywhere() -> None:
    slow, fast = (100, 101, 102), (200, 201, 202)
    assert compare_values(CELL, SPEED, slow, fast).verdict == "better"
    assert compare_values(CELL, SPEED, fast, slow).verdict == "worse"


def test_accuracy_is_a_difference_everywhere_and_all_else_a_ratio() -> None:
    found = compare_values(CELL, TEST_ACCURACY, (0.70, 0.701, 0.702), (0.80, 0.801, 0.802))
    assert found.ratio is None
    assert found.difference is not None
    assert found.difference.median == pytest.approx(0.1)
    faster = compare_values(CELL, SPEED, (1.0, 1.01), (2.0, 2.01))
    assert faster.ratio is not None
    assert faster.difference is None


def test_threshold_of_accuracies_is_a_difference() -> None:
    """From 0.7 to 0.66 is a loss of 5.7 %, but of four points of a hundred."""
    lost = (0.70, 0.701, 0.702), (0.66, 0.661, 0.662)
    assert not compare_values(CELL, TEST_ACCURACY, *lost, threshold=0.05).regression
    assert compare_values(CELL, TEST_ACCURACY, *lost, threshold=0.03).regression


def test_preallocated_memory_is_compared_nowhere() -> None:
    of = cell(framework="torch", devices="cuda:0")
    needed = [result(memory_bytes=[GIBIBYTE * size]) for size in (1.0, 1.01, 1.02)]
    taken = [result(memory_bytes=[10 * GIBIBYTE * size], started_bytes=[9 * GIBIBYTE]) for size in (1.0, 1.01, 1.02)]
    for old, new in ((needed, taken), (taken, needed), (taken, taken)):
        found = compare_quantity(of, MEMORY, old, new)
        assert (found.verdict, found.regression, found.ratio) == ("cannot tell", False, None)
        assert found.reason.startswith("memory was preallocated")
    assert compare_quantity(of, MEMORY, needed, needed).reason == "the interval includes 1"
    rows = [
        made_row(framework="a", memory_mib_of_runs=(100, 101, 102)),
        made_row(framework="b", memory_mib_of_runs=(900, 901, 902), marks=("preallocated",)),
    ]
    assert not [finding for finding in findings(rows) if finding.kind == "memory"]


def test_what_a_cell_cannot_have_is_not_compared() -> None:
    """Fake images need no preparing, so that nobody waits for them."""
    runs = [result(waiting=0.1), result(waiting=0.2)]
    found = compare_quantity(cell(data="fake:python"), WAITING, runs, runs)
    assert (found.reason, found.old) == ("not measured", ())
    real = compare_quantity(cell(data="cifar10", input="scaled"), WAITING, runs, runs)
    assert real.old == (0.1, 0.2)


def test_directions_are_declared_where_values_can_be_compared() -> None:
    assert all(each.better != NEITHER for each in all_quantities() if each.finding or each.replayed)
    assert comparable("accuracy").better == MORE


def test_quantity_of_a_plugin_may_name_the_best_row(monkeypatch: pytest.MonkeyPatch) -> None:
    energy = Quantity(
        name="joules", label="J", meaning="energy", better=LESS, finding="energy", superlative="least energy"
    )
    monkeypatch.setattr("paceline.analysis.findings.brought", lambda: (energy,))
    monkeypatch.setattr("paceline.report.tables.sentences.all_quantities", lambda: (energy,))
    rows = [
        msgspec.structs.replace(made_row(framework=name), measured={"joules": Measured(of_runs=values)})
        for name, values in (("a", (1.0, 1.01, 1.02)), ("b", (2.0, 2.01, 2.02)))
    ]
    found = [finding for finding in findings(rows) if finding.kind == "energy"]
    assert sentences(found) == ["least energy: on 1xcpu a, 0.50 (0.49–0.52) times b, the next"]


@pytest.mark.parametrize("taken", ["status", "memory", "images/s", "images_per_second"])
def test_quantity_of_a_plugin_takes_no_name_of_ours(monkeypatch: pytest.MonkeyPatch, taken: str) -> None:
    energy = Quantity(name="joules", label=taken, meaning="energy")
    monkeypatch.setattr(EntryPoint, "load", lambda _: energy)
    with pytest.raises(ValueError, match=f"'{taken}' is taken"):
        known._from_plugin(EntryPoint("joules", "meter:joules", plugins.QUANTITIES))
