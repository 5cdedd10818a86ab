"""Words of others steer nothing: no control character reaches a terminal, a file or a page, and no value fills it."""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from paceline.analysis.comparison.compare import compare
from paceline.analysis.comparison.selections import choose
from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.table_rows import chosen_rows
from paceline.report.charts.kinds import KINDS
from paceline.report.page.report_page import write_report
from paceline.report.server import lists
from paceline.report.server.views import RUN_FILTERS
from paceline.report.studies import audits, certificates, comparison, replays
from paceline.report.tables.layouts import LAYOUTS
from paceline.report.tables.render import FORMATS
from paceline.report.tables.render_layouts import FORMATS as GRID_FORMATS
from paceline.report.tables.render_layouts import in_layout
from paceline.store.newer_records import warn_of_left_out
from paceline.store.records.events import AnyEvent
from paceline.store.records.outcome import Outcome
from paceline.store.records.runs import RunRecord
from paceline.store.store import Store
from paceline.studies.audit import audit
from paceline.studies.replay.results import compare_runs
from paceline.system.errors import UserError, unknown
from paceline.system.text.safe_text import escaped, message, printable, printed, quoted
from tests.bundles.made import TRAINED, certificate, of_machine
from tests.factories.command_line import here
from tests.factories.events import entered, failed
from tests.factories.machines import machine
from tests.factories.pages import Pages
from tests.factories.runs import FAILED, OK, begin_run, cell, save_plan

STEERING = "\x1b[31m\x07\x9b2J\u202eevil\u2066\u200b\r\nfake: line\u2028\U000e0041"
ONE, TWO, THREE = "20250101-000001-aaaaaa", "20250101-000002-bbbbbb", "20250101-000003-cccccc"


