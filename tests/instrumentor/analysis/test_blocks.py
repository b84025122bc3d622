from __future__ import annotations

import ast

import pytest

from instrumentor.analysis.blocks import Blocks, always_follows
from instrumentor.resolve.unit import SCRIPT, index_unit


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("first()\nlater()", True, id="in a row"),
        pytest.param("if c:\n    first()\nlater()", True, id="behind the branch"),
        pytest.param("first()\nif c:\n    later()", False, id="in a branch"),
        pytest.param("if c:\n    first()\nelse:\n    later()", False, id="in the other branch"),
        pytest.param("for i in x:\n    first()\nlater()", True, id="behind the loop"),
        pytest.param("first()\nfor i in x:\n    later()", False, id="in a loop"),
        pytest.param("while c:\n    first()\n    later()", True, id="in the same round"),
        pytest.param("first()\nwith c:\n    later()", True, id="in a with block"),
        pytest.param("first()\ntry:\n    later()\nexcept E:\n    pass", False, id="in a try block"),
        pytest.param("try:\n    first()\nfinally:\n    later()", True, id="in the final block"),
        pytest.param("try:\n    first()\n    later()\nexcept E:\n    pass", True, id="next where exceptions end"),
        pytest.param(
            "try:\n    first()\n    x = y\n    later()\nexcept E:\n    pass", True, id="behind what cannot raise"
        ),
        pytest.param(
            "try:\n    first()\n    other()\n    later()\nexcept E:\n    pass", False, id="behind what may raise"
        ),
        pytest.param(
            "try:\n    with c:\n        first()\n        other()\n    later()\nexcept E:\n    pass",
            False,
            id="behind the rest of a block",
        ),
        pytest.param("try:\n    first()\nexcept E:\n    pass\nlater()", True, id="behind the handlers"),
        pytest.param("def f():\n    first()\n    if c:\n        return\n    later()", False, id="behind a return"),
        pytest.param("def f():\n    if c:\n        return\n    first()\n    later()", True, id="after a return"),
        pytest.param("def f():\n    if c:\n        first()\n        return\n    later()", False, id="returned from"),
        pytest.param(
            "while c:\n    with first():\n        continue\n    later()", False, id="behind the head of what leaves"
        ),
        pytest.param("while c:\n    first()\n    if c:\n        continue\n    later()", False, id="behind continue"),
        pytest.param(
            "while c:\n    first()\n    while c:\n        break\n    later()", True, id="behind an inner loop"
        ),
        pytest.param("def f():\n    with c:\n        first()\n    later()\n    return", True, id="behind a with block"),
        pytest.param(
            "def f():\n    first()\n    with c:\n        if c:\n            return\n        later()",
            False,
            id="in a block behind a return",
        ),
        pytest.param("first()\nx = later() if c else 1", False, id="in an operand"),
        pytest.param("x = first() if c else 1\nlater()", True, id="behind the expression"),
        pytest.param("first()\nx = c and later()", False, id="behind a condition"),
        pytest.param("first()\nx = later() and c", True, id="as the condition"),
        pytest.param("first()\nmatch x:\n    case 1:\n        later()", False, id="in a case"),
    ],
)
def test_what_always_follows(text: str, wanted: bool) -> None:
    unit = index_unit(SCRIPT, "", ast.parse(text))
    calls = {
        node.func.id: Blocks().conditions_of(unit, node)
        for node in ast.walk(unit.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert always_follows(calls["later"], calls["first"]) is wanted


def test_what_runs_whenever_its_function_does() -> None:
    tree = ast.parse("def f():\n    first()\n    if c:\n        return\n    later()")
    unit = index_unit(SCRIPT, "", tree)
    first, later = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    assert always_follows(Blocks().conditions_of(unit, first), ())
    assert not always_follows(Blocks().conditions_of(unit, later), ())
