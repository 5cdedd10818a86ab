"""The report page: the numbers of `show`, every cell with its runs, and nothing from results that is obeyed."""

from __future__ import annotations

import base64
import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.analysis.rows.row import Row
from paceline.analysis.rows.table_rows import table_rows
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.page import report_page
from paceline.report.page.badges import badges_of
from paceline.report.page.report_page import write_report
from paceline.report.page.run_details import of_runs
from paceline.report.page.tables import PlacePart, arranged, further_tables
from paceline.report.server.unfinished_runs import read_record
from paceline.report.tables.columns import tables
from paceline.report.tables.layouts import LAYOUTS, by_source
from paceline.report.tables.render import markdown
from paceline.store.store import Store
from paceline.system.errors import UserError
from tests.factories.command_line import CommandLine
from tests.factories.report import BROKEN, EVIL, LOG, NO_CARD, SPEEDS, made_store
from tests.factories.rows import COMMAND, made_row

VOID = ("meta", "input", "br", "link", "path", "line", "rect")


class Parsed(HTMLParser):
    """What a browser would see: tags with their attributes, and the text in each kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.rows: dict[str, list[list[str]]] = {}  # by the number of the cell: a list for each table that has it
        self._open: list[str] = []
        self._row: list[str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")
        if tag == "tr":
            cell = dict(attrs).get("data-cell")
            self._row = [] if cell else None
            self.rows.setdefault(cell or "", []).append(self._row or [])
            if cell:
                self._row = self.rows[cell][-1]
        if tag in ("td", "th") and self._row is not None:
            self._row.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data
        if self._row and ("td" in self._open[-4:] or "th" in self._open[-4:]):
            self._row[-1] += data

    def ids(self) -> list[str]:
        return [attributes["id"] or "" for _, attributes in self.tags if "id" in attributes]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return made_store(tmp_path_factory.mktemp("page") / "store")


@pytest.fixture(scope="module")
def rows(store: Store) -> list[Row]:
    return table_rows(store, {}, everything=True)


@pytest.fixture(scope="module")
def page(store: Store, rows: list[Row]) -> str:
    return report_page.render_report(report_page.report_context(rows, store))


@pytest.fixture(scope="module")
def parsed(page: str) -> Parsed:
    return Parsed(page)


@pytest.fixture(scope="module")
def page_data(parsed: Parsed) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(parsed.texts["script"][-1])
    return found


def test_names_and_logs_are_words_and_nothing_else(page: str, parsed: Parsed) -> None:
    names = [tag for tag, _ in parsed.tags]
    assert names.count("script") == 2  # ours, and the data
    assert "img" not in names
    assert "b" not in names
    assert not [key for _, attributes in parsed.tags for key in attributes if key.startswith("on")]
    assert any(EVIL in text for text in parsed.texts["a"])
    assert any("{{ config }}" in text for text in parsed.texts["td"])
    assert "\x1b" not in page
    assert "\u2028" not in page


def test_log_of_a_failed_run_is_on_the_page_as_it_was(page_data: dict[str, Any]) -> None:
    (failed,) = [run for run in page_data["runs"] if run.get("status") == "failed"]
    assert failed["log"] == LOG.replace("\x1b", "�").replace("\x07", "�").replace("\u2028", "\n")
    assert failed["cause"].startswith("error in train: RuntimeError")


def test_every_number_is_that_of_show(parsed: Parsed, rows: list[Row]) -> None:
    ordered = [row for _, group in tables(rows) for row in group]
    for number, row in enumerate(ordered, 1):
        if not row.repeats:
            continue
        shown = [line for line in markdown([row]).splitlines() if line.startswith(f"| {row.cell.framework} |")]
        cells = [[part.strip() for part in line.strip("|").split("|")] for line in shown]
        on_page = [[text.lstrip("✓≈✕ ").split(" ⇉")[0] for text in line] for line in parsed.rows[str(number)]]
        assert sorted(on_page) == sorted(cells)


def test_every_cell_is_there_and_leads_to_its_runs(parsed: Parsed, rows: list[Row], page_data: dict[str, Any]) -> None:
    wanted = {f"cell-{number}" for number in range(1, len(rows) + 1)}
    links = {attributes.get("href") for tag, attributes in parsed.tags if tag == "a"}
    assert len(rows) == len(SPEEDS) + 3
    assert wanted <= set(parsed.ids())
    assert {f"#{name}" for name in wanted} <= links
    held = {
        run["id"] for cell in page_data["cells"] for run in (page_data["runs"][place] for place in cell.get("runs", ()))
    }
    assert held == {run for row in rows for run in row.runs}


def test_no_two_elements_have_the_same_id(parsed: Parsed) -> None:
    assert len(parsed.ids()) == len(set(parsed.ids()))


def test_failed_and_skipped_cells_have_their_cause_in_their_line(parsed: Parsed, rows: list[Row]) -> None:
    ordered = [row for _, group in tables(rows) for row in group]
    for number, row in enumerate(ordered, 1):
        if row.status in ("failed", "skipped"):
            (line,) = parsed.rows[str(number)]
            assert row.reason in line
            assert row.status in line[-1]
    assert any(NO_CARD in line for lines in parsed.rows.values() for cells in lines for line in cells)


def test_marks_have_a_sign_and_a_word(parsed: Parsed) -> None:
    said = {line[-1] for lines in parsed.rows.values() for line in lines if line}
    assert {"✓ ok", "≈ noisy ⇉ oversubscribed", "✕ failed", "⊘ skipped"} <= said


def test_policy_allows_our_script_and_style_and_nothing_else(parsed: Parsed) -> None:
    policy = next(
        attributes["content"]
        for tag, attributes in parsed.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in (policy or "").split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == _hash(parsed.texts["script"][0])
    assert rules["style-src"] == _hash(parsed.texts["style"][0])


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_page_names_no_other_place(parsed: Parsed) -> None:
    given = [attributes.get(key) for _, attributes in parsed.tags for key in ("href", "src", "xlink:href")]
    assert all(value.startswith("#") for value in given if value)
    assert not [attributes for _, attributes in parsed.tags if "style" in attributes]  # the policy forbids them


def test_what_runs_share_is_kept_once(store: Store, rows: list[Row]) -> None:
    found = of_runs(store, [run for row in rows for run in row.runs])
    assert len(found.runs) == 3 * len(SPEEDS) + 3
    assert len(found.setups) == 1
    assert "numpy 2.4.6" in found.texts
    first = found.runs[0]
    assert (first.seed, first.log) == (1, "line\nline\nthe last line")
    assert (first.blocks["train"].count, first.blocks["train"].seconds) == (2, "1 1")


def test_line_of_a_log_that_is_cut_says_so(tmp_path: Path) -> None:
    store = made_store(tmp_path)
    run = table_rows(store, {"framework": "torch"})[0].runs[0]
    (tmp_path / "runs" / run / "log.txt").write_text(f"{'a' * 300}\n{'b' * 301}\n")
    (found,) = of_runs(store, [run]).runs
    assert found.log == f"{'a' * 300}\n{'b' * 299}…"


def test_run_whose_folder_is_gone_is_still_listed(tmp_path: Path) -> None:
    store = made_store(tmp_path)
    run = table_rows(store, {"framework": "torch"})[0].runs[0]
    (tmp_path / "runs" / run).rename(tmp_path / "elsewhere")
    (found,) = of_runs(store, [run]).runs
    assert (found.setup, found.log) == (None, "")


@pytest.mark.parametrize("damaged", [b"{", b'{"machine": "\xff"}', b'{"more": ' + b"[" * 100_000, b'{"machine": 7}'])
def test_damaged_record_costs_a_run_no_more_than_its_versions(tmp_path: Path, damaged: bytes) -> None:
    store = made_store(tmp_path)
    run = table_rows(store, {"framework": "torch"})[0].runs[0]
    (tmp_path / "runs" / run / "run.json").write_bytes(damaged)
    (found,) = of_runs(store, [run]).runs
    assert (found.setup, found.log) == (None, "line\nline\nthe last line")
    assert read_record(tmp_path / "runs" / run) is None


def test_layout_of_a_suite_comes_first_and_has_the_cells_below(
    store: Store, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "MOST_CHARTED", 0)
    report = report_page.report_context(rows, store, layouts={"cifar10-conv": "matrix"})
    (section,) = report.sections
    titles = [table.grid.title.rpartition(": ")[2] for table in section.arranged]
    assert titles[:2] == ["time", "memory, peak minus idle"]
    assert sum(len(group.table.lines) for group in section.groups) == len(rows)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_cell_of_a_layout_leads_to_its_runs(
    store: Store, rows: list[Row], monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.setattr(report_page, "MOST_CHARTED", 0)
    report = report_page.report_context(rows, store, layouts={"cifar10-conv": layout})
    (section,) = report.sections
    places = [place for table in section.arranged for line in (table.headings, *table.lines) for place in line]
    assert {piece.cell for place in places for piece in place} - {None} == set(range(1, len(rows) + 1))
    above = report_page.render_report(report).partition('class="group"')[0].partition('class="workload"')[2]
    assert {f"#cell-{number}" for number in range(1, len(rows) + 1)} <= {
        attributes.get("href") for tag, attributes in Parsed(above).tags if tag == "a"
    }


def test_values_of_several_cells_lead_each_to_its_own_and_a_word_for_all_nowhere() -> None:
    names = ("fake:device", "fake:host", "fake:python")
    speeds = dict(zip(names, (3.0, 2.0, 1.0), strict=True))
    fast = [made_row(data=name, images_per_second=Estimate(speed)) for name, speed in speeds.items()]
    gone = [made_row(framework="neon", data=name, images_per_second=None, status="failed") for name in names]
    (grid,) = by_source([*fast, *gone])
    _, several, word = arranged(grid, [*fast, *gone].index).lines[0]
    assert several == (PlacePart("3.00", 0), PlacePart("2.00", 1), PlacePart("1.00", 2))
    assert word == (PlacePart("failed", None),)


def test_too_many_cells_for_a_layout_are_told(store: Store, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_page, "MOST_ARRANGED", 2)
    monkeypatch.setattr(report_page, "MOST_CHARTED", 1)
    written = report_page.render_report(report_page.report_context(rows, store, layouts={"cifar10-conv": "long"}))
    assert "paceline show --layout long --workload cifar10-conv</code>" in written
    assert "Charts are drawn for the newest tables only" in written


def test_charts_are_those_of_the_newest_tables_whatever_their_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "MOST_CHARTED", 2)
    newest_first = [
        made_row(workload=name, batch_size=size, shares=(size,))
        for name, size in (("cifar10-conv", 32), ("mnist-mlp", 32), ("cifar10-conv", 64))
    ]
    report = report_page.report_context(newest_first, Store(tmp_path))
    assert [group.charted for _, group in report.groups] == [True, False, True]


def test_single_run_is_marked_so() -> None:
    words = [badge.word for badge in badges_of(made_row(repeats=1))]
    assert words == ["ok", "one run"]


def test_commands_are_listed_and_not_ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_page, "MOST_CHARTED", 0)
    seconds = Estimate(9.5, 9.0, 10.0)
    command = msgspec.structs.replace(COMMAND, line="python train.py '<b>'", real_seconds=seconds)
    row = made_row(workload="command", framework="mine", shares=(), runs=(), command=command)
    written = report_page.render_report(report_page.report_context([row], Store(tmp_path)))
    assert "commands are not ranked" in written
    assert "paceline chart speed --workload command</code>" in written
    assert "python train.py &#39;&lt;b&gt;&#39;" not in written  # only the script shows it, as text
    assert "paceline time --repeats 1 --name mine --devices 1xcpu -- python train.py '\\u003cb\\u003e'" in written
    assert "<td>9.50</td><td>9.00–10.0</td>" in written


def test_report_is_written_whole_and_told(paceline: CommandLine, tmp_path: Path) -> None:
    made_store(paceline.store)
    written = paceline("report", "-o", str(tmp_path / "page.html"))
    assert written.returncode == 0, written.stderr
    assert written.stdout.startswith(f"{tmp_path / 'page.html'}: 7 cells (")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").endswith("</html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "store"]


@pytest.mark.parametrize(
    ("filters", "output", "words"),
    [
        ({}, ".", "is a folder; name a file in it"),
        ({}, "missing/report.html", "There is no folder"),
        ({"framework": "none"}, "report.html", "No results match --framework 'none'"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    store: Store, tmp_path: Path, filters: dict[str, str | None], output: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        write_report(store.folder, filters, None, tmp_path / output)
    assert list(tmp_path.iterdir()) == []


def test_empty_store_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There are no results at"):
        write_report(tmp_path / "none", {}, None, tmp_path / "report.html")


def test_filters_choose_what_is_reported(store: Store, tmp_path: Path) -> None:
    said = write_report(store.folder, {"framework": EVIL, "suite": None}, None, tmp_path / "report.html")
    assert "1 cell (1 failed), 1 run" in said
    assert BROKEN.framework == EVIL


def test_waiting_for_images_is_shown_without_evaluation() -> None:
    unjudged = made_row(data="cifar10", input="scaled", waiting=0.25, train_accuracy=Estimate(0.5))
    lost = made_row(data="cifar10", input="scaled", repeats=0, status="failed")
    accuracy, _ = further_tables([unjudged, lost], lambda row: 1)
    assert [column.heading for column in accuracy.columns[2:]] == ["batch", "training accuracy", "waiting"]
    assert [line.texts[-1] for line in accuracy.lines] == ["25.0%"]


def published_part(page: str) -> str:
    return page.partition('<details class="further published">')[2].partition("</pre></details>")[0]


def test_published_figures_lead_to_the_commands_that_measure_them(store: Store) -> None:
    measured = made_row(framework="mxnet", devices="cuda:0", seconds=20.0, peak_memory_mib=(106.0,))
    part = published_part(report_page.render_report(report_page.report_context([measured], store)))
    assert "[1] Titan X, 128" in part
    assert "$ paceline run cifar10-conv --framework mxnet --devices cuda:0 \\\n" in part
    assert "differs: hardware there: Titan X" in part
    assert "The command of each published row, and what will differ all the same" in part


@pytest.mark.parametrize("rows", [[made_row()], [made_row(workload="mnist-mlp", framework="mxnet")]])
def test_cells_without_a_published_figure_have_no_such_part(store: Store, rows: list[Row]) -> None:
    assert published_part(report_page.render_report(report_page.report_context(rows, store))) == ""


def test_too_many_cells_are_not_held_against_published_ones(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_page, "MOST_ARRANGED", 1)
    rows = [made_row(framework="mxnet", devices="cuda:0", seed=seed) for seed in (1, 2)]
    assert published_part(report_page.render_report(report_page.report_context(rows, store))) == ""
