from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_trace.reading.folded_names import fold_names


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["m.a.w"], [("m.a.w", 1)], id="one of two is itself"),
        pytest.param(["m.a.w", "m.a.b"], [("m.a.*", 2)], id="all of a module are its prefix"),
        pytest.param(["m.a.w", "m.a.b", "m.c.w"], [("m.*", 3)], id="all of a model are its prefix"),
        pytest.param(["m.c.w"], [("m.c.w", 1)], id="the only one of a module is itself"),
        pytest.param([], [], id="none is none"),
    ],
)
def test_names_are_folded_where(names: list[str], expected: list[tuple[str, int]]) -> None:
    assert fold_names(names, ["m.a.w", "m.a.b", "m.c.w"]) == expected


@given(st.sets(st.text("ab.", min_size=1, max_size=6)))
def test_folding_keeps_the_count_of_names(all_names: set[str]) -> None:
    names = sorted(all_names)[::2]
    assert sum(count for _, count in fold_names(names, all_names)) == len(names)
