"""What `paceline serve` shows: plans, runs, logs, comparisons; and how it begins and ends."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path

import msgspec
import psutil
import pytest
from msgspec.structs import replace

from paceline.analysis.rows.table_rows import table_rows
from paceline.plan.planning import Plan, Run
from paceline.plan.settings import Suite
from paceline.report.server import logs
from paceline.report.server.application import serve
from paceline.report.server.lists import PAGE
from paceline.report.server.run_download import ListedRun, as_csv, as_json, listed_runs, markdown
from paceline.report.tables.render import FORMATS
from paceline.store.index.file import INDEX_FILE
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.machine_lock import alone
from paceline_worker.protocol import LEASE_FILE
from tests.factories.command_line import CommandLine, wait_until
from tests.factories.events import entered
from tests.factories.runs import FAILED, begin_run, cell, record, save_plan, save_run, trained
from tests.factories.server import Served, serving
from tests.factories.site import ESCAPED, RUNS, Site, served_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served_site(tmp_path_factory.mktemp("served") / "results") as started:
        yield started


def test_plans_are_listed_newest_first_with_what_became_of_their_cells(site: Site) -> None:
    text = site.served.ask("/").text
    assert text.index(site.newer) < text.index(site.plan)
    older = text[text.index(site.plan) :]
    for word in ("ok", "failed", "skipped"):
        assert f'1 <span class="mark {word}">' in older
    assert "2 of 2" in older


def test_plan_shows_the_report_of_its_own_cells(site: Site) -> None:
    older, newer = (site.served.ask(f"/plans/{plan}").text for plan in (site.plan, site.newer))
    assert "500" in older  # 1000 images in 2 s
    assert "1,000" in newer
    assert ESCAPED in older
    assert ESCAPED not in newer.replace(f"suite {ESCAPED}", "")


def test_run_shows_events_versions_and_log(site: Site) -> None:
    text = site.served.ask(f"/runs/{RUNS['good']}").text
    for words in ("Imaginary 9000", "numpy", "2.4.6", "train", "500", "red", f"paceline replay {RUNS['good']}"):
        assert words in text, words


@pytest.mark.slow
def test_secrets_among_the_variables_are_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    save_plan(store, {cell(): ["one"]})
    variables = {"HUB_TOKEN": "hunter2", "OMP_NUM_THREADS": "7777"}
    told = msgspec.structs.replace(record(RUNS["good"], "one"), environment=variables)
    save_run(store, told, [trained(1000, 2.0)])
    with serving(store.folder) as served:
        for path in (f"/runs/{RUNS['good']}", "/results"):
            text = served.ask(path).text
            assert "hunter2" not in text
            assert text.count("(hidden)") == 1
            assert "7777" in text


def test_failed_run_has_its_cause(site: Site) -> None:
    assert "crash in train: killed by SIGSEGV" in site.served.ask(f"/runs/{RUNS['bad']}").text


def test_runs_are_filtered(site: Site) -> None:
    assert RUNS["bad"] not in site.served.ask("/runs?status=ok").text
    assert RUNS["good"] not in site.served.ask("/runs?status=failed").text
    assert RUNS["good"] in site.served.ask("/runs?framework=fake&devices=1xcpu").text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "listed"), [("", True), ("framework=fake", True), ("framework=other", False), ("status=ok", False)]
)
def test_runs_under_way_are_filtered_like_others(tmp_path: Path, query: str, listed: bool) -> None:
    store = Store(tmp_path / "results")
    save_plan(store, {cell(): ["one"]})
    begin_run(store, record(RUNS["new"], "one"), [[entered("train")]])
    with serving(store.folder) as served:
        assert (RUNS["new"] in served.ask(f"/runs?{query}").text) == listed


def test_icon_that_browsers_ask_for_is_allowed_and_not_there(site: Site) -> None:
    answer = site.served.ask("/favicon.ico")
    assert (answer.status, answer.text) == (204, "")
    assert "img-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(("form", "name"), [("csv", "csv"), ("json", "json"), ("md", "markdown")])
def test_download_is_what_is_shown(site: Site, form: str, name: str) -> None:
    answer = site.served.ask(f"/plans/{site.plan}/table.{form}?framework=fake")
    rows = [row for row in table_rows(site.store, {"plan": site.plan}) if row.cell.framework == "fake"]
    assert answer.text == FORMATS[name](rows)
    assert answer.headers["content-disposition"] == f'attachment; filename="paceline.{form}"'


@pytest.mark.slow
@pytest.mark.parametrize(("form", "name"), [("csv", "csv"), ("json", "json"), ("md", "markdown")])
def test_download_of_a_plan_with_a_layout_is_what_show_prints(paceline: CommandLine, form: str, name: str) -> None:
    store, suite = Store(paceline.store), Suite(name="made", workload=("cifar10-conv",), layout="matrix")
    store.save_plan(Plan(suite, (cell(),), (), (Run(cell(), 0, "one", 60.0),)), "paceline run made.toml")
    save_run(store, record(RUNS["good"], "one"), [trained(1000, 2.0)])
    plan = store.query("SELECT id FROM plan")[0]["id"]
    path = f"/plans/{plan}"
    with serving(paceline.store) as served:
        assert served.ask(f"{path}/table.{form}").text == paceline("show", "--format", name).stdout
        for layout in ("rows", "long"):
            printed = paceline("show", "--layout", layout, "--format", name).stdout
            assert served.ask(f"{path}/table.{form}?layout={layout}").text == printed
        page = served.ask(path).text
        assert served.ask(f"{path}/table.{form}?layout=round").status == 400
    assert f'href="{path}/table.{form}?layout=rows"' in page
    assert (f'href="{path}/table.{form}"' in page) == (form != "json")  # which has no layouts
    assert "the filter further down does not" in page


@pytest.mark.parametrize("form", ["csv", "json", "md"])
def test_runs_of_the_list_are_downloaded(site: Site, form: str) -> None:
    answer = site.served.ask(f"/runs/table.{form}")
    assert all(run in answer.text for run in RUNS.values())
    assert answer.headers["content-disposition"] == f'attachment; filename="paceline.{form}"'
    failed = site.served.ask(f"/runs/table.{form}?status=failed").text
    assert [name for name, run in RUNS.items() if run in failed] == ["bad"]
    assert "crash in train: killed by SIGSEGV" in failed
    page = site.served.ask("/runs?status=failed").text
    assert f'<a href="/runs/table.{form}?status=failed">' in page  # the answer says whether it is a file or a page


def test_values_of_downloaded_runs_are_plain() -> None:
    run = ListedRun(
        run="r-1",
        cell="=evil | <b>",
        repeat=1,
        status="ok",
        started="2026-11-15 00:00:00",
        seconds=2.5,
        images_per_second=None,
        cause="",
        framework_version="2.4.6",
        machine="Imaginary 9000",
    )
    assert as_csv([run]).splitlines()[1] == "r-1,'=evil | <b>,1,ok,2026-11-15 00:00:00,2.5,,,2.4.6,Imaginary 9000"
    assert "| r-1 | =evil \\| &lt;b> | 1 | ok |" in markdown([run])
    assert json.loads(as_json([run]))[0]["images_per_second"] is None


def test_downloaded_list_has_all_its_parts(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    keys = [str(number) for number in range(PAGE + 1)]
    save_plan(store, {cell(): keys})
    for number, key in enumerate(keys):
        save_run(store, record(f"20260101-0000{number:02}-000000-aaaaaa", key, repeat=number), [trained(1000, 2.0)])
    found = listed_runs(store, {})
    assert [run.repeat for run in found] == list(range(PAGE + 1, 0, -1))
    assert {run.images_per_second for run in found} == {500.0}


def test_two_plans_are_compared(site: Site) -> None:
    query = f"?old=plan:{site.plan}&new=plan:{site.newer}&framework=fake"
    assert "1 against 1 run can never show it" in site.served.ask(f"/compare{query}").text
    for plan, value in ((site.plan, "500"), (site.newer, "1,000")):
        assert f'<a href="/plans/{plan}">{value}</a>' in site.served.ask(f"/compare{query}").text
    found = json.loads(site.served.ask(f"/compare/table.json{query}").text)["cells"][0]
    assert (found["old"], found["new"]) == ([500.0], [1000.0])
    assert (found["old_plan"], found["new_plan"]) == (site.plan, site.newer)
    assert "cannot tell" in site.served.ask(f"/compare/table.csv{query}").text


@pytest.mark.parametrize("path", ["/runs?page=0", "/?page=99999999999999", "/runs?page=-1", "/runs?page=x", "/?page=²"])
def test_page_that_does_not_exist_is_the_nearest(site: Site, path: str) -> None:
    assert site.served.ask(path.replace("²", "%C2%B2")).status == 200


def test_log_is_plain_text_as_it_was_written(site: Site) -> None:
    answer = site.served.ask(f"/runs/{RUNS['good']}/log")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.startswith("first\n\x1b[31m")


def test_part_of_a_log(site: Site) -> None:
    path = f"/runs/{RUNS['good']}/log"
    size = int(site.served.ask(path).headers["content-length"])
    part = site.served.ask(path, Range="bytes=1-3")
    assert (part.status, part.text, part.headers["content-range"]) == (206, "irs", f"bytes 1-3/{size}")
    assert site.served.ask(path, Range="bytes=-10").text == site.served.ask(f"{path}?tail=10").text == "</script>\n"
    beyond = site.served.ask(path, Range=f"bytes={size}-")
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{size}")


def test_log_in_a_page_steers_nothing(site: Site) -> None:
    text = site.served.ask(f"/runs/{RUNS['good']}").text
    assert not any(sign in text for sign in "\x1b\x07")
    assert "red �" in text


def test_huge_log_is_read_in_windows(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"".join(b"%07d\n" % line for line in range(20_000)))  # 160,000 bytes
    end = logs.window(path, None)
    assert (end.start, end.end, end.later) == (160_000 - logs.WINDOW_BYTES, 160_000, None)
    assert end.lines[-1] == "0019999"
    middle = logs.window(path, end.earlier)
    assert (middle.end, middle.later) == (end.start, end.start)
    first = logs.window(path, 0)
    assert (first.lines[0], first.earlier) == ("0000000", None)


def test_progress_bar_is_lines_and_colours_are_gone() -> None:
    text = "1 %\r2 %\r\n\x1b[1mdone\x1b[0m\tok \u202egpj.exe\n".encode()
    assert logs.lines_of(text) == ("1 %", "2 %", "done    ok �gpj.exe")


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("127.0.0.1", 99999, r"--port is a whole number from 0 to 65,535 \(0 takes any that is free\), not 99,999"),
        ("no.such.host.invalid", 0, "--host no.such.host.invalid: "),
        ("192.0.2.1", 8640, "Cannot listen on 192.0.2.1 port 8640"),
    ],
)
def test_place_that_cannot_be_listened_on_is_the_users_mistake(
    tmp_path: Path, host: str, port: int, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        serve(tmp_path, host, port, print)


def test_taken_port_is_one_line_with_the_cure(paceline: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = paceline("serve", "--port", str(port))
    assert (ended.returncode, ended.stderr) == (
        1,
        f"paceline: Port {port} of 127.0.0.1 is taken; --port {port + 1} names another, 0 any free one.\n",
    )


@pytest.mark.slow
def test_empty_store_is_served_and_stays_away(tmp_path: Path) -> None:
    with serving(tmp_path / "none") as served:
        assert "Nothing was measured yet" in served.ask("/").text
        assert served.ask("/results").status == 400
        assert served.ask("/runs").status == 200
        assert served.ask("/compare").status == 200
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_while_something_is_measured_no_page_takes_a_core_unasked(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    save_plan(store, {cell(): ["one"]}, suite="done")
    save_run(store, record(RUNS["good"], "one"), [trained(1000, 2.0)])
    done = store.query("SELECT id FROM plan")[0]["id"]
    compared = "/compare?old=suite:done&new=suite:done"
    heavy = ["/results", f"/plans/{done}", "/results/table.csv", f"/plans/{done}/table.json"]
    with serving(store.folder) as served:
        assert served.ask("/results").status == 200
        save_plan(store, {cell(framework="other"): ["never"]})
        for path in (*heavy, compared):
            os.utime(store.folder / INDEX_FILE)  # it has just changed: the plan's maker may be about to begin
            short = served.ask(path)
            assert (short.status, "takes a core from the measurement" in short.text) == (503, True), path
            anyway = unescape(short.text.rpartition('<a href="')[2].partition('"')[0])
            assert served.ask(anyway).status == 200, anyway
        assert served.ask("/runs/table.md").status == 200  # which is as quick as the list


def busy(text: str) -> bool:
    return "takes a core from the measurement" in text and "of no plan of this store" in text


@pytest.mark.slow
def test_runs_of_no_plan_are_measurements_too(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    save_plan(store, {cell(): ["one"]})
    save_run(store, record(RUNS["good"], "one"), [trained(1000, 2.0)])
    folder = begin_run(store, record(RUNS["new"], "explain's"), [[entered("train")]])
    with (folder / LEASE_FILE).open("wb") as lease, serving(store.folder) as served:
        fcntl.flock(lease, fcntl.LOCK_EX)
        short = served.ask("/results")
        assert (short.status, busy(short.text)) == (503, True)
        assert served.ask(unescape(short.text.rpartition('<a href="')[2].partition('"')[0])).status == 200


@pytest.mark.slow
def test_between_two_runs_of_no_plan_something_is_measured_as_long_as_their_process_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    store = Store(tmp_path / "results")
    save_plan(store, {cell(): ["one"]})
    save_run(store, record(RUNS["good"], "one"), [trained(1000, 2.0)])
    with serving(store.folder) as served:
        with alone():
            short = served.ask("/results")
            assert (short.status, busy(short.text)) == (503, True)
        assert served.ask("/results").status == 200  # though the process that measured goes on


def test_plan_under_way_shows_why_cells_failed_and_leads_to_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    store = Store(tmp_path / "results")
    other = cell(framework="other")
    save_plan(store, {cell(): ["one", "bad", "worse"], other: ["long"], cell(framework="third"): ["never"]})
    save_run(store, record(RUNS["good"], "one"), [trained(1000, 2.0)])
    save_run(store, record(RUNS["bad"], "bad", repeat=1), [trained(10, 1.0)], FAILED)
    save_run(store, record(RUNS["new"], "worse", repeat=2), [trained(10, 1.0)], replace(FAILED, message="later"))
    long = "20260101-000009-000000-aaaaa9"
    save_run(store, record(long, "long", other), [trained(10, 1.0)], replace(FAILED, message="x" * 299))
    plan = store.query("SELECT id FROM plan")[0]["id"]
    with alone(), serving(store.folder) as served:
        table = served.ask(f"/plans/{plan}").text.partition('id="cells"')[2]
    assert f'<a href="/runs/{RUNS["bad"]}">crash in train: killed by SIGSEGV</a>' in table
    assert f'<a href="/runs/{long}">crash in train: {"x" * 103}…</a>' in table
    assert table.count("/runs/") == 2


@pytest.mark.parametrize(
    ("path", "status", "heading"),
    [("/nowhere", 404, "Not here"), ("/results?framework=nobody", 400, "That cannot be shown")],
)
def test_error_page_is_headed_by_what_is_wrong(site: Site, path: str, status: int, heading: str) -> None:
    answer = site.served.ask(path)
    assert answer.status == status
    assert f"<title>{heading} · Paceline</title>" in answer.text
    assert f"<h1>{heading}</h1>" in answer.text


def test_page_is_kept_whatever_else_stands_in_its_address(site: Site) -> None:
    ask = site.served.ask
    first = ask("/results?target=0.5").text
    kept = [ask(f"/results?target=0.50&x={number}").text for number in range(3)]
    assert kept == [first] * 3


def used_by(served: Served) -> float:
    """Seconds of a processor, which a busy machine gives later but not more of."""
    return float(sum(psutil.Process(served.process.pid).cpu_times()[:2]))


def used_by_ended() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_of_pages(served: Served, *targets: int) -> float:
    before = used_by(served)
    for target in targets:
        assert served.ask(f"/results?target=0.{target}").status == 200
    return used_by(served) - before


@pytest.mark.slow
def test_ctrl_c_ends_it_at_once_while_pages_wait_to_be_made(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    cells = [cell(batch_size=size, workload=f"net{size}") for size in range(1, 41)]
    save_plan(store, {one: [f"{one.batch_size}"] for one in cells})
    for place, one in enumerate(cells):
        save_run(store, record(f"20260101-0000{place:02}-000000-aaaaaa", f"{one.batch_size}", one), [trained(1000, 2)])
    with serving(store.folder) as served, ThreadPoolExecutor(20) as pool:
        seconds_of_pages(served, 97, 98)  # the first takes longer
        of_one = seconds_of_pages(served, 99)
        pages = [pool.submit(served.ask, f"/results?target=0.{number}") for number in range(11, 31)]
        wait_until(lambda: any(page.done() for page in pages))
        so_far, ended_before = used_by(served), used_by_ended()
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(timeout=60) == 0
    assert used_by_ended() - ended_before - so_far < 5 * of_one  # one was being made; nearly twenty were wanted


def test_ctrl_c_ends_it_at_once_also_with_an_open_stream(site: Site, tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    save_plan(store, {cell(): ["never run"]})
    plan = store.query("SELECT id FROM plan")[0]["id"]
    with serving(store.folder) as served, served.events(f"/plans/{plan}/events") as events:
        assert next(events)[1]["wanted"] == 1  # of a plan that nobody runs: the stream has no end by itself
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(timeout=60) == 0
        assert list(events) == []  # it was closed, not cut off: that would raise, and complain on the terminal
        assert served.process.stderr is not None
        assert served.process.stderr.read() == ""
