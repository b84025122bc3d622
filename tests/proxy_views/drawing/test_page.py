"""The page of a graph in a real browser: boxes open and close, and the edges follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from proxy_views.drawing.draw import draw
from tests.proxy_views.drawing.test_draw import graph, outlined

if TYPE_CHECKING:
    from pathlib import Path

    from selenium import webdriver
    from selenium.webdriver.remote.webelement import WebElement


class Page:
    """The open page, as somebody uses it."""

    def __init__(self, browser: webdriver.Chrome, path: Path) -> None:
        browser.get(path.as_uri())
        self.browser = browser

    def visible(self) -> list[str]:
        """The nodes and the titles of boxes that can be seen."""
        found = self.browser.find_elements(By.CSS_SELECTOR, ".node > b, summary > b")
        return [each.text for each in found if each.is_displayed()]

    def edges(self) -> set[tuple[str, str]]:
        """From where to where lines are drawn, by names."""
        script = """
            const name = id => document.getElementById(id).querySelector("b").textContent;
            return [...document.querySelectorAll("main > svg > path")]
                .map(each => [name(each.dataset.from), name(each.dataset.to)]);
        """
        found: list[list[str]] = self.browser.execute_script(script)
        return {(source, target) for source, target in found}

    def box(self, name: str) -> WebElement:
        return self.browser.find_element(By.XPATH, f"//summary[b='{name}']")

    def marked(self) -> set[str]:
        return {each.text for each in self.browser.find_elements(By.CSS_SELECTOR, ".node.marked > b")}

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]


@pytest.fixture
def page(browser: webdriver.Chrome, tmp_path: Path) -> Page:
    return Page(browser, draw(graph(), tmp_path / "graph.html"))


EVERY = ["x", "block", "mlp", "0", "linear", "block_mlp_1", "chunk", "cat", "add", "head", "linear_1", "output"]


def test_all_is_there_at_first_with_all_edges(page: Page) -> None:
    assert page.visible() == EVERY
    assert page.edges() == {
        *{("x", "linear"), ("linear", "block_mlp_1"), ("block_mlp_1", "chunk"), ("chunk", "cat"), ("cat", "add")},
        *{("x", "add"), ("add", "linear_1"), ("linear_1", "output")},
    }
    assert page.complaints() == []


def test_a_closed_box_stands_for_all_that_is_in_it(page: Page) -> None:
    page.box("mlp").click()
    assert page.visible() == [name for name in EVERY if name not in ("0", "linear", "block_mlp_1")]
    assert {("x", "mlp"), ("mlp", "chunk")} < page.edges()
    page.box("block").click()
    assert page.visible() == ["x", "block", "head", "linear_1", "output"]
    assert page.edges() == {("x", "block"), ("block", "linear_1"), ("linear_1", "output")}
    page.box("block").click()
    assert "linear" not in page.visible()
    page.box("mlp").click()
    assert page.visible() == EVERY


def test_all_boxes_open_and_close_at_once(page: Page) -> None:
    page.browser.find_element(By.ID, "close").click()
    assert page.visible() == ["x", "block", "head", "output"]
    assert page.edges() == {("x", "block"), ("block", "head"), ("head", "output")}
    page.browser.find_element(By.ID, "open").click()
    assert page.visible() == EVERY
    assert len(page.edges()) == 8


def test_pointing_at_a_node_marks_what_it_takes_from_and_what_takes_from_it(page: Page) -> None:
    node = page.browser.find_element(By.XPATH, "//div[b='add']")
    ActionChains(page.browser).move_to_element(node).perform()
    assert page.marked() == {"x", "cat", "linear_1"}
    ActionChains(page.browser).move_to_element(page.browser.find_element(By.TAG_NAME, "h1")).perform()
    assert page.marked() == set()


def test_depth_says_what_is_open_at_first(browser: webdriver.Chrome, tmp_path: Path) -> None:
    page = Page(browser, draw(outlined(), tmp_path / "graph.html", depth=1))
    assert page.visible() == ["x", "block", "checkpoint_0", "cat", "add", "head", "linear_1", "output"]
    page.box("checkpoint_0").click()
    assert "mlp" in page.visible()
    assert page.complaints() == []
