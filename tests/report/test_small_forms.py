"""A suite's small form of one or two runs says in one line that it shows no more than that its cells run."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.analysis.rows.row import Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.page.answers import answers, silence
from paceline.report.tables.layouts import LAYOUTS
from paceline.report.tables.remarks import remarks
from paceline.report.tables.render_layouts import in_layout
from tests.factories.command_line import CommandLine
from tests.factories.rows import changed, made_row

ONE = "scaled down (--quick), one run of each cell: this shows that the cells run, not how they compare"
TWO = "scaled down (--quick), 2 runs of each cell: this shows that the cells run, not how they compare"
USELESS = ("nothing can be told", "how sure", "95 % interval", "of the median", "not trained long enough", "epochs:")


def small(repeats: int, **changes: object) -> Row:
    """A quick cell as noisy and as untrained as such cells are."""
    base = {
        "quick": True,
        "repeats": repeats,
        "status": "noisy" if repeats > 1 else "ok",
        "reason": "the 95 % interval of its 2 runs is 885 % of the median" if repeats > 1 else None,
        "images_per_second": Estimate(100.0, 10.0, 900.0) if repeats > 1 else Estimate(100.0),
        "images_per_second_of_runs": (80.0, 120.0)[:repeats],
        "test_accuracy": Estimate(0.1, 0.0, 0.331) if repeats > 1 else Estimate(0.1),
        "above_chance": False,
        "chance": 0.1,
        "runs": tuple(f"20261115-{number}" for number in range(repeats)),
    }
    return made_row(**{**base, **changes})


def table(repeats: int) -> list[Row]:
    two = {"devices": "2xcpu", "shares": (128, 128), "batch_size": 256}
    return [small(repeats, framework=name, **more) for name in ("torch", "jax") for more in ({}, two)]


@pytest.mark.parametrize(("repeats", "line"), [(1, ONE), (2, TWO)])
@pytest.mark.parametrize("layout", ["rows", *LAYOUTS])
@pytest.mark.parametrize("form", ["text", "markdown"])
def test_one_line_stands_for_all_that_such_runs_cannot_show(repeats: int, line: str, layout: str, form: str) -> None:
    shown = " ".join(in_layout(table(repeats), layout, form).split())
    assert line in shown
    notes = shown.replace("| 95 % interval |", "").replace("its 95 % interval.", "")  # a heading and its footnote
    assert not [words for words in USELESS if words in notes]
    assert "Findings" not in shown


def test_many_noisy_cells_have_no_line_of_their_own_either() -> None:
    rows = [small(2, framework=name) for name in ("torch", "jax", "mxnet", "tensorflow", "neon")]
    assert remarks(rows) == [TWO]


@pytest.mark.parametrize("rows", [table(3), [changed(row, quick=False) for row in table(2)]])
def test_more_runs_and_full_forms_are_judged_as_before(rows: list[Row]) -> None:
    said = " ".join(remarks(rows))
    assert "not trained long enough" in said
    assert "885 % of the median" in said
    assert "not how they compare" not in said


def test_failure_in_a_small_form_is_said() -> None:
    broken = small(1, framework="jax", status="failed", reason="crash: SIGSEGV", failed_run="20261115-9")
    said = remarks([small(1), broken])
    assert "jax 1xcpu failed: crash: SIGSEGV" in said
    assert "jax 1xcpu log: paceline log 20261115-9" in said


def test_small_form_that_never_ran_does_not_say_that_it_runs() -> None:
    skipped = small(0, status="skipped", reason="torch has no cuda", images_per_second=None, test_accuracy=None)
    assert remarks([skipped])[0] == "scaled down for a small machine (--quick): not the sizes that were published"


def test_page_recommends_nothing_and_says_why() -> None:
    assert answers(table(2), {}, None) == []
    assert silence(table(2)) == TWO


@pytest.mark.slow
def test_real_small_form_ends_with_the_line(paceline: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "workload = 'cifar10-conv'\nframework = 'fake'\nbatch-size = 8\nwarmup = 0\nsteps = 9\n"
        "layout = 'long'\n[quick]\nsteps = 4\nrepeats = 2\n"
    )
    shown = " ".join(paceline("run", str(path), "--quick").stdout.split())
    assert TWO in shown
    assert not [words for words in USELESS if words in shown]
    shown = " ".join(paceline("run", str(path), "--quick", "--repeats", "3").stdout.split())
    assert "not the sizes that were published" in shown
    assert "95 % interval" in shown
