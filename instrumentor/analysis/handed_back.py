"""Which argument a function with a single expression returns, if that depends on which arguments are passed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import match_numbers, match_parameters
from instrumentor.source.nodes import named_parameters, parameters_with_defaults

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.environment import Number
    from instrumentor.analysis.values import Value
    from instrumentor.resolve.unit import Function


def handed_back(function: Function, arguments: Arguments, is_object: Callable[[Value], bool]) -> Number:
    """The number of the argument that a call returns; None if unknown.

    Args:
        function: the called function, which has no receiver.
        arguments: the call's arguments.
        is_object: whether a value is never None.
    """
    node = function.node
    body = node.body if isinstance(node, ast.FunctionDef) and not node.decorator_list else []
    body = body[1:] if body and ast.get_docstring(node) is not None else body  # type: ignore[arg-type]
    returned = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    if function.owner is not None or arguments.rest:
        return None
    named = {each.arg for each in named_parameters(node.args)}
    given = match_parameters(function, None, arguments)
    omitted = {each.arg for each, default in parameters_with_defaults(node.args) if _is_none(default)} - given.keys()
    while isinstance(returned, ast.IfExp):
        test = returned.test
        name = test.left.id if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) else ""
        is_known = name in omitted or (name in named and name in given and is_object(given[name]))
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not _is_none(test.comparators[0]) or not is_known:
            return None
        if not isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            return None
        returned = returned.body if isinstance(test.ops[0], ast.Is) is (name in omitted) else returned.orelse
    if isinstance(returned, ast.Name):
        return match_numbers(function, None, arguments).get(returned.id) if returned.id in named else None
    # An argument under a name in `**kwargs`.
    is_get = isinstance(returned, ast.Call) and isinstance(returned.func, ast.Attribute) and returned.func.attr == "get"
    holder = returned.func.value if is_get else getattr(returned, "value", None)  # type: ignore[union-attr]
    index = next(iter(returned.args), None) if is_get else getattr(returned, "slice", None)  # type: ignore[union-attr]
    is_rest = node.args.kwarg is not None and isinstance(holder, ast.Name) and holder.id == node.args.kwarg.arg
    key = index.value if is_rest and isinstance(index, ast.Constant) else None
    return arguments.numbers.get(key) if isinstance(key, str) and key not in named else None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
