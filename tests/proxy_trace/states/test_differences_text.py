"""Differences in words."""

from __future__ import annotations

import pytest

from proxy_trace.states.differences_text import values_apart
from proxy_wrapper.events import Statistics

ONE = Statistics(-1.0, 1.0, 2.0)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param([ONE, Statistics(-1.0, 1.0, 3.0)], "norm 2 | 3", id="the norm"),
        pytest.param([ONE, Statistics(-1.0, 1.00001, 2.0)], "maximum 1 | 1.00001", id="an extreme, in enough digits"),
        pytest.param([ONE, Statistics(-1.0, 1.0, 2.0, 4)], "nonfinite 0 | 4", id="non-finite elements"),
        pytest.param([None, ONE], "none | norm 2", id="none in one"),
        pytest.param(
            [ONE, Statistics(-2.0, 1.0, 2.0), Statistics(-1.0, 1.5, 2.0)],
            "minimum -1 | -2 | -1",
            id="groups that no one number tells apart",
        ),
        pytest.param(
            [ONE, Statistics(-1.0, 1.0, 2.0000001), Statistics(-2.0, 1.0, 2.0000001)],
            "norm 2 | 2.0000001 | 2.0000001",
            id="two of three that are alike in it",
        ),
    ],
)
def test_values_are_told_by_the_number_that_tells_them_apart(values: list[Statistics | None], words: str) -> None:
    assert values_apart(values) == words
