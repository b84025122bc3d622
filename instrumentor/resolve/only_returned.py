"""Whether a function does nothing with an expression's value but return it."""

from __future__ import annotations

import ast
from itertools import takewhile
from typing import TYPE_CHECKING

from instrumentor.resolve.bindings import function_around
from instrumentor.resolve.unit import Function, FunctionContents
from instrumentor.source.nodes import TRIES, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.resolve.unit import Unit

_REPEATED = (
    ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, *TRIES,
)  # fmt: skip


def is_public(unit: Unit, function: ast.AST) -> bool:
    """Whether a function is at the top level of a file, under a name that other files may use."""
    if not isinstance(function, ast.FunctionDef) or unit.parents[function] is not unit.tree:
        return False
    return not function.name.startswith("_")


def function_returning(
    unit: Unit, node: ast.AST, resolve: Callable[[ast.expr], object] | None
) -> ast.FunctionDef | None:
    """The top-level function that returns the value of `node`, once, and does nothing else with it.

    Only its callers and the value's own class, by `self`, get hold of the value. It may be bound to a name that is only
    read to return it, and is returned whenever it was made.

    Args:
        unit: the file.
        node: an expression in it.
        resolve: gives the meaning of a decorator. A decorator of the project is taken to pass the result on, or to
            register the function; one of a library may keep the result. None to ignore decorators.
    """
    function = function_around(unit, node)
    if not isinstance(function, ast.FunctionDef) or unit.parents[function] is not unit.tree:
        return None
    inside = takewhile(lambda each: each is not function, unit.enclosing(node))
    if any(isinstance(each, _REPEATED) for each in inside):
        return None
    if _contents(unit, function).has_yield:
        return None
    statement = unit.parents[node]
    is_returned = isinstance(statement, ast.Return) or _is_named_and_returned(unit, statement, function)
    is_kept = resolve is not None and any(not isinstance(resolve(each), Function) for each in function.decorator_list)
    return function if is_returned and not is_kept else None


def _is_named_and_returned(unit: Unit, statement: ast.AST, function: ast.FunctionDef) -> bool:
    """Whether a statement binds a value to a name that the function only returns."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return False
    uses = [node for node in _contents(unit, function).uses[target.id] if node is not target]
    is_only_returned = all(
        isinstance(node, ast.Name)
        and isinstance(unit.parents[node], ast.Return)
        and function_around(unit, node) is function  # a nested function might keep it
        for node in uses
    )
    return is_only_returned and _is_reached(unit, statement, {unit.parents[node] for node in uses})


def _is_reached(unit: Unit, statement: ast.AST, returns: set[ast.AST]) -> bool:
    """Whether a statement is followed in its block by one of `returns`, with no other exit in between."""
    above = unit.parents[statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, [])
        if statement in block:
            behind = block[block.index(statement) + 1 :]
            following = next((each for each in behind if each in returns or each in unit.exits), None)
            return following in returns
    return False


def _contents(unit: Unit, function: ast.FunctionDef) -> FunctionContents:
    """The contents of a function, cached because many returns ask for them."""
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
