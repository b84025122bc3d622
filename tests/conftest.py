"""Skips what needs a device or a browser that is not there, and opens pages in a browser."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") is None:
        return
    import torch  # Not above: tests of the rewriter do without.

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """A browser without a window. Where `REQUIRE_BROWSER` is set, that there is none is a failure."""
    from selenium import webdriver  # Not above: most tests do without.
    from selenium.webdriver.chrome.service import Service

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        if os.environ.get("REQUIRE_BROWSER"):
            pytest.fail("REQUIRE_BROWSER is set, but there is no chromium or no chromedriver")
        pytest.skip("needs chromium and chromedriver (Debian: apt install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1400,900",
    ):
        options.add_argument(argument)
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    yield found
    found.quit()
