"""The page, in a real browser: opened, filtered, walked through by keyboard, light and dark."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from instrumentor.report import html_report
from instrumentor.report.record import summarize

if TYPE_CHECKING:
    from pathlib import Path

    from selenium import webdriver
    from selenium.webdriver.remote.webelement import WebElement

    from instrumentor.report.record import FileRecord


def page_of(records: list[FileRecord]) -> str:
    out = io.BytesIO()
    html_report.render(lambda: iter(records), summarize(records), out)
    return out.getvalue().decode()


class Page:
    """The open page, as somebody uses it."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def files(self) -> list[str]:
        return [each.text for each in self.all("main > section h2") if each.is_displayed()]

    def tree(self) -> list[str]:
        return [each.text.split()[0] for each in self.all("nav a") if each.is_displayed()]

    def press(self, keys: str) -> None:
        for key in keys:
            self.browser.switch_to.active_element.send_keys(key)

    def current(self) -> str:
        return self.browser.switch_to.active_element.text

    def problems(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]


@pytest.fixture
def page(browser: webdriver.Chrome, records: list[FileRecord], tmp_path: Path) -> Page:
    path = tmp_path / "report.html"
    path.write_text(page_of(records), "utf-8")
    browser.get(path.as_uri())
    found = Page(browser)
    assert found.problems() == []
    return found


FILES = ["zoo/gan.py", "zoo/deep/plain.py", "zoo/bad.py", "zoo/with blank ä.py"]


def test_is_self_contained(records: list[FileRecord]) -> None:
    text = page_of(records)
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", text)
    assert "@import" not in text
    assert "url(" not in text


def test_opens_with_every_file_that_has_something(page: Page) -> None:
    assert page.files() == FILES
    assert [each.rsplit("/", 1)[-1].split()[0] for each in FILES] == page.tree()
    assert "not Python" in page.one("section .error").text


def test_each_added_line_stands_in_the_right_column_with_its_reason(page: Page, records: list[FileRecord]) -> None:
    added = [row.find_elements(By.TAG_NAME, "td") for row in page.all("#f0 tr.added")]
    assert all(cells[0].text == "" and cells[1].text == "" for cells in added)
    assert [cells[3].text.split(" = ")[0].strip() for cells in added][1:3] == ["netG", "net"]
    reasons = page.all("#f0 tr.why")
    site = next(site for site in records[0].sites if site.target == "netG")
    assert site.reason in reasons[0].text
    assert site.confidence in reasons[0].text
    assert page.all("#f0 td.new span.kn")  # syntax colours


def test_aliases_lead_to_their_lines(page: Page, records: list[FileRecord]) -> None:
    links = page.all("#f0 tr.why .alias a")
    site = next(site for site in records[0].sites if site.target == "netG")
    assert [link.text for link in links][: len(site.aliases)] == [f"line {alias.line}" for alias in site.aliases]
    links[1].click()
    target = page.one("tr:target")
    assert target.find_elements(By.CSS_SELECTOR, "td.old")[0].text.strip() == "late = other"
    assert target.is_displayed()


def test_filter_by_text(page: Page) -> None:
    page.press("/")
    page.press("deep plain")
    assert (page.files(), page.tree()) == (["zoo/deep/plain.py"], ["plain.py"])
    page.press(Keys.ESCAPE)
    assert page.browser.switch_to.active_element.tag_name == "body"
    page.one("#filter").clear()
    page.one("#filter").send_keys("netg")  # a model's name
    assert page.files() == ["zoo/gan.py"]


def test_filter_by_confidence(page: Page, records: list[FileRecord]) -> None:
    held = {site.confidence for record in records for site in record.sites}
    boxes = {box.get_attribute("value"): box for box in page.all("input[name=confidence]")}
    assert set(boxes) == held
    assert len(held) > 1
    boxes["certain"].click()
    shown = [each for each in page.all(".site") if each.is_displayed()]
    assert shown
    assert all(each.get_attribute("data-confidence") != "certain" for each in shown)
    assert page.files() == ["zoo/gan.py", "zoo/deep/plain.py", "zoo/bad.py"]  # a failure is no matter of confidence


def test_filter_by_decision(page: Page) -> None:
    def shown() -> set[str | None]:
        return {each.get_attribute("data-decision") for each in page.all(".site") if each.is_displayed()}

    assert "not wrapped" not in shown()
    page.one("input[name=decision][value='not wrapped']").click()
    assert "not wrapped" in shown()


def test_the_keyboard_goes_from_site_to_site_and_from_file_to_file(page: Page) -> None:
    page.press("j")
    first = page.current()
    assert first.startswith("wrap")
    page.press("j")
    assert page.current() != first
    page.press("k")
    assert page.current() == first
    page.press("nn")
    assert page.one("section.current h2").text == "zoo/bad.py"
    page.press("p")
    assert page.one("section.current h2").text == "zoo/deep/plain.py"
    assert page.one("nav a.current").text.startswith("plain.py")
    page.press("o")
    assert not page.one("section.current table").is_displayed()
    page.press("?")
    assert page.one("dialog").is_displayed()
    page.press("?")
    assert not page.one("dialog").is_displayed()


def test_light_and_dark(page: Page) -> None:
    def background() -> str:
        return page.one("body").value_of_css_property("background-color")

    seen = {background()}
    page.press("t")
    seen.add(background())
    assert seen == {"rgba(255, 255, 255, 1)", "rgba(13, 17, 23, 1)"}
    page.browser.refresh()
    assert background() in seen
    page.one("#theme").click()
    assert page.problems() == []


def test_a_page_without_any_site() -> None:
    assert "No file has a site." in page_of([])
