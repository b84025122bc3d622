"""Which argument a function with a single expression returns, if that depends on which arguments are passed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import default_of, match_parameters
from instrumentor.source.nodes import positional_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.values import Value
    from instrumentor.resolve.unit import Function


def handed_back(function: Function, arguments: Arguments, is_object: Callable[[Value], bool]) -> int | str | None:
    """The position or name of the argument that a call returns; None if unknown.

    Args:
        function: the called function, which has no receiver.
        arguments: the call's arguments.
        is_object: whether a value is never None.
    """
    node = function.node
    body = node.body if isinstance(node, ast.FunctionDef) and not node.decorator_list else []
    returned = body[-1].value if body and isinstance(body[-1], ast.Return) else None
    is_single = len(body) == 1 or (len(body) == 2 and ast.get_docstring(node) is not None)  # type: ignore[arg-type]
    if returned is None or not is_single or function.owner is not None or arguments.rest:
        return None
    return _Reader(function, arguments, is_object).key_of(returned)


class _Reader:
    """Evaluates the expression of a function for one call."""

    def __init__(self, function: Function, arguments: Arguments, is_object: Callable[[Value], bool]) -> None:
        declared = self._declared = function.node.args
        self._function = function
        self._is_object = is_object
        self._given = match_parameters(function, None, arguments)
        self._positional = [each.arg for each in positional_parameters(declared)]
        self._known = {*self._positional, *(each.arg for each in declared.kwonlyargs)}
        self._arguments = arguments

    def key_of(self, node: ast.expr | None) -> int | str | None:
        """The argument that an expression evaluates to."""
        if isinstance(node, ast.Name) and node.id in self._known:
            position = self._positional.index(node.id) if node.id in self._positional else len(self._positional)
            if position < len(self._arguments.positional):
                return position
            return node.id if node.id in self._arguments.keywords else None
        if isinstance(node, ast.IfExp):
            is_none = self._is_none(node.test)
            return None if is_none is None else self.key_of(node.body if is_none else node.orelse)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            return self._rest_key(node.func.value, node.args[0]) if node.args and not node.keywords else None
        return self._rest_key(node.value, node.slice) if isinstance(node, ast.Subscript) else None

    def _rest_key(self, holder: ast.expr, index: ast.expr) -> str | None:
        """The argument under a name in `**kwargs`."""
        rest = self._declared.kwarg
        if rest is None or not isinstance(holder, ast.Name) or holder.id != rest.arg:
            return None
        name = index.value if isinstance(index, ast.Constant) else None
        is_left = isinstance(name, str) and name not in self._known and name in self._arguments.keywords
        return name if is_left else None  # type: ignore[return-value]

    def _is_none(self, test: ast.expr) -> bool | None:
        """Whether a test for None, or its negation, is true; None if unknown."""
        if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or len(test.ops) != 1:
            return None
        operator, other = test.ops[0], test.comparators[0]
        is_about_none = isinstance(other, ast.Constant) and other.value is None
        if not is_about_none or not isinstance(operator, (ast.Is, ast.IsNot)) or test.left.id not in self._known:
            return None
        given = self._given.get(test.left.id)
        if given is None:
            return self._default_is_none(test.left.id, is_asked=isinstance(operator, ast.Is))
        return isinstance(operator, ast.IsNot) if self._is_object(given) else None

    def _default_is_none(self, name: str, *, is_asked: bool) -> bool | None:
        """The same for an omitted parameter, whose default must be None."""
        default = default_of(self._function, name)
        return is_asked if isinstance(default, ast.Constant) and default.value is None else None
