"""The nodes of a tree are those that `ast` tells, in its order; parameters are told by what they take."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.source.nodes import (
    all_parameters,
    children,
    parameters_with_defaults,
    positional_parameters,
    walk,
)

HERE = Path(__file__)
# The parser makes one object of each of these for all trees.
SHARED = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)


@pytest.mark.parametrize(
    "path", [HERE, HERE.parents[1] / "test_cli.py", Path(ast.__file__)], ids=lambda path: path.name
)
def test_they_are_those_of_ast_without_operators_and_contexts(path: Path) -> None:
    tree = ast.parse(path.read_text())
    told = list(ast.walk(tree))
    assert walk(tree) == [node for node in told if not isinstance(node, SHARED)]
    for node in told:
        assert children(node) == [each for each in ast.iter_child_nodes(node) if not isinstance(each, SHARED)]


def test_every_kind_of_node_is_known() -> None:
    source = """
async def f(a: int, /, b=1, *c, d: int = 2, **e) -> int:
    global g
    async with a as b, c: pass
    async for x in y: await z
    return [i async for i in y if i]
@d
class C(B, metaclass=M): x: int = 1
match a:
    case {"k": v, **rest} if v: pass
    case [1, *others] | P(x=0) | None | (1 as y): pass
try: raise E from e
except (A, B) as e: nonlocal_ = lambda x=1, *y: (yield)
else: del a[1:2, ...], b.c
finally: assert a, f"{a!r:>{width}}" "text"
while not -a < b <= c and d: x = y = {**a, 1: {2}}; x += 1; continue
import a.b as c, d
from . import e as f
if (n := 1): a if b else c
"""
    tree = ast.parse(source)
    assert set(walk(tree)) == {each for each in ast.walk(tree) if not isinstance(each, SHARED)}


@pytest.mark.parametrize(
    ("declared", "positional", "everything", "with_defaults"),
    [
        pytest.param("", "", "", "", id="none"),
        pytest.param("a, /, b, *c, d, **e", "ab", "abdce", "", id="of each kind"),
        pytest.param("a, /, b=1, *, c, d=2", "ab", "abcd", "bd", id="with defaults"),
        pytest.param("a=0, /, b=1", "ab", "ab", "ab", id="with defaults for positions alone"),
    ],
)
def test_parameters_are_told_by_what_they_take(
    declared: str, positional: str, everything: str, with_defaults: str
) -> None:
    function = ast.parse(f"lambda {declared}: 0", mode="eval").body
    assert isinstance(function, ast.Lambda)
    assert "".join(each.arg for each in positional_parameters(function.args)) == positional
    assert "".join(each.arg for each in all_parameters(function.args)) == everything
    assert "".join(each.arg for each, _ in parameters_with_defaults(function.args)) == with_defaults
