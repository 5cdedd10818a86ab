"""What README and docs say is there, can be typed, and is defined."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from paceline.analysis.quantities.field_names import FIELDS as NAMES
from paceline.analysis.rows.command_rows import CommandRow
from paceline.analysis.statistics.intervals import Estimate
from paceline.catalog.frameworks import FOLDER
from paceline.catalog.workloads import WORKLOADS
from paceline.cli import app, reference
from paceline.plan.planning import make_plan
from paceline.plan.requested_suites import read_suite
from paceline.plan.settings import DEFAULT_STEPS
from paceline.report import fields_page
from paceline.report.page.badges import BADGES
from paceline.report.studies import comparison, explanation
from paceline.report.tables import published_comparison
from paceline.report.tables.columns import RESOURCE_COLUMNS, accuracy_columns, speed_columns
from paceline.report.tables.command_tables import COMMAND_COLUMNS
from paceline.report.tables.layouts import long_rows, per_framework
from paceline.store.resources import Noise
from tests.docs.documented import COMMANDS, PAGES, ROOT, all_commands, flags_of, inline_commands
from tests.factories.machines import machine
from tests.factories.rows import made_row

MADE_UP = {"myframework", "chainer", "cifar10-tiny"}  # the reader's own, and those of the plug-in
KNOWN = all_commands(app)
FULL = made_row(  # has every column
    train_accuracy=Estimate(0.8),
    test_accuracy=Estimate(0.7, 0.6, 0.8),
    waiting=0.1,
    evaluation_seconds=1.0,
    target=0.7,
    wrapped_efficiency=0.9,
)
HEADINGS = {
    "speed": [column.heading for column in speed_columns([FULL])],
    "resources": [column.heading for column in RESOURCE_COLUMNS],
    "accuracy": [column.heading for column in accuracy_columns([FULL])],
    "commands": [column.heading for column in COMMAND_COLUMNS],
    "compare": comparison.HEADINGS,
    "explain": [heading.text for heading in explanation.HEADINGS],
    "published": published_comparison.HEADINGS,
    "long": long_rows.HEADINGS,
    "transposed": list(per_framework.MEASURED),
}

SOURCE_PATH = re.compile(r"(?<![\w/.:-])(?:\w+/)+\w+\.(?:py|sql)\b")
OF_OTHERS = {"neon/examples/cifar10_conv.py", "examples/cifar10_conv.py"}


def words_of(line: str) -> list[str]:
    return shlex.split(line)[1:]


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("paceline ")])
def test_command_is_understood_and_planned_as_it_is_written(line: str) -> None:
    """On a machine with all that it may ask for."""
    function, bound, _ = app.parse_args(words_of(line), exit_on_error=False, print_error=False)
    assert function in [command.default_command for command in KNOWN.values()]
    if "choices" in bound.arguments and not MADE_UP & set(re.split(r"[\s,]", line)):
        suite = read_suite(bound.arguments["what"], bound.arguments["choices"].settings())
        assert make_plan(suite, machine(cores=16, gpus=("Card",) * 16)).cells


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_source_file_that_a_page_names_is_there(page: Path) -> None:
    """From the top of the project, or from wherever in it the reader already is."""
    named = set(SOURCE_PATH.findall(page.read_text(encoding="utf-8"))) - OF_OTHERS
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", "examples")]
    files = [f"/{path.relative_to(ROOT)}" for folder in folders for path in folder.rglob("*.*")]
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in files)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_sentences_have_the_flags_that_they_name(page: Path) -> None:
    for words in inline_commands(page.read_text(encoding="utf-8")):
        if words[0].isupper() or words[0].startswith("-"):  # COMMAND, or `paceline --help`
            continue
        command = KNOWN.get(" ".join(words[:2])) or KNOWN.get(words[0])
        assert command, words
        assert {word for word in words if word.startswith("--")} <= flags_of(command) | {"--help"}, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_named_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)[^):]*\)", text):
        assert (page.parent / link).exists(), link
    for name in re.findall(r"`((?:src|docs|tests|benchmarks|suites)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        text = (page.parent / target if target else page).read_text(encoding="utf-8")
        headings = [re.sub(r"[^\w -]", "", line.lstrip("# ").lower()) for line in re.findall(r"^#+ .*", text, re.M)]
        assert anchor in [heading.replace(" ", "-") for heading in headings], (target, anchor)


def test_every_page_is_reached_from_the_readme() -> None:
    found, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        found.add(page)
        links = re.findall(r"\]\(([^)#:]+\.md)[^):]*\)", page.read_text(encoding="utf-8"))
        todo += {(page.parent / link).resolve() for link in links} - found
    assert set(PAGES) <= found


def test_reference_of_commands_is_up_to_date() -> None:
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == reference.page(), "make docs writes it again"


def test_reference_has_flags_defaults_and_choices() -> None:
    page = reference.page()
    assert "* `--precision CHOICE,...`: Number format of the training. *[choices: float32, bfloat16]*" in page
    assert "all stands for every one. *[default: torch,jax]*" in page
    assert f"default: {DEFAULT_STEPS}, or those of the epochs." in page
    assert "* `--repeats INT`: Fresh processes per cell. *[default: 5]*" in page
    assert "*[choices: text, markdown, csv, json]* *[default: text]*" in page
    assert "paceline compare [OPTIONS] OLD NEW" in page
    assert "## paceline data get" in page.replace("### ", "## ")


def defined(page: str) -> set[str]:
    """What stands in the first column of any table, names joined by commas one by one."""
    firsts = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {name.strip("`* ") for first in firsts for name in (first, *first.split(", "))}


@pytest.mark.parametrize("table", HEADINGS)
def test_every_column_is_defined(table: str) -> None:
    known = {re.sub(r" [\d.]+$", "", heading) for heading in HEADINGS[table]}  # s to 0.7
    assert known - defined("method.md") == set()


def test_quantities_of_the_page_of_fields_are_those_of_the_program() -> None:
    page = (ROOT / "docs" / "fields.md").read_text(encoding="utf-8")
    assert fields_page.with_table(page) == page, "run `make docs`"


FIELDS = {*NAMES, *CommandRow.__struct_fields__, *Noise.__struct_fields__}


def test_every_field_of_the_json_form_is_defined() -> None:
    assert defined("fields.md") >= FIELDS


def test_no_field_is_defined_that_is_not_there() -> None:
    named = {name for name in defined("fields.md") if re.fullmatch(r"[a-z_]+", name)} - {"field"}
    assert named - FIELDS == set()


@pytest.mark.parametrize("folder", [path for path in sorted(FOLDER.iterdir()) if (path / "framework.toml").exists()])
def test_every_framework_has_the_same_four_files(folder: Path) -> None:
    files = {path.name for path in folder.iterdir() if path.is_file()}
    assert files >= {"__init__.py", "framework.toml", "requirements.txt", "builder.py", "backend.py"}


def test_every_input_is_explained() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    names = {name for workload in WORKLOADS.values() for name in workload.pipelines}
    assert {name for name in names if f"| `{name}` |" not in page} == set()


def test_suites_are_read() -> None:
    for path in (ROOT / "suites").glob("*.toml"):
        suite = read_suite([str(path)], {})
        assert suite == read_suite([path.stem], {})  # by its name, too
        assert all(part.workload for part in suite.parts or (suite,))


def test_every_mark_of_a_page_is_explained() -> None:
    assert {f"{badge.sign} {badge.word}" for badge in BADGES.values()} - defined("read-a-report.md") == set()
