"""When statistics tell whether values are the same."""

from __future__ import annotations

import pytest

from proxy_trace.tensors.same_values import are_same_values
from proxy_wrapper.events import Statistics


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(Statistics(0.0, 1.0, 1.0, 0, "aa"), Statistics(0.0, 1.0, 1.0, 0, "aa"), True, id="the same bits"),
        pytest.param(
            Statistics(0.0, 1.0, 1.0, 0, "aa"),
            Statistics(0.0, 1.0, 1.0, 0, "bb"),
            False,
            id="other bits, all else equal",
        ),
        pytest.param(
            Statistics(0.0, 1.0, 1.0, 0, "aa"),
            Statistics(0.0, 1.0, 1.0000001, 0, "aa"),
            True,
            id="a norm summed otherwise",
        ),
        pytest.param(Statistics(0.0, 1.0, 1.0), Statistics(0.0, 1.0, 1.0), None, id="no bits, and nothing differs"),
        pytest.param(Statistics(0.0, 1.0, 1.0), Statistics(0.0, 1.0, 1.0, 0, "aa"), None, id="bits of one alone"),
        pytest.param(
            Statistics(0.0, 1.0, 1.0), Statistics(0.0, 2.0, 1.0), False, id="no bits, and the extremes differ"
        ),
        pytest.param(None, Statistics(0.0, 1.0, 1.0, 0, "aa"), None, id="values that could not be read"),
        pytest.param(None, None, None, id="nothing at all"),
    ],
)
def test_values_are_the_same_if_their_bits_are(
    first: Statistics | None, second: Statistics | None, expected: bool | None
) -> None:
    assert are_same_values(first, second) is expected
    assert are_same_values(second, first) is expected