def steered(text: str) -> str:
    """What of it would steer a reader's terminal."""
    return "".join(letter for letter in text if not letter.isprintable() and letter != "\n")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store whose every name has letters that steer."""
    store = Store(tmp_path_factory.mktemp("hostile") / "store")
    named = {"workload": f"work{STEERING}", "framework": f"frame{STEERING}", "data": f"data{STEERING}"}
    also = {"update": f"update{STEERING}", "precision": f"float{STEERING}", "input": f"input{STEERING}"}
    ran, fails, skipped = cell(**named, **also), cell(**named, batch_size=7), cell(framework=f"skip{STEERING}")
    reason = f"reason{STEERING}"
    save_plan(store, {ran: ["1", "2"], fails: ["3"]}, skips={skipped: reason}, suite=f"suite{STEERING}")
    on = msgspec.structs.replace(
        machine(), processor=f"cpu{STEERING}", system=f"kernel{STEERING}", host=f"host{STEERING}"
    )
    strange = {"framework_version": f"1{STEERING}", "packages": {f"p{STEERING}": STEERING}, "python_version": STEERING}
    variables = {"TF_ENABLE_ONEDNN_OPTS": STEERING, f"XLA{STEERING}": STEERING}
    for name, of, key, repeat in ((ONE, ran, "1", 0), (TWO, ran, "2", 1), (THREE, fails, "3", 0)):
        run = of_machine(name, key, on, of, repeat)
        kept = msgspec.structs.replace(run, **strange, environment=variables)
        outcome = msgspec.structs.replace(FAILED, message=STEERING, log_end=STEERING) if of is fails else OK
        _save(store, kept, outcome)
    return store


def _save(store: Store, run: RunRecord, outcome: Outcome) -> None:
    events: list[AnyEvent] = TRAINED if outcome is OK else [entered("start"), failed(STEERING, STEERING)]
    folder = begin_run(store, run, [events])
    (folder / "log.txt").write_text(STEERING)
    store.finish_run(folder, outcome)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("layout", ["rows", *LAYOUTS])
def test_table_of_strange_names_steers_nothing(hostile: Store, layout: str, form: str) -> None:
    shown = in_layout(chosen_rows(hostile.folder, {}, None), layout, form)
    assert "evil" in shown
    assert steered(shown) == ""
    if form not in ("json", "csv"):  # what is quoted is a cell, whatever lines it has
        assert not any(line.startswith("fake: line") for line in shown.splitlines())


def test_csv_keeps_its_shape(hostile: Store) -> None:
    shown = in_layout(chosen_rows(hostile.folder, {}, None), "rows", "csv")
    assert len({len(line) for line in csv.reader(io.StringIO(shown))}) == 1
    assert len(list(csv.reader(io.StringIO(shown)))) == 4


def test_json_says_what_is_there(hostile: Store) -> None:
    rows = json.loads(in_layout(chosen_rows(hostile.folder, {}, None), "rows", "json"))
    assert rows[0]["framework"] == f"frame{STEERING}"


def test_published_figures_beside_strange_names_steer_nothing(hostile: Store) -> None:
    from paceline.report.tables.published_comparison import with_published

    rows = chosen_rows(hostile.folder, {}, None)
    for form in ("text", "markdown"):
        assert steered(GRID_FORMATS[form]([with_published(rows)])) == ""


@pytest.mark.parametrize("form", comparison.FORMATS)
def test_comparison_of_strange_names_steers_nothing(hostile: Store, form: str) -> None:
    side = choose(str(hostile.folder), hostile.folder, SPEED)
    assert steered(comparison.FORMATS[form](compare(side, side, 0.05))) == ""


@pytest.mark.parametrize("form", replays.FORMATS)
def test_replay_of_strange_names_steers_nothing(hostile: Store, form: str) -> None:
    shown = replays.FORMATS[form](compare_runs(hostile, [ONE], [TWO]))
    assert "evil" in shown or form == "csv"  # which has no title
    assert steered(shown) == ""


@pytest.mark.parametrize("form", certificates.FORMATS)
def test_certificate_of_strange_names_steers_nothing(form: str) -> None:
    strange = certificate(workload=STEERING, version=STEERING, equal=False, failure=STEERING)
    assert steered(certificates.FORMATS[form]([strange])) == ""


@pytest.mark.parametrize("form", audits.FORMATS)
def test_audit_of_strange_names_steers_nothing(tmp_path: Path, form: str) -> None:
    name = STEERING.replace("\r\nfake: line\u2028", " ")
    path = tmp_path / "table.md"
    path.write_text(
        f"# {name}\n\n| gpus | time | speedup |\n|---|---|---|\n| 1{name} | 100 | 1 |\n| 2 | 50 | 5{name} |\n"
    )
    assert steered(audits.FORMATS[form](audit(str(path)))) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_chart_of_strange_names_steers_nothing(hostile: Store, tmp_path: Path, kind: str) -> None:
    from paceline.report.charts.chart_files import ChartRequest, draw

    path = tmp_path / "chart.svg"
    try:
        said = draw(ChartRequest(kind, path, 1, "light"), hostile.folder, {}, None)
    except UserError:
        return  # nothing of these results can be drawn so
    assert steered(said) == ""
    assert steered(path.read_text()).strip("\t") == ""


def test_report_of_strange_names_steers_nothing(hostile: Store, tmp_path: Path) -> None:
    said = write_report(hostile.folder, {}, None, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert steered(said) == ""
    assert "evil" in page
    assert steered(page).strip("\t") == ""


@pytest.fixture
def renamed(hostile: Store, tmp_path: Path) -> Store:
    """The same, with a run that calls itself otherwise than its folder and ended in a way of its own."""
    store = Store(shutil.copytree(hostile.folder, tmp_path / "store"))
    for file, key in (("run.json", "id"), ("outcome.json", "status")):
        path = store.run_folder(ONE) / file
        path.write_text(json.dumps({**json.loads(path.read_bytes()), key: f"{key}{STEERING}"}))
    store.rebuild()
    return store


@pytest.mark.parametrize("form", lists.FORMATS)
def test_list_of_runs_of_strange_names_steers_nothing(renamed: Store, form: str) -> None:
    shown = lists.FORMATS[form](lists.listed_runs(renamed, dict.fromkeys(RUN_FILTERS, "")))
    assert "evil" in shown
    assert steered(shown) == ""


def test_json_of_runs_says_what_is_there(renamed: Store) -> None:
    runs = json.loads(lists.FORMATS["json"](lists.listed_runs(renamed, dict.fromkeys(RUN_FILTERS, ""))))
    assert {f"id{STEERING}", TWO, THREE} == {run["run"] for run in runs}
    assert {run["framework_version"] for run in runs} == {f"1{STEERING}"}


def test_note_about_newer_records_steers_nothing(
    hostile: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(shutil.copytree(hostile.folder, tmp_path / "store"))
    with store.transaction() as index:
        index.execute("INSERT INTO left_out VALUES (?, ?)", ("x", f"{STEERING}{'long ' * 100_000}"))
    warn_of_left_out(store.query)
    said = capsys.readouterr().err
    assert "evil" in said
    assert (steered(said), said.count("\n"), len(said) < 1600) == ("", 1, True)


def test_error_line_steers_nothing(tmp_path: Path) -> None:
    name = "\x1b]0;evil\x07\x9b\u202e"
    for words in (
        ("plan", name),
        (name,),
        ("show", "--store", str(tmp_path / name)),
        ("show", "--workload", name),
        ("log", name),
        ("compare", name, "b"),
        ("chart", name),
        ("show", f"--{name}", "x"),
        ("audit", name),
        ("replay", name),
    ):
        ended = here(*words)
        assert ended.returncode == 1, words
        assert ended.stderr.count("\n") == 1, words
        assert steered(ended.stderr) == "", words


LONG = ["x" * 100_000, "x " * 50_000, "'" * 100_000, "\x1b" * 100_000, "\u202e" * 30_000]


@pytest.mark.parametrize("value", LONG, ids=["letters", "words", "quotes", "escapes", "directions"])
def test_long_value_is_cut(value: str) -> None:
    for words in (
        *(("plan", value), (value,), ("show", "--target", value), ("show", f"--target={value}"), ("log", value)),
        *(("show", "--suite", value), ("show", value), ("show", f"--{value}"), ("compare", f"version:{value}", "b")),
        *(("audit", value), ("chart", "speed", "--output", value), ("import", value), ("show", "--store", value)),
    ):
        ended = here(*words)
        assert ended.returncode == 1, words
        assert ended.stderr.count("\n") == 1
        assert len(ended.stderr) < 700, words


PHRASE = "a phrase of words, " * 10


def test_value_of_many_words_is_cut_like_any_other(hostile: Store) -> None:
    store = str(hostile.folder)
    for words in (
        *(("show", f"--{name}", PHRASE) for name in ("suite", "workload", "framework", "devices", "data")),
        *(("compare", f"version:{PHRASE}", "b"), ("compare", PHRASE, "b")),
    ):
        said = here(*words, "--store", store).stderr
        assert "a phrase of words" in said
        assert said.count("phrase") < 5, words


def test_value_of_many_words_is_cut_on_a_page(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    save_plan(store, {cell(): ["1"]}, suite=PHRASE)
    _save(store, of_machine(ONE, "1", machine()), OK)
    pages, asked = Pages(store.folder), quote(PHRASE)
    for address in (f"/results?framework={asked}", f"/compare/table.csv?old=suite:{asked}&new=plan:2&data=none"):
        status, page = pages.get(address)
        line = page.partition("<p>")[2].partition("</p>")[0]
        assert status == 400
        assert "No results" in line
        assert 0 < line.count("phrase") < 5


def test_what_is_like_a_long_name_is_not_looked_for() -> None:
    began = time.monotonic()
    for length in (10**6, 10**7):
        assert len(str(unknown("thing", "thing" * length, ["thing", "thought"] * 50))) < 1600
    assert time.monotonic() - began < 10


def test_short_name_is_still_looked_for() -> None:
    assert str(unknown("thing", "thong", ["thing"])) == "Unknown thing 'thong'. Did you mean 'thing'? Known: thing."


def test_message_is_one_line() -> None:
    assert message("a\n b\t\x1bc") == "a b �c"
    assert str(UserError("cannot\x9b read\nit")) == "cannot� read it"
    assert message("see " + "x" * 10_000 + " there") == "see " + "x" * 79 + "… there"
    path = "/".join(["folder"] * 40)
    assert message(f"Cannot read {path}: gone") == f"Cannot read {path}: gone"
    assert message("begin " + "x " * 10_000 + "end").endswith("x end")


def test_value_is_quoted_in_short() -> None:
    assert quoted("a\u202eb") == "'a\\u202eb'"
    assert quoted("x" * 81) == repr("x" * 79 + "…")


@dataclass(frozen=True)
class Pair:
    name: str
    values: tuple[object, ...]


def test_words_are_printable_however_deep_they_lie() -> None:
    strange = Pair("a\x1b", (1, {"b\u202e": ["c\x07", 2.5, None]}, cell(data="d\x9b"), "two\nlines"))
    found = printed(strange)
    assert found == Pair("a�", (1, {"b�": ["c�", 2.5, None]}, cell(data="d�"), "two�lines"))
    assert printed(found) is not None
    assert printable("ä – ×") == "ä – ×"


def test_value_without_strange_words_is_left_as_it_is() -> None:
    row = [cell(), ("a", {"b": ["c"]})]
    assert printed(row) is row


def test_escapes_of_json_say_the_same() -> None:
    value = {"a": "\u202e \x9b \U000e0041 \u2028 ä", "b": ["\x1b"]}
    text = escaped(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(text) == value
    assert steered(text) == ""
    assert "ä" in text
