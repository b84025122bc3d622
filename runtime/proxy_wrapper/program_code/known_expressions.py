"""Computes what expressions of a function stand for, as far as that needs no call of the program's code.

Known are the arguments of the function, its globals, attributes, the shapes and dtypes of tensors, and sums of whole
numbers. Variables that are assigned once stand for what they are assigned.
"""

from __future__ import annotations

import ast
import inspect
import operator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from proxy_wrapper.program_code.outermost_calls import UNKNOWN
from proxy_wrapper.values.describe import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy_wrapper.program_code.syntax import Scope

_DEEPEST: Final = 20
_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_LARGEST: Final = 1 << 40


class KnownExpressions:
    """The values of the expressions of a function.

    Args:
        scope: the syntax of the function.
        arguments: the values of its arguments.
        names: the globals in which it looks up names.
    """

    def __init__(self, scope: Scope, arguments: Mapping[str, Any], names: Mapping[str, Any]) -> None:
        self._scope = scope
        self._arguments = arguments
        self._names = names

    def value(self, node: ast.expr | None, depth: int = 0) -> Any:
        """The value of an expression; `UNKNOWN` if it is not known."""
        found: Any = UNKNOWN
        if node is None or depth > _DEEPEST:
            return found
        if isinstance(node, ast.Constant):
            found = node.value
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            operand = self.value(node.operand, depth + 1)
            found = -operand if type(operand) is int else UNKNOWN
        elif isinstance(node, ast.Name):
            found = self._variable(node.id, depth + 1)
        elif isinstance(node, ast.Attribute):
            found = _attribute(self.value(node.value, depth + 1), node.attr)
        elif isinstance(node, ast.Subscript):
            found = _item(self.value(node.value, depth + 1), self.value(node.slice, depth + 1))
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            sides = (self.value(node.left, depth + 1), self.value(node.right, depth + 1))
            if all(type(each) is int and abs(each) < _LARGEST for each in sides):
                found = _OPERATORS[type(node.op)](*sides)
        elif isinstance(node, ast.Call) and not node.keywords and len(node.args) <= 1:
            found = self._size(node, depth + 1)
        return found

    def _variable(self, name: str, depth: int) -> Any:
        scope = self._scope
        stores = len(scope.stores(name))
        given = self._arguments.get(name, UNKNOWN)
        if name in self._arguments and (not stores or given is not None):
            return UNKNOWN if stores else given
        if not stores:
            return self._names.get(name, UNKNOWN)
        for target, value in scope.assignments if stores == 1 else ():
            if isinstance(target, ast.Name) and target.id == name:
                return self.value(value, depth)
            elements = target.elts if isinstance(target, ast.Tuple) else []
            places = [place for place, each in enumerate(elements) if isinstance(each, ast.Name) and each.id == name]
            if places and not any(isinstance(each, ast.Starred) for each in elements):
                return _item(self.value(value, depth), places[0])
        return UNKNOWN

    def _size(self, call: ast.Call, depth: int) -> Any:
        """The value of `x.size()`, `x.size(0)` or `len(x)`."""
        if isinstance(call.func, ast.Name) and call.func.id == "len" and call.args:
            shape, index = _attribute(self.value(call.args[0], depth), "shape"), 0
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "size":
            shape = _attribute(self.value(call.func.value, depth), "shape")
            if not call.args:
                return shape
            index = self.value(call.args[0], depth)
        else:
            return UNKNOWN
        return _item(shape, index)


def _attribute(value: Any, name: str) -> Any:
    """An attribute, looked up without running the program's code."""
    if type(value) in PLAIN:
        return {"dtype": value.dtype, "shape": tuple(value.shape)}.get(name, UNKNOWN)
    if isinstance(value, nn.Module):
        for held in ("_parameters", "_buffers", "_modules"):
            found = (vars(value).get(held) or {}).get(name, UNKNOWN)
            if found is not UNKNOWN:
                return found
    found = UNKNOWN if value is UNKNOWN else inspect.getattr_static(value, name, UNKNOWN)
    is_plain = type(found) in (int, torch.dtype, *PLAIN) or isinstance(value, ModuleType)
    return found if is_plain else UNKNOWN if hasattr(type(found), "__get__") else found


def _item(value: Any, index: Any) -> Any:
    is_known = type(value) is tuple and type(index) is int and -len(value) <= index < len(value)
    return value[index] if is_known else UNKNOWN
