"""The served pages as a person sees them: progress that moves, a comparison, a run and its log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from paceline.store.store import Store
from paceline.system.paths import home
from tests.factories.command_line import CommandLine, wait_until
from tests.factories.runs import FAILED, cell, record, save_plan, save_run, trained
from tests.factories.server import Served, serving

pytest_plugins = ("tests.browser.chromium",)
pytestmark = pytest.mark.browser

SHOTS = os.environ.get("PACELINE_SHOTS")  # where to put pictures of what was seen, if anybody wants to look
RUN = ("run", "cifar10-conv", "--framework", "fake", "--warmup", "2", "--batch-size", "200")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two plans of a cell and one that failed."""
    store = Store(tmp_path_factory.mktemp("served") / "results")
    for day, seconds in ((1, 2.0), (2, 1.0)):
        keys = [f"{day}-{repeat}" for repeat in range(5)]
        save_plan(store, {cell(): keys, cell(framework="<b>bad"): [f"{day}-bad"]}, suite=f"day{day}")
        for repeat, key in enumerate(keys):
            run = record(f"2026010{day}-00000{repeat}-000000-aaaaaa", key, repeat=repeat)
            save_run(store, run, [trained(1000, seconds + repeat / 100)])
        failed = record(f"2026010{day}-000009-000000-aaaaaa", f"{day}-bad", cell(framework="<b>bad"))
        folder = save_run(store, failed, [trained(10, 1.0)], FAILED)
        (folder / "log.txt").write_text("building\n<b>Segmentation fault</b>\n")
    with serving(store.folder) as started:
        yield started


def shot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"served-{name}.png", full_page=True)


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_from_the_list_to_the_log_of_a_failed_run(served: Served, page: Page) -> None:
    page.goto(served.url)
    shot(page, "plans")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_label("Status").select_option("failed")
    page.get_by_role("button", name="Show").click()
    shot(page, "runs")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.locator("tbody tr a").first.click()
    shot(page, "run")
    assert "<b>bad" in page.locator("h1").inner_text()
    assert "<b>Segmentation fault</b>" in page.locator("pre.log").inner_text()


def test_plan_is_a_report_that_can_be_narrowed(served: Served, page: Page) -> None:
    page.goto(served.url)
    page.locator("tbody tr a").first.click()
    shot(page, "plan")
    expect(page.locator("table.cells tbody tr[id]")).to_have_count(2)
    page.get_by_text("Choose cells").click()
    page.locator("form.choices-form select[name=framework]").select_option("fake")
    page.locator("form.choices-form button").click()
    expect(page.locator("table.cells tbody tr[id]")).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    text = download.value.path().read_text()
    assert text.count("\n") == 2  # its heading and its one cell


def test_two_days_are_compared(served: Served, page: Page) -> None:
    page.goto(f"{served.url}/compare")
    page.get_by_label("Old").fill("suite:day1")
    page.get_by_label("New").fill("suite:day2")
    page.get_by_role("button", name="Compare").click()
    shot(page, "compare")
    assert "better" in page.locator("tbody tr").first.inner_text()


@pytest.mark.parametrize(
    "path", ["/", "/runs", "/compare?old=suite:day1&new=suite:day2", "/runs/20260101-000009-000000-aaaaaa"]
)
def test_phone_needs_no_sideways_scrolling(served: Served, page: Page, path: str) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.goto(served.url + path)
    shot(page, f"phone-{path.strip('/').partition('?')[0].replace('/', '-') or 'plans'}")
    assert fits(page)


def test_running_plan_is_seen_to_move_and_to_end(paceline: CommandLine, page: Page) -> None:
    with serving(paceline.store, PACELINE_HOME=str(home())) as started:
        run = paceline.start(*RUN, "--steps", "100", "--repeats", "2")
        wait_until(lambda: "data-events" in started.ask("/").text)
        page.goto(started.url)
        page.get_by_role("link", name="this plan").click()
        now = page.locator('[data-live="run"]')
        now.filter(has_text="train").wait_for()
        first = now.inner_text()
        shot(page, "running")
        now.filter(has_not_text=first).wait_for(state="attached")
        page.locator(".live.complete").wait_for()
        shot(page, "complete")
        expect(page.locator('[data-live="summary"]')).to_have_text("2 of 2 runs are done")
        page.get_by_role("link", name="Show the results").click()
        expect(page.locator("table.cells tbody tr[id]")).to_have_count(1)
        run.communicate(timeout=60)
        page.close()  # before the server: it may still listen whether more comes


def test_page_says_so_when_the_server_is_gone(tmp_path: Path, browser: Browser) -> None:
    store = Store(tmp_path / "results")
    save_plan(store, {cell(): ["never run"]})
    page = browser.new_page()  # one that may complain
    with serving(store.folder) as started:
        plan = store.query("SELECT id FROM plan")[0]["id"]
        page.goto(f"{started.url}/plans/{plan}")
        started.process.kill()
        page.wait_for_selector('[data-live="lost"]:not([hidden])')
    page.close()
