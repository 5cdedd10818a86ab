"""A store of some hundred runs in a browser, as a file and served: unfolded, filtered, followed to a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from paceline.report.page.report_page import write_report
from paceline.store.store import Store
from tests.factories.runs import cell, record, save_plan, save_run, trained
from tests.factories.server import serving

pytest_plugins = ("tests.browser.chromium",)
pytestmark = pytest.mark.browser

CELLS, REPEATS = 45, 5  # more than the 30 lines that a table shows at first


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("large") / "results")
    cells = [cell(framework=f"net{place:02}") for place in range(CELLS)]
    wanted = {one: [f"{one.framework}-{repeat}" for repeat in range(REPEATS)] for one in cells}
    save_plan(made, wanted)
    for place, (one, keys) in enumerate(wanted.items()):
        for repeat, key in enumerate(keys):
            run = record(f"20260101-00{repeat:02}{place:02}-000000-aaaaaa", key, one, repeat=repeat)
            folder = save_run(made, run, [trained(1000 + place, 1 + repeat / 100)])
            (folder / "log.txt").write_text(f"{one.framework} said this\n")
    return made


def filter_and_follow(page: Page, address: str) -> None:
    """From the folded table to the runs of one of its last cells."""
    page.goto(address)
    table = page.locator("table.long").first
    lines = table.locator("tbody tr:visible")
    expect(lines).to_have_count(30)
    page.get_by_role("button", name="Show all 45 lines").click()
    expect(lines).to_have_count(45)
    page.get_by_label("Text", exact=True).fill("net4")
    expect(lines).to_have_count(5)
    page.get_by_role("button", name="Clear the filter").click()
    expect(lines).to_have_count(45)  # as it was before
    page.get_by_role("button", name="Show the first 30 lines").click()
    expect(lines).to_have_count(30)
    page.get_by_label("Text", exact=True).fill("net4")
    expect(lines).to_have_count(5)  # also of a table that is folded
    table.get_by_role("link", name="net42").click()
    expect(page.locator("dialog details.run")).to_have_count(REPEATS)
    expect(page.locator("dialog details.run[open] pre.log")).to_have_text("net42 said this")


def test_file_is_unfolded_filtered_and_followed_to_a_log(page: Page, store: Store, tmp_path: Path) -> None:
    write_report(store.folder, {}, None, tmp_path / "report.html")
    filter_and_follow(page, (tmp_path / "report.html").as_uri())
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Clear the filter").click()
    expect(page.locator("table.long").first.locator("tbody tr:visible")).to_have_count(30)


def test_served_page_leads_on_to_the_page_of_a_run(page: Page, store: Store) -> None:
    with serving(store.folder) as served:
        filter_and_follow(page, f"{served.url}/results")
        page.locator("dialog details.run[open]").get_by_role("link", name="All about this run").click()
        expect(page.locator("h1")).to_contain_text("net42")
        expect(page.locator("pre.log")).to_have_text("net42 said this")
