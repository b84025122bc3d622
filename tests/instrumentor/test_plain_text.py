"""Text as people are shown it."""

from __future__ import annotations

import pytest

from instrumentor.plain_text import count, escape_unprintable


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 models"), (1, "1 model"), (2, "2 models"), (2000, "2,000 models")]
)
def test_count(number: int, shown: str) -> None:
    assert count(number, "model") == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("modèle = Net()", "modèle = Net()", id="letters stay"),
        pytest.param("a\tb", "a\tb", id="tabs stay"),
        pytest.param("a\x1b[31m\nb\udcff\u202e", "a\\x1b[31m\\nb\\udcff\\u202e", id="commands are spelled out"),
    ],
)
def test_escape_unprintable(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown
