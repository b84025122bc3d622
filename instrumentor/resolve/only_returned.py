"""Whether a function does nothing with what an expression in it gives but return it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.bindings import function_around
from instrumentor.resolve.units import Function, FunctionContents
from instrumentor.source.nodes import TRIES, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.resolve.units import Unit

_REPEATED = (
    ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, *TRIES,
)  # fmt: skip


def is_public(unit: Unit, function: ast.AST) -> bool:
    """Whether a function stands at the top of a file under a name that other files may use."""
    if not isinstance(function, ast.FunctionDef) or unit.parents[function] is not unit.tree:
        return False
    return not function.name.startswith("_")


def function_returning(
    unit: Unit, node: ast.AST, resolve: Callable[[ast.expr], object] | None
) -> ast.FunctionDef | None:
    """The function of a file's top which returns what `node` gives, once, and does nothing else with it.

    Nobody but who calls that function gets hold of it, or its own class, whose methods have it as `self`. It may have a
    name, which is read to be returned and nowhere else, and under which it is returned whenever it was made.

    Args:
        unit: the file.
        node: an expression in it.
        resolve: says what a decorator is. One of the project passes on what its function gives, or registers it; one of
            a library may keep what the function gave. None where decorators do not matter.
    """
    function = function_around(unit, node)
    if not isinstance(function, ast.FunctionDef) or unit.parents[function] is not unit.tree:
        return None
    above: ast.AST = node
    while above is not function:
        above = unit.parents[above]
        if isinstance(above, _REPEATED):
            return None
    if _contents(unit, function).has_yield:
        return None
    statement = unit.parents[node]
    is_returned = isinstance(statement, ast.Return) or _is_named_and_returned(unit, statement, function)
    is_kept = resolve is not None and any(not isinstance(resolve(each), Function) for each in function.decorator_list)
    return function if is_returned and not is_kept else None


def _is_named_and_returned(unit: Unit, statement: ast.AST, function: ast.FunctionDef) -> bool:
    """Whether a statement gives something a name of which a function makes no use but to return it."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return False
    uses = [node for node in _contents(unit, function).uses[target.id] if node is not target]
    is_only_returned = all(
        isinstance(node, ast.Name)
        and isinstance(unit.parents[node], ast.Return)
        and function_around(unit, node) is function  # not one within it, which may keep hold of it
        for node in uses
    )
    return is_only_returned and _is_reached(unit, statement, {unit.parents[node] for node in uses})


def _is_reached(unit: Unit, statement: ast.AST, returns: set[ast.AST]) -> bool:
    """Whether one of some `return` statements follows a statement in its block, and nothing in between may leave it."""
    above = unit.parents[statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, [])
        if statement in block:
            behind = block[block.index(statement) + 1 :]
            following = next((each for each in behind if each in returns or each in unit.exits), None)
            return following in returns
    return False


def _contents(unit: Unit, function: ast.FunctionDef) -> FunctionContents:
    """What lies in a function: looked for once, as each of many returns asks for it."""
    found = unit.contents.get(function)
    if found is None:
        found = unit.contents[function] = _find_contents(function)
    return found


def _find_contents(function: ast.FunctionDef) -> FunctionContents:
    uses: dict[str, list[ast.AST]] = {}
    has_yield = False
    for node in walk(function):
        has_yield |= isinstance(node, (ast.Yield, ast.YieldFrom))
        for name in _names_used(node):
            uses.setdefault(name, []).append(node)
    return FunctionContents(has_yield, uses)


def _names_used(node: ast.AST) -> list[str]:
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return node.names
    if isinstance(node, ast.arg):
        return [node.arg]
    return [node.id] if isinstance(node, ast.Name) else []
