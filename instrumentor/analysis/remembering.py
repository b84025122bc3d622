"""Which functions run once and return the same object to every caller."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.values import Named, value
from instrumentor.resolve.unit import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.analysis.values import Value
    from instrumentor.resolve.unit import Function

_DECORATORS = value(Named("functools.cache"), Named("functools.lru_cache"))
# Ways around the cache of such a function.
_WAYS_AROUND = frozenset({"cache_clear", "__wrapped__"})


def is_remembering(function: Function, evaluate: Callable[[ast.expr], Value]) -> bool:
    """Whether a function of the script has no parameters and is cached for good by `functools.cache` or `lru_cache`.

    Args:
        function: the function.
        evaluate: the value of an expression at the function's definition.
    """
    node, arguments, unit = function.node, function.node.args, function.unit
    decorators = getattr(node, "decorator_list", [])
    if len(decorators) != 1 or unit.name != SCRIPT or not isinstance(unit.parents.get(node), ast.Module):
        return False
    if function.parameters or arguments.vararg is not None or arguments.kwarg is not None:
        return False
    decorator = decorators[0]
    if isinstance(decorator, ast.Call):  # `lru_cache(maxsize=0)` keeps nothing
        sizes = [*decorator.args, *(each.value for each in decorator.keywords if each.arg == "maxsize")]
        if not all(isinstance(each, ast.Constant) and each.value is None for each in sizes):
            return False
        decorator = decorator.func
    found = evaluate(decorator)
    return bool(found) and found <= _DECORATORS and not any(_names(each) & _WAYS_AROUND for each in unit.parents)


def _names(node: ast.AST) -> frozenset[object]:
    """The attribute that a node reads, or the string that it is, which might name an attribute."""
    if isinstance(node, ast.Attribute):
        return frozenset({node.attr})
    return frozenset({node.value}) if isinstance(node, ast.Constant) else frozenset()
