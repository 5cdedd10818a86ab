"""The report in a browser: from disk, by mouse and keyboard, light and dark, wide and narrow."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from paceline.analysis.rows.table_rows import table_rows
from paceline.report.page.report_page import render_report, report_context, write_report
from tests.factories.report import EVIL, made_store
from tests.factories.rows import made_row

pytest_plugins = ("tests.browser.chromium",)
pytestmark = pytest.mark.browser

SHOTS = os.environ.get("PACELINE_SHOTS")  # a folder for pictures that somebody wants to look at
# Contrast of every visible word against what is behind it, by the formula of WCAG 2.
TOO_FAINT = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([red, green, blue]) => [red, green, blue].map((value) => value / 255)
    .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("body *:not(svg, svg *, script, option)")]
    .filter((element) => element.checkVisibility())
    .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .map((element) => {
      const [one, other] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
      return [(Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05), element.outerHTML.slice(0, 80)];
    })
    .filter(([contrast]) => contrast < 4.5);
}"""


# What is far away is not painted until somebody scrolls there, and what it would push aside is not seen before.
PAINT_ALL = "document.querySelectorAll('.workload').forEach((each) => { each.style.contentVisibility = 'visible'; })"
CUT_OFF = """[...document.querySelectorAll(".workload, .group, .answer, .charts, #filter, #reading")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.className || each.id)"""
WIDER_THAN_ITS_PLACE = """[...document.querySelectorAll(".picture svg")]
  .map((each) => [each.getBoundingClientRect().width, each.parentElement.clientWidth])
  .filter(([width, place]) => width > place)"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    made_store(folder / "store")
    write_report(folder / "store", {}, None, folder / "report.html")
    return (folder / "report.html").as_uri()


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def test_cell_leads_to_its_log_and_back(page: Page, address: str) -> None:
    page.goto(address)
    link = page.locator("table.cells th a", has_text=EVIL).first
    link.click()
    dialog = page.locator("dialog")
    expect(dialog.get_by_role("heading", level=2)).to_have_text(f"{EVIL} on 1xcpu")
    assert "onerror=alert(1)" in dialog.locator("pre.log").inner_text()
    assert "paceline replay 20261114-000000-evil" in dialog.inner_text()
    shoot(page, "dialog")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert link.evaluate("link => link === document.activeElement")
    page.wait_for_url(re.compile(r"html$"))


def test_value_of_a_layout_leads_to_its_cell_and_is_not_filtered(page: Page, tmp_path: Path) -> None:
    store = made_store(tmp_path / "store")
    rows = table_rows(store, {}, everything=True)
    (tmp_path / "report.html").write_text(
        render_report(report_context(rows, store, layouts={"cifar10-conv": "matrix"})), encoding="utf-8"
    )
    page.goto((tmp_path / "report.html").as_uri())
    line = page.locator("table:not(.cells) tr", has=page.get_by_role("rowheader", name="torch", exact=True)).first
    line.get_by_role("link").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog").get_by_role("heading", level=2)).to_contain_text("torch on ")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    expect(line.get_by_role("link").first).to_be_focused()
    page.get_by_label("Framework").select_option("fake")
    expect(line).to_be_visible()
    expect(page.locator("#filter output")).to_contain_text("tables in a layout of their own still speak of all cells")


def test_address_of_a_run_opens_it_and_back_closes_it(page: Page, address: str) -> None:
    page.goto(f"{address}#run-20261111-000000-ok")
    assert page.locator("dialog details.run[open] > summary").inner_text().endswith("20261111-000000-ok")
    page.locator("dialog .close").click()
    page.locator("table.cells th a").first.click()
    expect(page.locator("dialog")).to_be_visible()
    page.go_back()
    page.wait_for_function("!document.querySelector('dialog').open")


def test_runs_show_blocks_versions_and_seed(page: Page, address: str) -> None:
    page.goto(f"{address}#cell-1")
    text = page.locator("dialog").inner_text()
    assert "train (2 × 1 step): 1 1" in text
    assert "Imaginary 9000" in text
    assert "seed 2" in text
    assert "paceline run cifar10-conv --framework fake --devices 1xcpu" in text


def test_point_of_a_chart_leads_to_its_cell(page: Page, address: str) -> None:
    page.goto(address)
    page.locator(".picture a").first.click()
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(address)  # the browser has gone back
    page.locator(".picture a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_be_visible()


def test_theme_is_kept(page: Page, address: str) -> None:
    page.goto(address)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_label("Theme").select_option("dark")
    dark = page.evaluate(paper)
    page.reload()
    assert page.evaluate(paper) == dark != light
    shoot(page, "dark")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(page: Page, address: str, theme: str) -> None:
    page.goto(address)
    page.get_by_label("Theme").select_option(theme)
    assert page.evaluate(TOO_FAINT) == []
    page.locator("table.cells th a").first.click()
    assert page.evaluate(TOO_FAINT) == []


def test_filter_leaves_what_fits_and_says_how_much(page: Page, address: str) -> None:
    page.goto(address)
    lines = page.locator("tr[id^=cell-]")
    expect(lines).to_have_count(7)
    page.get_by_label("Framework").select_option("torch")
    page.get_by_label("Mark").select_option("ok")
    assert [line.inner_text().split("\t")[0] for line in lines.all() if line.is_visible()] == ["torch"]
    assert page.locator("#filter output").inner_text().startswith("1 of 7 cells")
    shoot(page, "filtered")
    page.get_by_role("button", name="Clear the filter").click()
    page.wait_for_function("document.querySelectorAll('tr[id^=cell-][hidden]').length === 0")
    page.get_by_label("Text", exact=True).fill("no gpu")
    assert page.locator("#filter output").inner_text().startswith("1 of 7 cells")


def test_paper_says_what_the_filter_has_left_and_charts_fit_it(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 400, "height": 900})  # less than a chart
    page.goto(address)
    form, said = page.locator("#filter"), page.locator("#filter output")
    page.emulate_media(media="print")
    expect(form).to_be_hidden()
    page.emulate_media(media="screen")
    page.get_by_label("Framework").select_option("torch")
    page.emulate_media(media="print")
    expect(said).to_contain_text("2 of 7 cells")
    expect(said).to_be_visible()
    expect(form.get_by_label("Framework")).to_be_hidden()
    shoot(page, "paper")
    assert page.evaluate(WIDER_THAN_ITS_PLACE) == []


def test_address_that_is_none_breaks_nothing(page: Page, address: str) -> None:
    page.goto(f"{address}#%")
    page.locator("table.cells th a").first.click()
    expect(page.locator("dialog")).to_be_visible()
    page.go_back()
    expect(page.locator("dialog")).to_be_hidden()


@pytest.mark.parametrize("width", [320, 375, 1920])
def test_page_never_scrolls_sideways(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    page.goto(address)
    page.evaluate(PAINT_ALL)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT_OFF) == []
    shoot(page, f"wide-{width}")
    page.locator("table.cells th a").first.click()
    assert page.evaluate("document.querySelector('dialog').scrollWidth <= document.querySelector('dialog').clientWidth")


def test_keyboard_reaches_the_results_and_headings_are_in_order(page: Page, address: str) -> None:
    page.goto(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    levels = page.evaluate("[...document.querySelectorAll('main :is(h1,h2,h3,h4)')].map((each) => +each.tagName[1])")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_tables_and_charts_are_there_without_script(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(address)
    expect(opened.locator("table.cells tbody tr").first).to_be_visible()
    expect(opened.locator(".picture svg").first).to_be_visible()
    expect(opened.locator("#filter")).to_be_hidden()
    assert "need JavaScript" in opened.locator("#reading").inner_text()
    context.close()


@pytest.mark.parametrize("width", [420, 1200])
def test_published_figures_and_their_commands_unfold_and_fit(page: Page, tmp_path: Path, width: int) -> None:
    store = made_store(tmp_path / "store")
    three = {"devices": "cuda:0+cuda:1+cuda:2", "shares": (43, 43, 42)}
    rows = [made_row(framework="mxnet", seconds=20.0, **three), made_row(framework="neon", devices="cuda:2")]
    (tmp_path / "report.html").write_text(render_report(report_context(rows, store)), encoding="utf-8")
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((tmp_path / "report.html").as_uri())
    part = page.locator("details.published")
    expect(part.get_by_text("[1] Titan X + Titan X + GTX 980, 128").first).to_be_hidden()
    part.locator("summary").first.click()
    expect(part.get_by_text("[1] Titan X + Titan X + GTX 980, 128").first).to_be_visible()
    expect(part.locator("pre")).to_contain_text("paceline run cifar10-conv --framework neon --devices cuda:2")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(TOO_FAINT) == []
    align = "element => getComputedStyle(element).textAlign"
    assert [each.evaluate(align) for each in part.locator("tbody tr").first.locator("td").all()] == [
        *["left"] * 3,
        *["right"] * 3,
    ]
    shoot(page, f"published-{width}")
