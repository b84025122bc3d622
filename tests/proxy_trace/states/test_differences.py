"""When two statistics can be those of the same values."""

from __future__ import annotations

import pytest

from proxy_trace.states.differences import is_same
from proxy_wrapper.events import Statistics


@pytest.mark.parametrize(
    ("first", "second", "is_equal"),
    [
        pytest.param(Statistics(-1.0, 1.0, 2.0), Statistics(-1.0, 1.0, 2.0), True, id="the same"),
        pytest.param(Statistics(-1.0, 1.0, 2.0), Statistics(-1.0, 1.0, 2.0 + 1e-7), True, id="a sum rounded otherwise"),
        pytest.param(Statistics(-1.0, 1.0, 2.0), Statistics(-1.0, 1.0, 2.00001), False, id="another norm"),
        pytest.param(
            Statistics(-1.0, 1.0, 2.0), Statistics(-1.0, 1.0000001, 2.0), False, id="the last bit of an extreme"
        ),
        pytest.param(Statistics("nan", "nan", "nan", 1), Statistics("nan", "nan", "nan", 1), True, id="NaN in both"),
        pytest.param(
            Statistics("nan", "nan", "nan", 1), Statistics("nan", "nan", "nan", 2), False, id="more NaN in one"
        ),
        pytest.param(Statistics(0.0, 1.0, 1.0), Statistics("nan", "nan", "nan", 1), False, id="NaN in one"),
        pytest.param(Statistics(0.0, 1e30, 1.0), Statistics(0.0, 1e30, "inf"), False, id="a norm too large in one"),
        pytest.param(None, None, True, id="none in both"),
        pytest.param(None, Statistics(), False, id="none in one"),
    ],
)
def test_statistics_are_the_same_where(first: Statistics | None, second: Statistics | None, is_equal: bool) -> None:
    assert is_same(first, second) is is_equal
    assert is_same(second, first) is is_equal
