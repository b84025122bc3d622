"""The page of a run: in a real browser, with a mouse, by keyboard, light and dark; and for any trace at all."""

from __future__ import annotations

import json
import re
import time
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from proxy_trace.cli import run_command
from proxy_wrapper import events
from tests.proxy_trace.report.conftest import (
    SPIKE,
    STEPS,
    drawn_records,
    gradient_at,
    loss_at,
    norm_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from selenium import webdriver
    from selenium.webdriver.remote.webelement import WebElement

    from tests.proxy_trace.conftest import WriteTrace

HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>\x1b[31m\u202e\" onload='x"
SCRIPT = "import torch\n\ndef main():\n    model(data)\n    loss.backward()\n    optimizer.step()\n"


class Page:
    """The open page, as somebody uses it."""

    def __init__(self, browser: webdriver.Chrome, path: Path) -> None:
        self.browser = browser
        browser.get_log("performance")
        browser.get_log("browser")
        browser.get(path.as_uri())
        ended = time.monotonic() + 20
        while not self.run("return 'ready' in document.documentElement.dataset") and time.monotonic() < ended:
            time.sleep(0.05)
        self.requests = [
            message["params"]["request"]["url"]
            for entry in browser.get_log("performance")
            if (message := json.loads(entry["message"])["message"])["method"] == "Network.requestWillBeSent"
        ]

    def run(self, script: str) -> Any:
        return self.browser.execute_script(script)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.browser.switch_to.active_element.send_keys(key)

    def numbers(self, plot: str) -> dict[int, str]:
        """What stands below a plot of one line: the value, and of which step it is."""
        return {
            int(each.get_attribute("data-step") or ""): each.get_attribute("data-value") or ""
            for each in self.all(f"{plot} .number")
        }

    def point_at(self, plot: str, share: float) -> None:
        over = self.one(f"{plot} .u-over")
        self.run(f"document.querySelector('{plot}').scrollIntoView({{block: 'center'}})")
        by = int(over.size["width"] * (share - 0.5))
        ActionChains(self.browser).move_to_element_with_offset(over, by, 0).perform()

    def problems(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]


@pytest.fixture
def make_page(tmp_path: Path, write_trace: WriteTrace) -> Callable[..., Path]:
    """Writes a trace for each list of records, and their page; gives back its path."""

    def make(*runs: list[events.Event], options: tuple[str, ...] = (), **run: Any) -> Path:
        folders = []
        for number, records in enumerate(runs):
            folder = tmp_path / f"run{number}"
            write_trace(folder / "rank0-1.jsonl", *records, run=f"run{number}", **{"ends": True, **run})
            folders.append(str(folder))
        page = tmp_path / "page.html"
        assert run_command(["report", *folders, "-o", str(page), "--force", *options]) == 0
        return page

    return make


@pytest.fixture
def page(
    browser: webdriver.Chrome, make_page: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Page:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    found = Page(browser, make_page(drawn_records()))
    assert found.problems() == []
    return found


def test_nothing_is_requested(page: Page) -> None:
    assert page.requests == [page.browser.current_url]
    assert page.problems() == []


@pytest.mark.parametrize(
    ("plot", "value_of"),
    [("#norm", norm_at), ("#gradient", gradient_at), ("#loss", loss_at)],
    ids=["norm", "gradient", "loss"],
)
def test_the_numbers_under_the_cursor_are_those_of_the_trace(
    page: Page, plot: str, value_of: Callable[[int], float]
) -> None:
    page.one("#filter").send_keys("fc.weight", Keys.ENTER)
    seen = set()
    for share in (0.1, 0.35, 0.6, 0.9):
        page.point_at(plot, share)
        ((step, value),) = page.numbers(plot).items()
        assert float(value) == value_of(step)
        assert value in page.one(f"{plot} .numbers").text
        seen.add(step)
    assert len(seen) == 4


def test_a_spike_of_one_step_is_there_and_can_be_walked_to(page: Page) -> None:
    page.one("#filter").send_keys("fc.weight", Keys.ENTER)
    area = page.one("#norm .area")
    page.run("document.querySelector('#norm .area').focus()")
    area.send_keys(Keys.HOME)
    assert page.numbers("#norm") == {-1: "2"}
    for _ in range(SPIKE + 1):
        area.send_keys(Keys.ARROW_RIGHT)
    assert page.numbers("#norm") == {SPIKE: str(norm_at(SPIKE))}
    area.send_keys(Keys.END)
    assert {step: float(value) for step, value in page.numbers("#norm").items()} == {STEPS - 1: norm_at(STEPS - 1)}


def test_a_part_of_the_steps_is_looked_at_more_closely(page: Page) -> None:
    def last_step() -> int:
        page.point_at("#loss", 0.995)
        (step,) = page.numbers("#loss")
        return step

    assert last_step() >= STEPS - 3
    area = page.one("#loss .area")
    page.point_at("#loss", 0.5)
    area.send_keys("+")
    assert abs(last_step() - STEPS * 3 // 4) < 5
    area.send_keys("0")
    assert last_step() >= STEPS - 3
    over = page.one("#loss .u-over")
    width = over.size["width"]
    drag = ActionChains(page.browser).move_to_element_with_offset(over, -width // 4, 0).click_and_hold()
    for _ in range(5):
        drag = drag.move_by_offset(width // 20, 0)
    drag.release().perform()
    assert abs(last_step() - STEPS // 2) < 10
    ActionChains(page.browser).double_click(over).perform()
    assert last_step() >= STEPS - 3


def test_parameters_are_chosen_by_name(page: Page) -> None:
    assert [each.text for each in page.all("#names span")] == ["model.fc.weight", "model.mean"]
    page.press("/")
    page.press("mean")
    assert [each.text for each in page.all("#names span")] == ["model.mean"]
    page.press(Keys.ENTER)
    assert page.numbers("#norm") == {-1: "2"}
    assert page.one("#gradient .numbers").text == "not recorded"
    page.press(Keys.ESCAPE)
    assert page.browser.switch_to.active_element.tag_name == "body"


def test_modules_calls_and_the_script(page: Page) -> None:
    rows = [each.text.split() for each in page.all(".modules tbody tr")]
    assert rows == [
        ["▾model", "Net", "300", "30.0", "ms", "100", "us", "12"],
        ["fc", "Linear", "300", "12.0", "ms", "40", "us", "12"],
    ]
    page.one(".modules button").send_keys(Keys.ARROW_LEFT)
    assert len(page.all(".modules tbody tr")) == 1
    canvas = page.one("#calls canvas")
    names = []
    for _ in range(4):
        canvas.send_keys(Keys.ARROW_RIGHT)
        names.append(page.one("#calls p b").text)
    assert names == ["model", "model.fc", "backward", "SGD.step"]
    page.one("#calls p a").click()
    assert page.one("tr.current").text.split() == ["6", "optimizer.step()", "SGD.step", "\u00d7300"]


def test_light_and_dark_and_keys(page: Page) -> None:
    def background() -> str:
        return page.one("body").value_of_css_property("background-color")

    seen = {background()}
    page.press("t")
    seen.add(background())
    assert seen == {"rgba(255, 255, 255, 1)", "rgba(13, 17, 23, 1)"}
    page.press("l")
    assert page.one("#log").get_attribute("aria-pressed") == "true"
    page.press("?")
    assert page.one("dialog").is_displayed()
    page.press("?")
    assert not page.one("dialog").is_displayed()
    assert page.problems() == []


@pytest.mark.parametrize("width", [390, 1600])
def test_the_page_is_no_wider_than_the_window(page: Page, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        time.sleep(0.3)
        assert page.run("return document.documentElement.scrollWidth") <= width
        assert page.run("return document.querySelector('#norm canvas').getBoundingClientRect().right") <= width
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_findings_have_place_evidence_and_remedy(
    browser: webdriver.Chrome, make_page: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    records = drawn_records(steps=20)
    broken = events.Statistics("nan", "nan", "nan", 9, "00000000000000ff")
    records.append(events.Update(30_000, 20, 2, 3, tensor=1, statistics=broken))
    records.append(events.NonFinite(30_000, 20, 2, 3, where="parameter", tensor=1, count=9, type="float32[3, 3]"))
    page = Page(browser, make_page(records))
    finding = page.one(".rule.error .finding")
    assert "model.fc.weight" in finding.text
    assert "at step 20, train.py:6" in finding.text
    assert "What to do:" in page.one(".rule.error .remedy").text
    assert "NaN" in finding.find_element(By.CSS_SELECTOR, ".plot .numbers").text
    finding.find_element(By.CSS_SELECTOR, "a.place").click()
    assert page.one("tr.current").text.startswith("6")
    page.run("document.activeElement.blur()")
    page.press("j")
    assert browser.switch_to.active_element == finding
    assert page.problems() == []


def test_evidence_that_findings_share_is_drawn_once(browser: webdriver.Chrome, make_page: Callable[..., Path]) -> None:
    records = drawn_records(steps=9)
    spare = [events.Module(number, f"model.spare{number}", "ReLU", 1, 1, "INFO", 0, 1) for number in (3, 4)]
    page = Page(browser, make_page([*records[:8], *spare, *records[8:]]))
    findings = page.all(".rule.note .finding")
    assert [each.text.splitlines()[0] for each in findings] == ["model.spare3", "model.spare4"]
    assert [len(each.find_elements(By.CSS_SELECTOR, ".plot")) for each in findings] == [1, 0]
    assert page.problems() == []


@pytest.mark.parametrize("width", [390, 1600])
def test_no_line_ends_within_an_argument_or_a_part_of_a_name(page: Page, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        for box in ("h1 .argument", "#names span"):
            script = f"return [...document.querySelectorAll('{box}')].map(each => each.getClientRects().length)"
            assert set(page.run(script)) == {1}, box
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


DRAWN = """
window.drawn = [];
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
  window.drawn.push([this.canvas, text, more.join()]);
  return draw.call(this, text, ...more);
};
"""


@pytest.mark.parametrize("by", [1e-4, 1e-6, 1e-12])
def test_the_numbers_on_an_axis_differ_however_close_they_are(
    by: float, browser: webdriver.Chrome, make_page: Callable[..., Path]
) -> None:
    close = [
        msgspec.structs.replace(record, loss_value=1.498 + by * (record.step % 7))
        if isinstance(record, events.Backward)
        else record
        for record in drawn_records()
    ]
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": DRAWN})
    try:
        page = Page(browser, make_page(close))
        drawn: list[list[str]] = page.browser.execute_script(
            "const canvas = document.querySelector('#loss canvas');"
            "return window.drawn.filter((each) => each[0] === canvas).map((each) => each.slice(1));"
        )
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    at = {place: text for text, place in drawn if text.startswith("1.49")}
    assert len(at) > 2
    assert len(set(at.values())) == len(at)


def test_two_runs_are_laid_over_each_other(browser: webdriver.Chrome, make_page: Callable[..., Path]) -> None:
    page = Page(browser, make_page(drawn_records(steps=9), drawn_records(steps=9, momentum=0.9)))
    assert [each.text for each in page.all("#processes label")] == ["first", "second"]
    assert len(page.all("#loss .number")) == 2
    page.all("#processes input")[1].click()
    assert len(page.all("#loss .number")) == 1
    assert "Where the two runs part" in page.one("#parting h2").text
    assert page.problems() == []


@pytest.mark.parametrize(
    ("records", "run"),
    [
        pytest.param([], {}, id="nothing at all"),
        pytest.param(drawn_records(steps=0), {}, id="no step"),
        pytest.param(drawn_records(steps=1)[:-4], {"ends": False}, id="cut within a step"),
        pytest.param(drawn_records(), {"ends": False, "tail": b'{"kind":"upd'}, id="cut within a line"),
        pytest.param(
            [
                *drawn_records(steps=0),
                *(
                    events.Update(step, step, 2, 3, tensor=1, statistics=events.Statistics("nan", "inf", "-inf", 9))
                    for step in range(5)
                ),
                *(events.Backward(step, step, loss_value="nan") for step in range(5)),
            ],
            {},
            id="nothing but NaN and infinity",
        ),
        pytest.param(drawn_records(HOSTILE, HOSTILE), {"script": HOSTILE, "argv": [HOSTILE]}, id="names that are HTML"),
    ],
)
def test_any_trace_has_a_page_without_a_problem(
    browser: webdriver.Chrome, make_page: Callable[..., Path], records: list[events.Event], run: dict[str, Any]
) -> None:
    page = Page(browser, make_page(records, **run))
    assert page.run("return 'ready' in document.documentElement.dataset")
    page.press("l")
    page.run("window.scrollTo(0, document.body.scrollHeight)")
    assert page.problems() == []
    assert page.requests == [browser.current_url]
    assert browser.title != "broken"
    assert not page.all("img")


class Static(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_hostile_names_add_no_tag_and_the_policy_is_strict(make_page: Callable[..., Path]) -> None:
    records = [events.Problem(5, message=HOSTILE)]
    plain = make_page(drawn_records() + records, script="train.py").read_text("utf-8")
    hostile = make_page(drawn_records(HOSTILE, HOSTILE) + records, script=HOSTILE, argv=[HOSTILE, "1"]).read_text(
        "utf-8"
    )
    assert Static(hostile).tags == Static(plain).tags
    assert "\x1b" not in hostile
    names = {name for name, _ in Static(hostile).attributes}
    assert not {"src", "style", "onload", "onerror", "onclick"} & names
    assert {value for name, value in Static(plain).attributes if name == "href" and value} >= {"data:,", "#findings-0"}
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', plain)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_the_licence_of_the_plots_stands_in_the_page(make_page: Callable[..., Path]) -> None:
    text = make_page(drawn_records(steps=1)).read_text("utf-8")
    assert "Copyright (c) 2022 Leon Sorokin" in text
    assert "Permission is hereby granted" in text


def test_the_same_run_has_the_same_page(make_page: Callable[..., Path]) -> None:
    assert make_page(drawn_records()).read_bytes() == make_page(drawn_records()).read_bytes()
