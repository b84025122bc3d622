from __future__ import annotations

import ast

import pytest

from instrumentor.analysis.arguments import Arguments, match_parameters
from instrumentor.analysis.values import NOTHING, Named, value
from instrumentor.resolve.unit import SCRIPT, index_unit

A, B, C = value(Named("a")), value(Named("b")), value(Named("c"))


@pytest.mark.parametrize(
    ("declared", "arguments", "wanted"),
    [
        pytest.param("x, y", Arguments((A, B)), {"x": A, "y": B}, id="by position"),
        pytest.param("x, *, y", Arguments((A,), {"y": B}), {"x": A, "y": B}, id="by name"),
        pytest.param("x, *rest", Arguments((A, B, C)), {"x": A, "rest": B | C}, id="the rest"),
        pytest.param("x, **rest", Arguments((A,), {"y": B, "z": C}), {"x": A, "rest": B | C}, id="other names"),
        pytest.param("x, y", Arguments((A,), {}, B), {"x": A, "y": B}, id="starred"),
        pytest.param("x, y", Arguments((B,)).behind(Arguments((A,))), {"x": A, "y": B}, id="behind bound ones"),
    ],
)
def test_parameters_get_what_is_passed(declared: str, arguments: Arguments, wanted: dict[str, object]) -> None:
    unit = index_unit(SCRIPT, "", ast.parse(f"def f({declared}): pass"))
    assert match_parameters(unit.functions["f"], None, arguments) == wanted


def test_what_two_calls_pass_is_joined() -> None:
    joined = Arguments((A,), {"x": B}).joined(Arguments((C,), {"y": B}))
    assert joined == Arguments((A | C,), {"x": B, "y": B})
    assert Arguments((A,)).joined(Arguments((B, C))).all() == A | B | C
    assert Arguments().module() == NOTHING
